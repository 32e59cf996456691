"""jsonParsed of accounts: tokens, nonces, lookup tables, programs, sysvars, stakes, votes and configs.

Implements: the `{program, parsed: {type, info}, space}` form of a node. Pure.
The SlotHistory sysvar (a million digits) is not parsed: RPC shows it as base64, like all unknown accounts.
"""

import base64
import struct
from collections.abc import Callable
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding import addresses
from devnode.parsing.bincode import key_at
from devnode.parsing.token_accounts import parse_token_account
from devnode.parsing.validators import parse_config, parse_stake, parse_vote

_LOOKUP_TABLE_META_BYTES = 56
_BUFFER_META_BYTES = 37
_PROGRAM_DATA_META_BYTES = 45
DecimalsOf = Callable[[Pubkey], int | None]


def parse_account(pubkey: Pubkey, account: Account, data: bytes, decimals_of: DecimalsOf) -> dict[str, Any] | None:
    """Parse an account; None if its type is unknown. decimals_of: decimals of a mint, needed for token amounts."""
    owner = account.owner
    if owner in addresses.TOKEN_PROGRAMS:
        program = "spl-token" if owner == addresses.TOKEN_PROGRAM else "spl-token-2022"
        parsed = parse_token_account(data, decimals_of)
    elif owner == addresses.SYSTEM_PROGRAM:
        program, parsed = "nonce", _nonce(data)
    elif owner == addresses.ADDRESS_LOOKUP_TABLE_PROGRAM:
        program, parsed = "address-lookup-table", _lookup_table(data)
    elif owner == addresses.UPGRADEABLE_LOADER:
        program, parsed = "bpf-upgradeable-loader", _upgradeable(data)
    elif owner == addresses.SYSVAR_OWNER:
        program, parsed = "sysvar", _sysvar(pubkey, data)
    elif owner == addresses.STAKE_PROGRAM:
        program, parsed = "stake", parse_stake(data)
    elif owner == addresses.VOTE_PROGRAM:
        program, parsed = "vote", parse_vote(data)
    elif owner == addresses.CONFIG_PROGRAM:
        program, parsed = "config", parse_config(pubkey, data)
    else:
        return None
    return None if parsed is None else {"parsed": parsed, "program": program, "space": len(data)}


def _nonce(data: bytes) -> dict[str, Any] | None:
    """Parse an initialized nonce account. An uninitialized one looks like other system accounts, so it is None."""
    if len(data) != addresses.NONCE_ACCOUNT_BYTES or int.from_bytes(data[4:8], "little") != 1:
        return None
    info = {
        "authority": key_at(data, 8),
        "blockhash": key_at(data, 40),
        "feeCalculator": {"lamportsPerSignature": str(int.from_bytes(data[72:80], "little"))},
    }
    return {"info": info, "type": "initialized"}


def _lookup_table(data: bytes) -> dict[str, Any] | None:
    if len(data) < _LOOKUP_TABLE_META_BYTES:
        return None
    kind, deactivation_slot, last_extended_slot, start_index, has_authority = struct.unpack_from("<IQQBB", data)
    if kind == 0:
        return {"type": "uninitialized"}
    if kind != 1:
        return None
    info: dict[str, Any] = {
        "addresses": [key_at(data, at) for at in range(_LOOKUP_TABLE_META_BYTES, len(data) - 31, 32)],
        "deactivationSlot": str(deactivation_slot),
        "lastExtendedSlot": str(last_extended_slot),
        "lastExtendedSlotStartIndex": start_index,
    }
    if has_authority:
        info["authority"] = key_at(data, 22)
    return {"info": info, "type": "lookupTable"}


def _upgradeable(data: bytes) -> dict[str, Any] | None:
    kind = int.from_bytes(data[:4], "little") if len(data) >= 4 else None
    if kind == 0:
        return {"type": "uninitialized"}
    if kind == 1 and len(data) >= 5:
        return {"info": _code(data, 4, _BUFFER_META_BYTES), "type": "buffer"}
    if kind == 2 and len(data) >= 36:
        return {"info": {"programData": key_at(data, 4)}, "type": "program"}
    if kind == 3 and len(data) >= 13:
        slot = {"slot": int.from_bytes(data[4:12], "little")}
        return {"info": slot | _code(data, 12, _PROGRAM_DATA_META_BYTES), "type": "programData"}
    return None


