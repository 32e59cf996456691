import struct
from typing import Any

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders import system_program as system
from solders.address_lookup_table_account import derive_lookup_table_address
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from devnode.encoding.addresses import ADDRESS_LOOKUP_TABLE_PROGRAM, ASSOCIATED_TOKEN_PROGRAM
from devnode.parsing.instructions import memo_text, ui_instruction
from tests.devnode.encoding.test_wire import MEMO as MEMO_KEY
from tests.devnode.local_node import LocalNode, give


def test_memos_are_shown_with_their_length(local: LocalNode) -> None:
    payer = local.wallet()
    record = local.land(local.signed(payer, Instruction(MEMO_KEY, "é".encode(), []), Instruction(MEMO_KEY, b"two", [])))
    assert memo_text(record) == "[2] é; [3] two"


def test_no_memo_is_none(local: LocalNode) -> None:
    payer = local.wallet()
    assert memo_text(local.land(local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_000)))) is None


A, B, C, D = (Pubkey.from_bytes(bytes([number]) * 32) for number in range(1, 5))
NAMES = tuple(f"account{number}" for number in range(8))
SYSTEM = "11111111111111111111111111111111"
MEMO = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"


def parsed(instruction: Instruction) -> Any:
    accounts = tuple(str(meta.pubkey) for meta in instruction.accounts)
    return ui_instruction(str(instruction.program_id), accounts, instruction.data, 1)["parsed"]


def test_system_instructions_as_an_independent_library_builds_them() -> None:
    """Every System instruction that solders can build is parsed with its values."""
    transfer = system.transfer(system.TransferParams(from_pubkey=A, to_pubkey=B, lamports=5))
    assert parsed(transfer) == {
        "info": {"destination": str(B), "lamports": 5, "source": str(A)},
        "type": "transfer",
    }
    create = system.create_account(
        system.CreateAccountParams(from_pubkey=A, to_pubkey=B, lamports=7, space=80, owner=C)
    )
    assert parsed(create) == {
        "info": {"lamports": 7, "newAccount": str(B), "owner": str(C), "source": str(A), "space": 80},
        "type": "createAccount",
    }
    seeded = system.create_account_with_seed(
        system.CreateAccountWithSeedParams(
            from_pubkey=A, to_pubkey=B, base=C, seed="seed é", lamports=1, space=2, owner=D
        )
    )
    assert parsed(seeded)["info"] | {"source": 0} == {
        "base": str(C),
        "lamports": 1,
        "newAccount": str(B),
        "owner": str(D),
        "seed": "seed é",
        "source": 0,
        "space": 2,
    }
    assign = system.assign(system.AssignParams(pubkey=A, owner=B))
    assert parsed(assign) == {"info": {"account": str(A), "owner": str(B)}, "type": "assign"}
    allocate = system.allocate(system.AllocateParams(pubkey=A, space=9))
    assert parsed(allocate) == {"info": {"account": str(A), "space": 9}, "type": "allocate"}
    with_seed = system.transfer_with_seed(
        system.TransferWithSeedParams(from_pubkey=A, from_base=B, from_seed="s", from_owner=C, to_pubkey=D, lamports=3)
    )
    assert parsed(with_seed) == {
        "info": {
            "destination": str(D),
            "lamports": 3,
            "source": str(A),
            "sourceBase": str(B),
            "sourceOwner": str(C),
            "sourceSeed": "s",
        },
        "type": "transferWithSeed",
    }


def test_nonce_instructions() -> None:
    """Each nonce instruction has Agave's type name and role names."""
    advance = parsed(
        system.advance_nonce_account(system.AdvanceNonceAccountParams(nonce_pubkey=A, authorized_pubkey=B))
    )
    assert advance["type"] == "advanceNonce"
    assert (advance["info"]["nonceAccount"], advance["info"]["nonceAuthority"]) == (str(A), str(B))
    start = parsed(system.initialize_nonce_account(system.InitializeNonceAccountParams(nonce_pubkey=A, authority=B)))
    assert start["type"] == "initializeNonce" and start["info"]["nonceAuthority"] == str(B)
    withdraw = parsed(
        system.withdraw_nonce_account(
            system.WithdrawNonceAccountParams(nonce_pubkey=A, authorized_pubkey=B, to_pubkey=C, lamports=4)
        )
    )
    assert withdraw["type"] == "withdrawFromNonce"
    assert (withdraw["info"]["destination"], withdraw["info"]["lamports"]) == (str(C), 4)
    authorize = parsed(
        system.authorize_nonce_account(
            system.AuthorizeNonceAccountParams(nonce_pubkey=A, authorized_pubkey=B, new_authority=C)
        )
    )
    assert authorize["info"] == {"newAuthorized": str(C), "nonceAccount": str(A), "nonceAuthority": str(B)}


