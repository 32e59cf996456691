import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from spl.token import instructions as spl
from spl.token import models
from spl.token.constants import TOKEN_PROGRAM_ID

from devnode.parsing.instructions import ui_instruction
from devnode.parsing.token_instructions import parse_token_instruction

A, B, C, D, E = (Pubkey.from_bytes(bytes([number]) * 32) for number in range(1, 6))
TOKEN = {"program_id": TOKEN_PROGRAM_ID}


def parsed(instruction: Instruction) -> Any:
    accounts = tuple(str(meta.pubkey) for meta in instruction.accounts)
    shown = ui_instruction(str(instruction.program_id), accounts, instruction.data, 1)
    assert shown["program"] == "spl-token"
    return shown["parsed"]


def test_transfers_as_an_independent_library_builds_them() -> None:
    plain = spl.transfer(models.TransferParams(**TOKEN, source=A, dest=B, owner=C, amount=2**64 - 1, signers=[]))
    assert parsed(plain) == {
        "info": {"amount": str(2**64 - 1), "authority": str(C), "destination": str(B), "source": str(A)},
        "type": "transfer",
    }
    checked = spl.transfer_checked(
        models.TransferCheckedParams(
            **TOKEN, source=A, mint=D, dest=B, owner=C, amount=1_500_000, decimals=6, signers=[]
        )
    )
    assert parsed(checked) == {
        "info": {
            "authority": str(C),
            "destination": str(B),
            "mint": str(D),
            "source": str(A),
            "tokenAmount": {"amount": "1500000", "decimals": 6, "uiAmount": 1.5, "uiAmountString": "1.5"},
        },
        "type": "transferChecked",
    }


def test_accounts_after_the_authority_are_shown_as_a_multisig() -> None:
    """As on a node, the number of accounts decides; a payment reference after the authority has the same effect."""
    shown = parsed(spl.transfer(models.TransferParams(**TOKEN, source=A, dest=B, owner=C, amount=1, signers=[D, E])))
    assert shown["info"]["multisigAuthority"] == str(C) and shown["info"]["signers"] == [str(D), str(E)]
    assert "authority" not in shown["info"]


def test_other_instructions_of_the_base_program() -> None:
    mint_to = spl.mint_to(models.MintToParams(**TOKEN, mint=A, dest=B, mint_authority=C, amount=5, signers=[]))
    assert parsed(mint_to)["info"] == {"account": str(B), "amount": "5", "mint": str(A), "mintAuthority": str(C)}
    burn = spl.burn(models.BurnParams(**TOKEN, account=A, mint=B, owner=C, amount=5, signers=[]))
    assert parsed(burn)["info"] == {"account": str(A), "amount": "5", "authority": str(C), "mint": str(B)}
    close = spl.close_account(models.CloseAccountParams(**TOKEN, account=A, dest=B, owner=C, signers=[]))
    assert parsed(close) == {
        "info": {"account": str(A), "destination": str(B), "owner": str(C)},
        "type": "closeAccount",
    }
    approve = spl.approve(models.ApproveParams(**TOKEN, source=A, delegate=B, owner=C, amount=5, signers=[]))
    assert parsed(approve)["info"] == {"amount": "5", "delegate": str(B), "owner": str(C), "source": str(A)}
    revoke = spl.revoke(models.RevokeParams(**TOKEN, account=A, owner=C, signers=[]))
    assert parsed(revoke) == {"info": {"owner": str(C), "source": str(A)}, "type": "revoke"}
    sync = spl.sync_native(models.SyncNativeParams(**TOKEN, account=A))
    assert parsed(sync) == {"info": {"account": str(A)}, "type": "syncNative"}
    start = spl.initialize_mint(
        models.InitializeMintParams(**TOKEN, mint=A, decimals=6, mint_authority=B, freeze_authority=C)
    )
    assert parsed(start)["info"]["freezeAuthority"] == str(C) and parsed(start)["type"] == "initializeMint"
    account = spl.initialize_account(models.InitializeAccountParams(**TOKEN, account=A, mint=B, owner=C))
    assert parsed(account)["info"]["owner"] == str(C) and parsed(account)["type"] == "initializeAccount"


def test_authorities() -> None:
    """The type of authority decides whether the target is a mint or an account; a removed authority is null."""
    data = bytes([6, 2, 1]) + bytes(D)
    assert parse_token_instruction(data, (str(A), str(C))) == {
        "info": {
            "account": str(A),
            "authority": str(C),
            "authorityType": "accountOwner",
            "newAuthority": str(D),
        },
        "type": "setAuthority",
    }
    dropped = parse_token_instruction(bytes([6, 0, 0]), (str(A), str(C)))
    assert dropped is not None and dropped["info"]["mint"] == str(A) and dropped["info"]["newAuthority"] is None


def test_a_batch_shows_its_parts() -> None:
    """The transfers of a batch make no inner instructions, so the batch itself must show them."""
    transfer = b"\x03" + (7).to_bytes(8, "little")
    data = b"\xff" + (bytes([3, 9]) + transfer) * 2
    shown = parse_token_instruction(data, tuple("abcdef"))
    assert shown is not None and shown["type"] == "batch"
    assert [part["info"]["source"] for part in shown["info"]["instructions"]] == ["a", "d"]
    nested = b"\xff" + bytes([3, 1]) + b"\xff"
    assert parse_token_instruction(nested, tuple("abc")) is None
    assert parse_token_instruction(data, tuple("abc")) is None


def test_a_transfer_with_fee_of_token_2022() -> None:
    data = bytes([26, 1]) + struct.pack("<QBQ", 100, 2, 3)
    shown = parse_token_instruction(data, tuple("abcd"))
    assert shown is not None and shown["type"] == "transferCheckedWithFee"
    assert shown["info"]["feeAmount"]["amount"] == "3" and shown["info"]["tokenAmount"]["uiAmountString"] == "1"
    assert shown["info"]["authority"] == "d"


@given(st.binary(max_size=80), st.integers(0, 6))
def test_no_bytes_crash_it(data: bytes, accounts: int) -> None:
    shown = ui_instruction(str(TOKEN_PROGRAM_ID), tuple("abcdef"[:accounts]), data, 1)
    assert shown["programId"] == str(TOKEN_PROGRAM_ID)
