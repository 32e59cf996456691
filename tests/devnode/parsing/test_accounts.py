import struct

from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding import addresses
from devnode.parsing.accounts import parse_account
from tests.devnode.local_node import LocalNode
from tests.devnode.records.test_blockhashes import VALUE, nonce_account

A, B = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2))


def parsed(pubkey: Pubkey, owner: Pubkey, data: bytes) -> object:
    return parse_account(pubkey, Account(1, data, owner, False, 0), data, lambda mint: 6)


def test_a_nonce() -> None:
    """A nonce account shows authority, blockhash and fee in Agave's layout; an uninitialised one stays raw."""
    account = nonce_account()
    assert parse_account(A, account, account.data, lambda mint: None) == {
        "parsed": {
            "info": {
                "authority": str(Pubkey.default()),
                "blockhash": str(VALUE),
                "feeCalculator": {"lamportsPerSignature": "5000"},
            },
            "type": "initialized",
        },
        "program": "nonce",
        "space": 80,
    }
    assert parsed(A, addresses.SYSTEM_PROGRAM, bytes(80)) is None
    assert parsed(A, addresses.SYSTEM_PROGRAM, b"") is None


def test_a_lookup_table() -> None:
    """All addresses after the header are listed, in order, with 64-bit slots as text."""
    head = struct.pack("<IQQBB", 1, 2**64 - 1, 55, 0, 1) + bytes(A) + bytes(2)
    shown = parsed(B, addresses.ADDRESS_LOOKUP_TABLE_PROGRAM, head + bytes(B) + bytes(A))
    assert shown == {
        "parsed": {
            "info": {
                "addresses": [str(B), str(A)],
                "authority": str(A),
                "deactivationSlot": str(2**64 - 1),
                "lastExtendedSlot": "55",
                "lastExtendedSlotStartIndex": 0,
            },
            "type": "lookupTable",
        },
        "program": "address-lookup-table",
        "space": 56 + 64,
    }


def test_the_sysvars_of_a_running_chain(local: LocalNode) -> None:
    """Sysvars of the VM have the form of a node and agree with the chain."""
    read = {}
    for pubkey in addresses.SYSVARS:
        account = local.chain.vm.account(pubkey)
        if account is not None and pubkey != addresses.SYSVAR_SLOT_HISTORY:
            shown = parse_account(pubkey, account, account.data, lambda mint: None)
            assert shown is not None and shown["program"] == "sysvar", pubkey
            read[shown["parsed"]["type"]] = shown["parsed"]["info"]
    slot = local.chain.levels.building.slot
    assert (read["clock"]["slot"], read["clock"]["unixTimestamp"]) == (slot, local.chain.opened_unix_time)
    assert read["slotHashes"][0] == {"hash": str(local.blockhash()), "slot": slot - 1}
    assert int(read["rent"]["lamportsPerByteYear"]) > 0
    assert set(read) >= {"clock", "epochSchedule", "rent", "slotHashes", "recentBlockhashes", "stakeHistory"}
    assert read["epochSchedule"]["slotsPerEpoch"] == 432_000


def test_a_program() -> None:
    """A program account points to its program data, which has the code."""
    data = (2).to_bytes(4, "little") + bytes(A)
    shown = parsed(B, addresses.UPGRADEABLE_LOADER, data)
    assert shown == {
        "parsed": {"info": {"programData": str(A)}, "type": "program"},
        "program": "bpf-upgradeable-loader",
        "space": 36,
    }


@given(
    st.sampled_from(
        [
            addresses.SYSTEM_PROGRAM,
            addresses.TOKEN_PROGRAM,
            addresses.TOKEN_2022_PROGRAM,
            addresses.ADDRESS_LOOKUP_TABLE_PROGRAM,
            addresses.UPGRADEABLE_LOADER,
            addresses.SYSVAR_OWNER,
            A,
        ]
    ),
    st.sampled_from([*addresses.SYSVARS, B]),
    st.one_of(st.binary(max_size=400), st.sampled_from([bytes([1]) * size for size in (82, 165, 170, 355)])),
)
def test_no_bytes_crash_it(owner: Pubkey, pubkey: Pubkey, data: bytes) -> None:
    parsed(pubkey, owner, data)
