"""Reads a transaction of a node's JSON answer: getTransaction, an element of getBlock, or a block notification.

Implements: interface, "Signal event", for the block-polling source and for stored samples; encodings json, jsonParsed
and base64.
Pure. Never raises for any JSON value: a transaction that is not well-formed gives None.
"""

import base64
import binascii
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import base58
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.signals.transaction import Instruction, Transaction, key_bytes, token_tables

_PARSED_TRANSFERS = {"transfer": 3, "transferChecked": 12}
_BASE58_TEXT_MAX = 20_000  # Of one instruction's data; decoding takes time that grows with the square of it.
_U64 = 1 << 64

Json = Any


class _Malformed(Exception):
    pass


def read_json(slot: int, entry: Json, block_time: int | None = None) -> Transaction | None:
    """Read `{"transaction": ..., "meta": ...}`. None: it is not well-formed, or has no record of its execution."""
    try:
        return _read(slot, entry, block_time)
    except (_Malformed, KeyError, TypeError, ValueError, IndexError, AttributeError, binascii.Error):
        return None  # These are what reading values of wrong types raises.


def _read(slot: int, entry: Json, block_time: int | None) -> Transaction:
    meta, body = entry["meta"], entry["transaction"]
    if not isinstance(meta, dict):
        raise _Malformed
    loaded = meta.get("loadedAddresses") or {}
    extra = [_key(text) for text in (*(loaded.get("writable") or ()), *(loaded.get("readonly") or ()))]
    if isinstance(body, list | str):
        signature, static, signers, outer = _from_bytes(body)
    else:
        signature, static, signers, outer = _from_message(body)
    # The parsed form lists loaded addresses among the keys of the message.
    keys = tuple(static) if len(static) > len(set(static) - set(extra)) else (*static, *extra)
    inner: dict[int, list[Json]] = {}
    for group in meta.get("innerInstructions") or ():
        inner.setdefault(int(group["index"]), []).extend(group["instructions"])
    found: list[Instruction] = []
    for number, one in enumerate(outer):
        _add(found, keys, one, number, 1)
        for called in inner.get(number, ()):
            height = called.get("stackHeight")
            _add(found, keys, called, number, height if isinstance(height, int) and height > 1 else 0)
    mints, changes = token_tables(
        _balances(keys, meta.get("preTokenBalances")), _balances(keys, meta.get("postTokenBalances"))
    )
    return Transaction(
        signature=signature,
        slot=slot,
        failed=meta.get("err") is not None,
        keys=keys,
        signers_count=signers,
        instructions=tuple(found),
        token_mints=mints,
        token_changes=changes,
        lamports={
            key: (int(before), int(after))
            for key, before, after in zip(keys, meta["preBalances"], meta["postBalances"], strict=False)
            if before != after
        },
        block_time=block_time,
    )


def _from_bytes(body: Json) -> tuple[bytes, list[bytes], int, list[Json]]:
    text, encoding = (body, "base58") if isinstance(body, str) else (body[0], body[1])
    raw = base64.b64decode(text) if encoding == "base64" else _base58(text)
    transaction = VersionedTransaction.from_bytes(raw)
    message = transaction.message
    outer = [
        {"programIdIndex": one.program_id_index, "accounts": list(one.accounts), "data": bytes(one.data)}
        for one in message.instructions
    ]
    signers = message.header.num_required_signatures
    return bytes(transaction.signatures[0]), [bytes(key) for key in message.account_keys], signers, outer


def _from_message(body: Json) -> tuple[bytes, list[bytes], int, list[Json]]:
    message = body["message"]
    signature = bytes(Signature.from_string(body["signatures"][0]))
    rows = message["accountKeys"]
    keys = [_key(row["pubkey"] if isinstance(row, dict) else row) for row in rows]
    if rows and isinstance(rows[0], dict):
        signers = sum(1 for row in rows if row.get("signer") is True)
    else:
        signers = int(message["header"]["numRequiredSignatures"])
    return signature, keys, signers, message["instructions"]


def _add(found: list[Instruction], keys: tuple[bytes, ...], one: Json, outer: int, height: int) -> None:
    if "programIdIndex" in one:
        index = one["programIdIndex"]
        if not 0 <= index < len(keys):
            return
        accounts = tuple(keys[place] if 0 <= place < len(keys) else None for place in one["accounts"])
        data = one["data"]
        found.append(
            Instruction(keys[index], accounts, data if isinstance(data, bytes) else _base58(data), outer, height)
        )
    elif "parsed" in one:
        found.append(_parsed(one, outer, height))
    else:
        accounts = tuple(key_bytes(text) for text in one["accounts"])
        found.append(Instruction(_key(one["programId"]), accounts, _base58(one["data"]), outer, height))


def _parsed(one: Json, outer: int, height: int) -> Instruction:
    """Return a parsed instruction; only transfers of tokens get their bytes back, as only they are read."""
    program, parsed = _key(one["programId"]), one["parsed"]
    name = parsed.get("type") if isinstance(parsed, dict) else None
    tag = _PARSED_TRANSFERS.get(name) if isinstance(name, str) else None
    if tag is None or str(one.get("program", ""))[:9] != "spl-token":
        return Instruction(program, (), b"", outer, height)
    info = parsed["info"]
    checked = tag == _PARSED_TRANSFERS["transferChecked"]
    amount = int(info["tokenAmount"]["amount"] if checked else info["amount"])
    if not 0 <= amount < _U64:
        raise _Malformed
    names = ("source", "mint", "destination") if checked else ("source", "destination")
    return Instruction(
        program, tuple(_key(info[each]) for each in names), bytes([tag]) + amount.to_bytes(8, "little"), outer, height
    )


def _balances(keys: tuple[bytes, ...], rows: Iterable[Json] | None) -> list[tuple[bytes, bytes, bytes | None, str]]:
    found = []
    for row in rows or ():
        index, mint, owner = row["accountIndex"], key_bytes(row["mint"]), row.get("owner")
        if 0 <= index < len(keys) and mint is not None:
            owner_key = key_bytes(owner) if isinstance(owner, str) else None
            found.append((keys[index], mint, owner_key, str(row["uiTokenAmount"]["amount"])))
    return found


def _key(text: Json) -> bytes:
    key = key_bytes(text) if isinstance(text, str) else None
    if key is None:
        raise _Malformed
    return key


@lru_cache(1_024)
def _base58(text: str) -> bytes:
    if len(text) > _BASE58_TEXT_MAX:
        raise _Malformed
    return bytes(base58.b58decode(text))
