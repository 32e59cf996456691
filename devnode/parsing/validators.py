"""jsonParsed of stake, vote and config accounts.

Implements: the types and fields that an Agave node shows: stake accounts in their four states, vote accounts of all
four versions (a version 4 shows its commission in percent and no prior voters), the stake config, and the information
that validators publish about themselves. Pure.
"""

import struct
from typing import Any

import orjson
from solders.pubkey import Pubkey

from devnode.parsing.bincode import Fields

STAKE_CONFIG = Pubkey.from_string("StakeConfig11111111111111111111111111111111")
VALIDATOR_INFO = Pubkey.from_string("Va1idator1nfo111111111111111111111111111111")
_PRIOR_VOTERS = 32  # Places of the ring buffer; unused ones have an empty key.
_NO_KEY = str(Pubkey.default())
_BLS_KEY_BYTES = 48
_BASIS_POINTS_PER_PERCENT = 100


def parse_stake(data: bytes) -> dict[str, Any] | None:
    try:
        return _stake(Fields(data))
    except (struct.error, ValueError):
        return None


def _stake(fields: Fields) -> dict[str, Any] | None:
    kind = fields.u32()
    if kind == 0:
        return {"type": "uninitialized"}
    if kind == 3:
        return {"type": "rewardsPool"}
    if kind > 3:
        return None
    info: dict[str, Any] = {"meta": _stake_meta(fields), "stake": None}
    if kind == 1:
        return {"info": info, "type": "initialized"}
    delegation = {
        "voter": fields.key(),
        "stake": str(fields.u64()),
        "activationEpoch": str(fields.u64()),
        "deactivationEpoch": str(fields.u64()),
        "warmupCooldownRate": fields.take("<d"),
    }
    info["stake"] = {"creditsObserved": fields.u64(), "delegation": delegation}
    return {"info": info, "type": "delegated"}


def _stake_meta(fields: Fields) -> dict[str, Any]:
    return {
        "rentExemptReserve": str(fields.u64()),
        "authorized": {"staker": fields.key(), "withdrawer": fields.key()},
        "lockup": {"unixTimestamp": fields.i64(), "epoch": fields.u64(), "custodian": fields.key()},
    }


def parse_vote(data: bytes) -> dict[str, Any] | None:
    fields = Fields(data)
    try:
        reader = {0: _first_vote_state, 1: _vote_state, 2: _vote_state_with_latency, 3: _vote_state_4}.get(fields.u32())
        return None if reader is None else {"info": reader(fields), "type": "vote"}
    except (struct.error, ValueError):
        return None


def _first_vote_state(fields: Fields) -> dict[str, Any]:
    """Version 0.23.5: one authorized voter, which comes before the withdrawer."""
    node, voter, since = fields.key(), fields.key(), fields.u64()
    prior = _prior_voters(fields, extra_bytes=8)
    fields.u64()  # The place of the newest prior voter.
    head = {"nodePubkey": node, "authorizedWithdrawer": fields.key(), "commission": fields.u8()}
    votes = {"votes": fields.listed(lambda: _lockout(fields)), "rootSlot": fields.optional(fields.u64)}
    voters = {"authorizedVoters": [{"authorizedVoter": voter, "epoch": since}], "priorVoters": prior}
    return head | votes | voters | _credits(fields)


def _vote_state(fields: Fields, latency_bytes: int = 0) -> dict[str, Any]:
    head = {"nodePubkey": fields.key(), "authorizedWithdrawer": fields.key(), "commission": fields.u8()}
    votes = _votes(fields, latency_bytes)
    prior = _prior_voters(fields)
    fields.raw(9)  # The place of the newest prior voter, and whether there is none.
    return head | votes | {"priorVoters": prior} | _credits(fields)


def _vote_state_with_latency(fields: Fields) -> dict[str, Any]:
    return _vote_state(fields, latency_bytes=1)


def _vote_state_4(fields: Fields) -> dict[str, Any]:
    head: dict[str, Any] = {"nodePubkey": fields.key(), "authorizedWithdrawer": fields.key()}
    fields.raw(64)  # The collectors of inflation rewards and of block revenue.
    head["commission"] = fields.take("<H") // _BASIS_POINTS_PER_PERCENT & 0xFF
    fields.raw(10)  # The commission of block revenue, and rewards that wait for delegators.
    fields.optional(lambda: fields.raw(_BLS_KEY_BYTES))
    return head | _votes(fields, latency_bytes=1) | {"priorVoters": []} | _credits(fields)


def _votes(fields: Fields, latency_bytes: int) -> dict[str, Any]:
    return {
        "votes": fields.listed(lambda: _lockout(fields, latency_bytes)),
        "rootSlot": fields.optional(fields.u64),
        "authorizedVoters": fields.listed(lambda: {"epoch": fields.u64(), "authorizedVoter": fields.key()}),
    }


def _lockout(fields: Fields, latency_bytes: int = 0) -> dict[str, Any]:
    fields.raw(latency_bytes)
    return {"slot": fields.u64(), "confirmationCount": fields.u32()}


def _prior_voters(fields: Fields, extra_bytes: int = 0) -> list[dict[str, Any]]:
    found = []
    for _ in range(_PRIOR_VOTERS):
        voter, switched, until = fields.key(), fields.u64(), fields.u64()
        fields.raw(extra_bytes)
        if voter != _NO_KEY:
            found.append({"authorizedPubkey": voter, "epochOfLastAuthorizedSwitch": switched, "targetEpoch": until})
    return found


def _credits(fields: Fields) -> dict[str, Any]:
    def one_epoch() -> dict[str, Any]:
        return {"epoch": fields.u64(), "credits": str(fields.u64()), "previousCredits": str(fields.u64())}

    return {
        "epochCredits": fields.listed(one_epoch),
        "lastTimestamp": {"slot": fields.u64(), "timestamp": fields.i64()},
    }


def parse_config(pubkey: Pubkey, data: bytes) -> dict[str, Any] | None:
    fields = Fields(data)
    try:
        keys = [{"pubkey": fields.key(), "signer": bool(fields.u8())} for _ in range(_short_length(fields))]
        if pubkey == STAKE_CONFIG:
            info: dict[str, Any] = {"warmupCooldownRate": fields.take("<d"), "slashPenalty": fields.u8()}
            return {"info": info, "type": "stakeConfig"}
        if not keys or keys[0]["pubkey"] != str(VALIDATOR_INFO):
            return None
        text = fields.raw(fields.u64()).decode()
        return {"info": {"configData": orjson.loads(text), "keys": keys}, "type": "validatorInfo"}
    except (struct.error, ValueError):  # orjson's error is a ValueError, as are those of decoding.
        return None


def _short_length(fields: Fields) -> int:
    """A length of up to 16 bits, seven bits in each byte, the lowest first."""
    length = 0
    for shift in (0, 7, 14):
        part = fields.u8()
        length |= (part & 0x7F) << shift
        if part < 0x80:
            return length
    raise ValueError("a length of more than three bytes")