def test_prefunded_creation_names_a_payer_only_when_there_is_one() -> None:
    def shown(lamports: int) -> Any:
        data = struct.pack("<IQQ", 13, lamports, 80) + bytes(A)
        return ui_instruction(SYSTEM, NAMES[:2], data, 1)["parsed"]["info"]

    assert shown(0) == {"newAccount": "account0", "owner": str(A), "space": 80}
    assert shown(5) == {"lamports": 5, "newAccount": "account0", "owner": str(A), "source": "account1", "space": 80}


@pytest.mark.parametrize(("data", "kind"), [(b"", "create"), (b"\x00", "create"), (b"\x01", "createIdempotent")])
def test_associated_token_account(data: bytes, kind: str) -> None:
    """Empty data and 0 are `create`, 1 is `createIdempotent`; the six accounts have Agave's role names."""
    shown = ui_instruction(str(ASSOCIATED_TOKEN_PROGRAM), NAMES[:6], data, 2)
    assert shown["program"] == "spl-associated-token-account" and shown["stackHeight"] == 2
    assert shown["parsed"] == {
        "info": {
            "account": "account1",
            "mint": "account3",
            "source": "account0",
            "systemProgram": "account4",
            "tokenProgram": "account5",
            "wallet": "account2",
        },
        "type": kind,
    }


def test_lookup_table() -> None:
    """All five lookup table instructions have their type, and all new addresses are listed."""
    table, bump = derive_lookup_table_address(A, 77)
    create = struct.pack("<IQB", 0, 77, bump)
    shown = ui_instruction(str(ADDRESS_LOOKUP_TABLE_PROGRAM), (str(table), *NAMES[:3]), create, 1)
    assert shown["parsed"]["info"]["recentSlot"] == 77 and shown["parsed"]["info"]["bumpSeed"] == bump
    extend = struct.pack("<IQ", 2, 2) + bytes(A) + bytes(B)
    info = ui_instruction(str(ADDRESS_LOOKUP_TABLE_PROGRAM), NAMES[:4], extend, 1)["parsed"]["info"]
    assert info["newAddresses"] == [str(A), str(B)] and info["payerAccount"] == "account2"
    for kind, name in ((1, "freezeLookupTable"), (3, "deactivateLookupTable"), (4, "closeLookupTable")):
        data = struct.pack("<I", kind)
        assert ui_instruction(str(ADDRESS_LOOKUP_TABLE_PROGRAM), NAMES[:3], data, 1)["parsed"]["type"] == name


def test_a_memo_is_its_own_text() -> None:
    shown = ui_instruction(MEMO, (), "héllo".encode(), None)
    assert (shown["program"], shown["parsed"], shown["stackHeight"]) == ("spl-memo", "héllo", None)


def test_unknown_instructions_are_shown_raw() -> None:
    """Unknown programs, the compute budget program and malformed instructions stay as raw data."""
    budget = "ComputeBudget111111111111111111111111111111"
    expected = {"accounts": [], "data": base58.b58encode(b"\x02").decode(), "programId": budget, "stackHeight": 1}
    assert ui_instruction(budget, (), b"\x02", 1) == expected
    transfer = struct.pack("<IQ", 2, 5)
    assert "parsed" not in ui_instruction(SYSTEM, NAMES[:1], transfer, 1)
    assert "parsed" not in ui_instruction(MEMO, (), b"\xff\xfe", 1)


@given(
    st.sampled_from([SYSTEM, MEMO, str(ASSOCIATED_TOKEN_PROGRAM), str(ADDRESS_LOOKUP_TABLE_PROGRAM)]),
    st.integers(0, 8),
    st.one_of(
        st.binary(max_size=60),
        st.builds(lambda kind, rest: struct.pack("<I", kind) + rest, st.integers(0, 15), st.binary(max_size=60)),
    ),
)
def test_no_bytes_crash_it(program: str, accounts: int, data: bytes) -> None:
    shown = ui_instruction(program, NAMES[:accounts], data, 1)
    assert shown["programId"] == program
