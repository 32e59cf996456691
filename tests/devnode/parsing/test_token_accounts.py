import struct

import pytest
from solders.account import Account
from solders.pubkey import Pubkey
from solders.token.state import Mint, Multisig, TokenAccount, TokenAccountState

from devnode.encoding.addresses import NATIVE_MINT, SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from devnode.parsing.token_accounts import holding, is_mint, is_token_account, mint_decimals, parse_token_account

MINT, OWNER, DELEGATE = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def token_data(amount: int = 7, state: int = 1, delegate: Pubkey | None = None) -> bytes:
    option = bytes(36) if delegate is None else b"\x01\x00\x00\x00" + bytes(delegate)
    head = bytes(MINT) + bytes(OWNER) + amount.to_bytes(8, "little") + option + bytes([state])
    return head + bytes(165 - len(head))


def mint_data(decimals: int = 6) -> bytes:
    return bytes(36) + (9).to_bytes(8, "little") + bytes([decimals, 1]) + bytes(36)


def owned(program: Pubkey, data: bytes) -> Account:
    return Account(1, data, program, False, 0)


def test_a_token_account_is_read() -> None:
    held = holding(owned(TOKEN_PROGRAM, token_data(delegate=DELEGATE)))
    assert held is not None
    assert (held.mint, held.owner, held.delegate) == (MINT, OWNER, DELEGATE)
    assert (held.amount, held.program) == (7, TOKEN_PROGRAM)


@pytest.mark.parametrize(
    "account",
    [
        None,
        owned(SYSTEM_PROGRAM, token_data()),
        owned(TOKEN_PROGRAM, token_data(state=0)),
        owned(TOKEN_PROGRAM, mint_data()),
        owned(TOKEN_PROGRAM, bytes(355)),
        owned(TOKEN_2022_PROGRAM, token_data() + b"\x01" + bytes(10)),
    ],
)
def test_other_accounts_are_not_read_as_token_accounts(account: Account | None) -> None:
    assert holding(account) is None


def test_the_type_byte_tells_accounts_from_mints() -> None:
    """With Token-2022 extensions both may have any length above 165, so the type byte decides."""
    account = token_data() + b"\x02" + bytes(4)
    mint = mint_data() + bytes(165 - 82) + b"\x01" + bytes(4)
    assert is_token_account(account) and not is_mint(account)
    assert is_mint(mint) and not is_token_account(mint)


def test_decimals() -> None:
    """Decimals come only from a mint that a token program owns; wrapped SOL has 9 even where no mint is stored."""
    assert mint_decimals(MINT, owned(TOKEN_PROGRAM, mint_data(3))) == 3
    assert mint_decimals(MINT, None) is None
    assert mint_decimals(MINT, owned(SYSTEM_PROGRAM, mint_data(3))) is None
    assert mint_decimals(NATIVE_MINT, None) == 9


A, B, C = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def decimals(mint: Pubkey) -> int | None:
    return 6 if mint == A else None


def account(mint: Pubkey = A, **fields: object) -> bytes:
    given: dict[str, object] = {
        "mint": mint,
        "owner": B,
        "amount": 1_500_000,
        "delegate": None,
        "state": TokenAccountState.Initialized,
        "is_native": None,
        "delegated_amount": 0,
        "close_authority": None,
    }
    return bytes(TokenAccount(**(given | fields)))  # type: ignore[arg-type]


def test_a_plain_account() -> None:
    """Fields that are not set (delegate, close authority, rent reserve) are left out, as Agave does, not null."""
    assert parse_token_account(account(), decimals) == {
        "info": {
            "isNative": False,
            "mint": str(A),
            "owner": str(B),
            "state": "initialized",
            "tokenAmount": {"amount": "1500000", "decimals": 6, "uiAmount": 1.5, "uiAmountString": "1.5"},
        },
        "type": "account",
    }


def test_optional_parts_appear_where_they_are_set() -> None:
    data = account(
        delegate=C, delegated_amount=500_000, close_authority=B, is_native=2_039_280, state=TokenAccountState.Frozen
    )
    shown = parse_token_account(data, decimals)
    assert shown is not None
    info = shown["info"]
    assert (info["delegate"], info["closeAuthority"]) == (str(C), str(B))
    assert info["isNative"] is True and info["state"] == "frozen"
    assert info["delegatedAmount"]["amount"] == "500000" and info["rentExemptReserve"]["amount"] == "2039280"


def test_an_account_of_an_unknown_mint_is_not_parsed() -> None:
    assert parse_token_account(account(mint=C), decimals) is None


def test_a_mint_and_a_multisig() -> None:
    mint = Mint(mint_authority=B, supply=77, decimals=9, is_initialized=True, freeze_authority=None)
    assert parse_token_account(bytes(mint), decimals) == {
        "info": {
            "decimals": 9,
            "freezeAuthority": None,
            "isInitialized": True,
            "mintAuthority": str(B),
            "supply": "77",
        },
        "type": "mint",
    }
    signers = [A, B, *[Pubkey.default()] * 9]
    multisig = Multisig(m=1, n=2, is_initialized=True, signers=signers)
    assert parse_token_account(bytes(multisig), decimals) == {
        "info": {
            "isInitialized": True,
            "numRequiredSigners": 1,
            "numValidSigners": 2,
            "signers": [str(A), str(B)],
        },
        "type": "multisig",
    }


def extension(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", kind, len(value)) + value


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode()


def test_extensions_of_token_2022() -> None:
    mint = bytes(Mint(mint_authority=B, supply=1, decimals=2, is_initialized=True, freeze_authority=None))
    words = text("Name") + text("SYM") + text("uri") + struct.pack("<I", 1) + text("k") + text("v")
    metadata = bytes(32) + bytes(A) + words
    older, newer = struct.pack("<QQH", 1, 100, 50), struct.pack("<QQH", 2, 200, 60)
    fee = bytes(A) + bytes(32) + struct.pack("<Q", 4) + older + newer
    data = (
        mint
        + bytes(165 - 82)
        + b"\x01"
        + extension(1, fee)
        + extension(9, b"")
        + extension(18, bytes(A) + bytes(B))
        + extension(19, metadata)
        + extension(999, bytes(65))
        + extension(3, b"short")
    )
    shown = parse_token_account(data, decimals)
    assert shown is not None
    fees, plain, pointer, described, unknown, broken = shown["info"]["extensions"]
    assert fees["state"]["newerTransferFee"] == {"epoch": 2, "maximumFee": 200, "transferFeeBasisPoints": 60}
    assert fees["state"]["transferFeeConfigAuthority"] == str(A) and fees["state"]["withdrawWithheldAuthority"] is None
    assert plain == {"extension": "nonTransferable"}
    assert pointer["state"] == {"authority": str(A), "metadataAddress": str(B)}
    assert described["state"]["name"] == "Name" and described["state"]["additionalMetadata"] == [["k", "v"]]
    assert unknown == broken == {"extension": "unparseableExtension"}


def test_an_account_with_an_immutable_owner() -> None:
    shown = parse_token_account(account() + b"\x02" + extension(7, b""), decimals)
    assert shown is not None and shown["info"]["extensions"] == [{"extension": "immutableOwner"}]
