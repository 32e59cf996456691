"""GET /account/receipts, /account/receipts/{id}, /account/consistency and /.well-known/ledger-keys.json.

Implements: decisions, "Signed roots". A shell only where it waits for a statement: a receipt requested right after its
call is ready within two seconds. Contents and checks of receipts: accounts/README.md, "Receipts".
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actors.accounts.api import OwnersClient
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.listings import LedgerFilter, parse_cursor
from actors.accounts.receipts import CHAIN_MAX, RECEIPTS_MAX, ReadChain, ReadLedgerKeys, ReadReceipts, Receipt
from actors.calls import OPERATION_BYTES
from actors.errors import Err, Refusal
from actors.gateway.pages.callers import owners_answer
from actors.gateway.pages.ledger import filter_of
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from actors.units import base58_text

KEYS_PATH = "/.well-known/ledger-keys.json"
_KEYS_MINUTE_MAX = 60
_LIMIT = 20
_TRIES = 4  # Statements are made once a second.
_TRY_SECONDS = 0.7
_FILTERS = ("cursor", "from", "to", "type", "method")
_OPERATION = re.compile(f"[0-9a-f]{{{2 * OPERATION_BYTES}}}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)
_NO_FACTS = Refusal(
    Err.METHOD_NOT_ALLOWED,
    "a named key sees no facts about its account; use the account's own key, a session or its wallet",
)
_PENDING = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE,
    "this entry is in no signed statement yet; one is made every second",
    retry_seconds=1,
)
_BAD_ID = Refusal(
    Err.INVALID_REQUEST,
    "a receipt is named by an operation of X-Receipt (32 characters), or by its entry's at_ms and number, as "
    "1764086400000-17",
)
_NO_ENTRY = Refusal(Err.NOT_FOUND, "this account has no such entry")


class ReceiptPages:
    def __init__(self, accounts: OwnersClient, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._accounts, self._sleep = accounts, sleep

    def pages(self) -> list[Page]:
        return [
            Page("GET", "/account/receipts", self._list),
            Page("GET", "/account/receipts/{id}", self._one),
            Page("GET", "/account/consistency", self._consistency),
            Page("GET", KEYS_PATH, self._keys, is_public=True, is_limited=False, minute_max=_KEYS_MINUTE_MAX),
        ]

    async def _one(self, request: PageRequest) -> PageAnswer | Refusal:
        name = request.parameters["id"].lower()
        place = parse_cursor(name)
        if place is None and not _OPERATION.fullmatch(name):
            return _BAD_ID
        if place is None:
            asked = LedgerFilter(operation=bytes.fromhex(name))
        else:
            at_ms, number = place
            asked = LedgerFilter((at_ms, number + 1), at_ms, at_ms + 1, with_facts=not request.payer_key)
        for attempt in range(_TRIES):
            read = await owners_answer(self._accounts, ReadReceipts(request.account, asked, 2 if place is None else 1))
            if isinstance(read, Refusal):
                return read
            found = [one for one in read if place is None or one.entry.seq == place[1]]
            if not found:
                return _NO_ENTRY
            if all(one.statement is not None for one in found):
                return json_answer({"receipts": [receipt_body(request.account, one) for one in found]})
            if attempt + 1 < _TRIES:
                await self._sleep(_TRY_SECONDS)
        return _PENDING

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        unknown = set(request.query) - {*_FILTERS, "limit"}
        if unknown:
            return _bad(f"parameters are {', '.join((*_FILTERS, 'limit'))}")
        wanted = filter_of({name: request.query[name] for name in _FILTERS if name in request.query})
        if isinstance(wanted, Refusal):
            return wanted
        if request.payer_key and wanted.kind == EntryType.FACT:
            return _NO_FACTS
        limit = _limit_of(request.query, _LIMIT, RECEIPTS_MAX)
        if isinstance(limit, Refusal):
            return limit
        wanted = msgspec.structs.replace(wanted, with_facts=not request.payer_key)
        read = await owners_answer(self._accounts, ReadReceipts(request.account, wanted, limit))
        if isinstance(read, Refusal):
            return read
        sealed = [receipt_body(request.account, one) for one in read if one.statement is not None]
        last = read[-1].entry if len(read) == limit else None
        cursor = None if last is None else f"{last.at_ms}-{last.seq}"
        pending = len(read) - len(sealed)
        return json_answer({"receipts": sealed, "pending": pending, "next_cursor": cursor})

    async def _consistency(self, request: PageRequest) -> PageAnswer | Refusal:
        if request.payer_key:
            return _NO_FACTS
        if not set(request.query) <= {"from", "to", "limit"} or "from" not in request.query:
            return _bad("parameters are from, to and limit, and from must be sent")
        places: dict[str, tuple[int, int]] = {}
        for name in ("from", "to"):
            place = parse_cursor(request.query.get(name, request.query["from"]))
            if place is None:
                return _bad(f"{name} must be the at_ms and number of an entry, as 1764086400000-17")
            places[name] = place
        limit = _limit_of(request.query, CHAIN_MAX, CHAIN_MAX)
        if isinstance(limit, Refusal):
            return limit
        first, last = places["from"], places["to"] if "to" in request.query else None
        if last is not None and last < first:
            return _bad("from must not be later than to")
        if last is not None:
            limit = min(limit, last[1] - first[1])
        read = await owners_answer(self._accounts, ReadChain(request.account, first, limit))
        if isinstance(read, Refusal):
            return read
        entries = [entry_body(one.entry) for one in read]
        return json_answer({"account": base58_text(request.account), "after": first[1], "entries": entries})

    async def _keys(self, request: PageRequest) -> PageAnswer | Refusal:
        del request
        keys = await owners_answer(self._accounts, ReadLedgerKeys())
        return keys if isinstance(keys, Refusal) else json_answer(keys)


def receipt_body(pubkey: bytes, receipt: Receipt) -> dict[str, Any]:
    """No field follows from the others, so that a change of any field is noticed."""
    path, statement = receipt.path, receipt.statement
    assert path is not None and statement is not None, receipt
    return {
        "version": 1,
        "account": base58_text(pubkey),
        "entry": entry_body(receipt.entry),
        "before": receipt.before.hex(),
        "first": path.leaf.first,
        "last": path.leaf.last,
        "head": path.leaf.head.hex(),
        "entry_path": [node.hex() for node in path.entry_path],
        "account_index": path.account_index,
        "account_path": [node.hex() for node in path.account_path],
        "statement": statement.text,
        "key": statement.key_id,
        "signature": statement.signature.hex(),
    }


def entry_body(entry: Entry) -> dict[str, Any]:
    """Return everything that the hash of an entry covers."""
    return {
        "number": entry.seq,
        "at_ms": entry.at_ms,
        "type": entry.type,
        "amount": entry.amount,
        "balance": entry.balance,
        "outcome": entry.outcome,
        "operation": entry.operation.hex(),
        "parcels": entry.parcels,
        "method": entry.method,
        "description": entry.description,
    }


def _limit_of(query: Mapping[str, str], default: int, most: int) -> int | Refusal:
    text = query.get("limit", str(default))
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        return _bad(f"limit must be 1 to {most}")
    return int(text)


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
