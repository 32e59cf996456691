"""Reads a transaction of the Yellowstone stream.

Implements: interface, "Signal event"; account indexes count over static keys, then loaded writable, then loaded
read-only ones.
Pure. A message that is not well-formed gives None.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.geyser_proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from actors.signals.transaction import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    Instruction,
    LazyMapping,
    Transaction,
    key_bytes,
    token_tables,
)

_SIZES = frozenset({KEY_BYTES})


_FILTERS, _TRANSACTION, _INFO, _SIGNATURE, _SLOT = b"\x0a\x22\x0a\x0a\x10"  # Field tags of protobuf.
_CREATED_AT = 0x5A
_UINT64 = (1 << 64) - 1
_WIDTHS = {1: 8, 5: 4}  # Bytes of fields with a fixed width.


class TransactionHead(NamedTuple):
    slot: int
    signature: bytes


def read_head(payload: bytes) -> TransactionHead | None:
    """Read slot and signature of an update without decoding the rest, which costs twenty times as much.

    None: the update is about something else, or its fields stand in another order than all nodes write them, or one
    stands twice: of those the last one counts, and they may be anywhere. It has to be decoded then.
    """
    try:
        at = 0
        while payload[at] == _FILTERS:
            size, at = _varint(payload, at + 1)
            at += size
        if payload[at] != _TRANSACTION:
            return None
        size, at = _varint(payload, at + 1)
        end = at + size
        if payload[at] != _INFO:
            return None
        size, at = _varint(payload, at + 1)
        end_of_info = at + size
        if payload[at] != _SIGNATURE or payload[at + 1] != SIGNATURE_BYTES or payload[end_of_info] != _SLOT:
            return None
        signature = payload[at + 2 : at + 2 + SIGNATURE_BYTES]
        slot, after = _varint(payload, end_of_info + 1)
        alone = _end_of_fields(payload, at + 2 + SIGNATURE_BYTES, end_of_info) == end_of_info and after == end
        while alone and end < len(payload) and payload[end] == _CREATED_AT:
            size, end = _varint(payload, end + 1)
            end += size
        return TransactionHead(slot, signature) if alone and end == len(payload) else None
    except IndexError:
        return None


def _end_of_fields(raw: bytes, at: int, end: int) -> int:
    """Skip the fields up to `end` while none of them is a signature; return where that stopped."""
    while at < end:
        tag, start = raw[at], at
        kind = tag & 7
        if tag >= 0x80 or tag >> 3 < 2:
            return start
        if kind == 2:
            size, at = _varint(raw, at + 1)
            at += size
        elif kind == 0:
            _, at = _varint(raw, at + 1)
        elif kind in _WIDTHS:
            at += 1 + _WIDTHS[kind]
        else:
            return start
    return at


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = raw[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number & _UINT64, at
    raise IndexError


def read_update(slot: int, info: SubscribeUpdateTransactionInfo, block_time: int | None = None) -> Transaction | None:
    """Read one transaction of an update. None: it is not well-formed, or has no record of its execution.

    Balances are read when they are asked for: until then the result holds the message."""
    if not info.HasField("meta") or not info.HasField("transaction"):
        return None
    meta, message = info.meta, info.transaction.message
    keys = (*message.account_keys, *meta.loaded_writable_addresses, *meta.loaded_readonly_addresses)
    if len(info.signature) != SIGNATURE_BYTES or not _SIZES.issuperset(map(len, keys)):
        return None
    inner: dict[int, Any] = {}
    for group in meta.inner_instructions:
        inner[group.index] = group.instructions
    found: list[Instruction] = []
    for number, outer in enumerate(message.instructions):
        _add(found, keys, outer, number, 1)
        for one in inner.get(number, ()):
            _add(found, keys, one, number, _height(one))
    return Transaction(
        signature=info.signature,
        slot=slot,
        failed=meta.HasField("err"),
        keys=keys,
        signers_count=message.header.num_required_signatures,
        instructions=tuple(found),
        token_mints=LazyMapping(lambda: _token_tables(keys, meta)[0]),
        token_changes=LazyMapping(lambda: _token_tables(keys, meta)[1]),
        lamports=LazyMapping(lambda: _changed_lamports(keys, meta)),
        block_time=block_time,
    )


def _token_tables(keys: tuple[bytes, ...], meta: Any) -> tuple[dict[bytes, bytes], dict[bytes, frozenset[bytes]]]:
    return token_tables(_balances(keys, meta.pre_token_balances), _balances(keys, meta.post_token_balances))


def _changed_lamports(keys: tuple[bytes, ...], meta: Any) -> dict[bytes, tuple[int, int]]:
    rows = zip(keys, meta.pre_balances, meta.post_balances, strict=False)
    return {key: (before, after) for key, before, after in rows if before != after}


def _height(one: Any) -> int:
    height = int(one.stack_height) if one.HasField("stack_height") else 0
    return height if height > 1 else 0


def _add(found: list[Instruction], keys: tuple[bytes, ...], one: Any, outer: int, height: int) -> None:
    count, program = len(keys), one.program_id_index
    if program < count:
        places: bytes = one.accounts
        accounts: tuple[bytes | None, ...]
        if max(places, default=0) < count:
            accounts = tuple(map(keys.__getitem__, places))
        else:
            accounts = tuple(keys[index] if index < count else None for index in places)
        found.append(Instruction(keys[program], accounts, one.data, outer, height))


def _balances(keys: tuple[bytes, ...], rows: Iterable[Any]) -> list[tuple[bytes, bytes, bytes | None, str]]:
    found = []
    for row in rows:
        mint = key_bytes(row.mint)
        if row.account_index < len(keys) and mint is not None:
            found.append((keys[row.account_index], mint, key_bytes(row.owner), row.ui_token_amount.amount))
    return found
