import pytest
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import NATIVE_MINT, SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from devnode.parsing.token_state import holding, is_mint, is_token_account, mint_decimals

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
