"""The shapes are those of Agave's account-decoder: parse_stake, parse_vote, parse_config and parse_bpf_loader."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from devnode.encoding import addresses
from devnode.parsing.validators import STAKE_CONFIG, VALIDATOR_INFO, parse_config, parse_stake, parse_vote
from tests.devnode.local_node import LocalNode
from tests.devnode.parsing.test_accounts import parsed

A, B, C = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2, 3))
META = struct.pack("<Q", 42) + bytes(A) + bytes(B) + struct.pack("<qQ", -1, 7) + bytes(C)
SHOWN_META = {
    "rentExemptReserve": "42",
    "authorized": {"staker": str(A), "withdrawer": str(B)},
    "lockup": {"unixTimestamp": -1, "epoch": 7, "custodian": str(C)},
}


def kind(number: int) -> bytes:
    return number.to_bytes(4, "little")


def listed(*items: bytes) -> bytes:
    return len(items).to_bytes(8, "little") + b"".join(items)


def test_stake_accounts_in_their_four_states() -> None:
    delegation = bytes(C) + struct.pack("<QQQdQ", 20, 2, 2**64 - 1, 0.25, 10)
    assert parsed(A, addresses.STAKE_PROGRAM, (kind(2) + META + delegation).ljust(200, b"\0")) == {
        "parsed": {
            "type": "delegated",
            "info": {
                "meta": SHOWN_META,
                "stake": {
                    "creditsObserved": 10,
                    "delegation": {
                        "voter": str(C),
                        "stake": "20",
                        "activationEpoch": "2",
                        "deactivationEpoch": str(2**64 - 1),
                        "warmupCooldownRate": 0.25,
                    },
                },
            },
        },
        "program": "stake",
        "space": 200,
    }
    assert parse_stake(kind(1) + META) == {"type": "initialized", "info": {"meta": SHOWN_META, "stake": None}}
    assert parse_stake(kind(0)) == {"type": "uninitialized"}
    assert parse_stake(kind(3)) == {"type": "rewardsPool"}
    assert parse_stake(kind(4) + META) is parse_stake(kind(2) + META) is parse_stake(b"") is None


LOCKOUT = struct.pack("<QI", 5, 3)
VOTERS = listed(struct.pack("<Q", 9) + bytes(C))
CREDITS = listed(struct.pack("<QQQ", 1, 20, 10)) + struct.pack("<Qq", 6, 77)
PRIOR = bytes(C) + struct.pack("<QQ", 3, 4) + bytes(31 * 48) + bytes(9)
SHOWN_VOTE = {
    "nodePubkey": str(A),
    "authorizedWithdrawer": str(B),
    "commission": 8,
    "votes": [{"slot": 5, "confirmationCount": 3}],
    "rootSlot": 4,
    "authorizedVoters": [{"epoch": 9, "authorizedVoter": str(C)}],
    "priorVoters": [{"authorizedPubkey": str(C), "epochOfLastAuthorizedSwitch": 3, "targetEpoch": 4}],
    "epochCredits": [{"epoch": 1, "credits": "20", "previousCredits": "10"}],
    "lastTimestamp": {"slot": 6, "timestamp": 77},
}
ROOT = b"\x01" + struct.pack("<Q", 4)
OLDEST_PRIOR = bytes(C) + struct.pack("<QQQ", 3, 4, 0) + bytes(31 * 56) + bytes(8)
VOTE_STATES = {
    0: bytes(A)
    + bytes(C)
    + struct.pack("<Q", 9)
    + OLDEST_PRIOR
    + bytes(B)
    + b"\x08"
    + listed(LOCKOUT)
    + ROOT
    + CREDITS,
    1: bytes(A) + bytes(B) + b"\x08" + listed(LOCKOUT) + ROOT + VOTERS + PRIOR + CREDITS,
    2: bytes(A) + bytes(B) + b"\x08" + listed(b"\x02" + LOCKOUT) + ROOT + VOTERS + PRIOR + CREDITS,
    3: bytes(A)
    + bytes(B)
    + bytes(64)
    + struct.pack("<HHQ", 850, 0, 0)
    + b"\x01"
    + bytes(48)
    + listed(b"\x02" + LOCKOUT)
    + ROOT
    + VOTERS
    + CREDITS,
}


@pytest.mark.parametrize("version", VOTE_STATES)
def test_vote_accounts_of_every_version(version: int) -> None:
    """A version 4 has no prior voters, and its commission is in basis points."""
    expected = SHOWN_VOTE if version < 3 else SHOWN_VOTE | {"priorVoters": []}
    data = kind(version) + VOTE_STATES[version]
    assert parse_vote(data.ljust(3_762, b"\0")) == {"type": "vote", "info": expected}
    assert parse_vote(data[:-1]) is None


def test_the_vote_accounts_of_the_chain(local: LocalNode) -> None:
    vote = local.keys.vote.pubkey()
    shown = local.call("getAccountInfo", str(vote), {"encoding": "jsonParsed"})["value"]["data"]
    assert shown["program"] == "vote" and shown["parsed"]["type"] == "vote"
    info = shown["parsed"]["info"]
    assert info["nodePubkey"] == str(local.keys.identity.pubkey()) and info["votes"] == info["priorVoters"] == []
    assert info["rootSlot"] is None and info["authorizedVoters"][0]["epoch"] == 0


def test_the_stake_config_and_validator_infos() -> None:
    assert parsed(STAKE_CONFIG, addresses.CONFIG_PROGRAM, b"\0" + struct.pack("<dB", 0.25, 12)) == {
        "parsed": {"type": "stakeConfig", "info": {"warmupCooldownRate": 0.25, "slashPenalty": 12}},
        "program": "config",
        "space": 10,
    }
    keys = b"\x02" + bytes(VALIDATOR_INFO) + b"\0" + bytes(A) + b"\x01"
    text = b'{"name":"Solana"}'
    assert parse_config(B, keys + struct.pack("<Q", len(text)) + text) == {
        "type": "validatorInfo",
        "info": {
            "keys": [{"pubkey": str(VALIDATOR_INFO), "signer": False}, {"pubkey": str(A), "signer": True}],
            "configData": {"name": "Solana"},
        },
    }
    other = b"\x01" + bytes(A) + b"\0"
    broken = keys + struct.pack("<Q", 2) + b"{]"
    for data in (b"", b"\0", bytes(4), other + struct.pack("<Q", 0), broken, b"\xff\xff\xff"):
        assert parse_config(B, data) is None


def test_programs_under_way_and_their_code() -> None:
    """Buffers and program data show their authority and code; without an authority the code begins 32 bytes earlier."""
    owner = addresses.UPGRADEABLE_LOADER
    buffer = parsed(A, owner, kind(1) + b"\x01" + bytes(B) + b"code")
    assert isinstance(buffer, dict)
    assert buffer["parsed"] == {"type": "buffer", "info": {"authority": str(B), "data": ["Y29kZQ==", "base64"]}}
    data = parsed(A, owner, kind(3) + struct.pack("<Q", 42) + b"\0" + b"code")
    assert isinstance(data, dict)
    info = {"authority": None, "slot": 42, "data": ["Y29kZQ==", "base64"]}
    assert data["parsed"] == {"type": "programData", "info": info}
    assert parsed(A, owner, kind(3)) is parsed(A, owner, kind(1)) is None


@given(data=st.binary(max_size=400), number=st.integers(0, 4))
def test_any_bytes_are_answered(data: bytes, number: int) -> None:
    for parse in (parse_stake, parse_vote):
        parse(kind(number) + data)
    parse_config(STAKE_CONFIG if number else A, data)