def _code(data: bytes, at: int, meta_bytes: int) -> dict[str, Any]:
    """The authority (an option at this place) and the code, which begins earlier where there is no authority, as an
    Agave node shows it."""
    has_authority = data[at] == 1 and len(data) >= at + 33
    code = data[meta_bytes if has_authority else meta_bytes - 32 :]
    authority = key_at(data, at + 1) if has_authority else None
    return {"authority": authority, "data": [base64.b64encode(code).decode(), "base64"]}


def _sysvar(pubkey: Pubkey, data: bytes) -> dict[str, Any] | None:
    reader = _SYSVARS.get(pubkey)
    if reader is None:
        return None
    kind, read = reader
    try:
        return {"info": read(data), "type": kind}
    except (struct.error, ValueError):
        return None


def _clock(data: bytes) -> dict[str, Any]:
    slot, epoch_start, epoch, leader_schedule_epoch, unix_timestamp = struct.unpack_from("<QqQQq", data)
    return {
        "epoch": epoch,
        "epochStartTimestamp": epoch_start,
        "leaderScheduleEpoch": leader_schedule_epoch,
        "slot": slot,
        "unixTimestamp": unix_timestamp,
    }


def _epoch_schedule(data: bytes) -> dict[str, Any]:
    slots, offset, warmup, first_epoch, first_slot = struct.unpack_from("<QQ?QQ", data)
    return {
        "firstNormalEpoch": first_epoch,
        "firstNormalSlot": first_slot,
        "leaderScheduleSlotOffset": offset,
        "slotsPerEpoch": slots,
        "warmup": warmup,
    }


def _rent(data: bytes) -> dict[str, Any]:
    lamports_per_byte_year, exemption_threshold, burn_percent = struct.unpack_from("<QdB", data)
    return {
        "burnPercent": burn_percent,
        "exemptionThreshold": exemption_threshold,
        "lamportsPerByteYear": str(lamports_per_byte_year),
    }


def _slot_hashes(data: bytes) -> list[dict[str, Any]]:
    (count,) = struct.unpack_from("<Q", data)
    starts = range(8, min(8 + 40 * count, len(data) - 39), 40)
    return [{"hash": key_at(data, at + 8), "slot": int.from_bytes(data[at : at + 8], "little")} for at in starts]


def _recent_blockhashes(data: bytes) -> list[dict[str, Any]]:
    (count,) = struct.unpack_from("<Q", data)
    starts = range(8, min(8 + 40 * count, len(data) - 39), 40)
    return [
        {
            "blockhash": key_at(data, at),
            "feeCalculator": {"lamportsPerSignature": str(int.from_bytes(data[at + 32 : at + 40], "little"))},
        }
        for at in starts
    ]


def _stake_history(data: bytes) -> list[dict[str, Any]]:
    (count,) = struct.unpack_from("<Q", data)
    rows = []
    for at in range(8, min(8 + 32 * count, len(data) - 31), 32):
        epoch, effective, activating, deactivating = struct.unpack_from("<QQQQ", data, at)
        history = {"activating": activating, "deactivating": deactivating, "effective": effective}
        rows.append({"epoch": epoch, "stakeHistory": history})
    return rows


def _epoch_rewards(data: bytes) -> dict[str, Any]:
    starting_height, partitions = struct.unpack_from("<QQ", data)
    total_rewards, distributed, active = struct.unpack_from("<QQ?", data, 64)
    return {
        "active": active,
        "distributedRewards": str(distributed),
        "distributionStartingBlockHeight": starting_height,
        "numPartitions": partitions,
        "parentBlockhash": key_at(data, 16),
        "totalPoints": str(int.from_bytes(data[48:64], "little")),
        "totalRewards": str(total_rewards),
    }


def _last_restart_slot(data: bytes) -> dict[str, Any]:
    return {"lastRestartSlot": struct.unpack_from("<Q", data)[0]}


_SYSVARS: dict[Pubkey, tuple[str, Callable[[bytes], Any]]] = {
    addresses.SYSVAR_CLOCK: ("clock", _clock),
    addresses.SYSVAR_EPOCH_REWARDS: ("epochRewards", _epoch_rewards),
    addresses.SYSVAR_EPOCH_SCHEDULE: ("epochSchedule", _epoch_schedule),
    addresses.SYSVAR_LAST_RESTART_SLOT: ("lastRestartSlot", _last_restart_slot),
    addresses.SYSVAR_RECENT_BLOCKHASHES: ("recentBlockhashes", _recent_blockhashes),
    addresses.SYSVAR_RENT: ("rent", _rent),
    addresses.SYSVAR_SLOT_HASHES: ("slotHashes", _slot_hashes),
    addresses.SYSVAR_STAKE_HISTORY: ("stakeHistory", _stake_history),
}
