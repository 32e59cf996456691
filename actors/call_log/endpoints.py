"""GET /account/calls: the calls that an account has made in the last day, newest first.

Implements: decisions, "Log of calls"; README, "The log of your calls". An account sees its own calls, and a named key
those that it has paid for. A search reads the log part by part, and so does not hold the event loop.
"""

import asyncio
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from actors.call_log.core import ANY_CALL, NODE_ERROR, REFUSED, RESULT, CallFilter, LoggedCall
from actors.call_log.store import CallLogStore, CallLogUnavailable
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.pages import Page, PageAnswer, PageRequest, json_answer

PATH = "/account/calls"
LIMIT, LIMIT_MAX = 50, 200
_NAMES = frozenset(("limit", "before", "request_id", "method", "outcome", "key"))
_SEARCHES_MAX = 4  # Concurrent searches in this process.
_PRIVATE = (("cache-control", "no-store"),)
_REQUEST_ID, _ID = re.compile(r"[A-Za-z0-9._-]{1,64}"), re.compile(r"[0-9]{1,18}")
_METHOD = re.compile(r"[A-Za-z0-9_:./-]{1,64}")
_OUTCOMES = frozenset((RESULT, NODE_ERROR, REFUSED, *(err.name for err in Err)))


class CallsWanted(NamedTuple):
    """before: an id; None: from the newest."""

    limit: int = LIMIT
    before: int | None = None
    filter: CallFilter = ANY_CALL


class CallLogPages:
    def __init__(self, store: CallLogStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._turn = asyncio.Semaphore(_SEARCHES_MAX)

    def pages(self) -> list[Page]:
        return [Page("GET", PATH, self._list, for_keys=True)]

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        wanted = wanted_of(request.query)
        if isinstance(wanted, Refusal):
            return wanted
        if request.payer_key:
            wanted = wanted._replace(filter=wanted.filter._replace(key=request.payer_key))
        try:
            async with self._turn:
                found, following = await self._find(request.account, wanted)
        except CallLogUnavailable:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the log of calls does not answer")
        calls = [call_body(number, call) for number, call in found]
        return json_answer(
            {"calls": calls, "next_before": None if following is None else str(following)}, headers=_PRIVATE
        )

    async def _find(self, pubkey: bytes, wanted: CallsWanted) -> tuple[list[tuple[int, LoggedCall]], int | None]:
        """Return the wanted calls, and the id before which more may be found; None: there are no older ones."""
        found: list[tuple[int, LoggedCall]] = []
        before, now_ms = wanted.before, self._clock.now_ms()
        while True:
            part = await self._store.find(pubkey, before, wanted.limit - len(found), now_ms, wanted.filter)
            found += part.calls
            if len(found) == wanted.limit:
                return found, found[-1][0]
            if part.end is None:
                return found, None
            if wanted.filter.request_id is not None and found and found[-1][0] > part.end:
                return found, None  # The calls of a batch stay together.
            before = part.end


def wanted_of(query: Any) -> CallsWanted | Refusal:
    if not set(query) <= _NAMES:
        return _bad(f"parameters are {', '.join(sorted(_NAMES))}")
    limit, key = query.get("limit", str(LIMIT)), query.get("key")
    if not (_is_number(limit) and 1 <= int(limit) <= LIMIT_MAX):
        return _bad(f"limit must be 1 to {LIMIT_MAX}")
    if key is not None and not _is_number(key):
        return _bad("key must be the id of a named key, or 0 for calls of no named key")
    if "before" in query and not _ID.fullmatch(query["before"]):
        return _bad("before must be the id of a call, or the next_before of a page")
    if "request_id" in query and not _REQUEST_ID.fullmatch(query["request_id"]):
        return _bad("request_id must be the X-Request-Id of an answer")
    if "method" in query and not _METHOD.fullmatch(query["method"]):
        return _bad("method must be the name of a method")
    if "outcome" in query and query["outcome"] not in _OUTCOMES:
        return _bad(f"outcome must be {RESULT}, {NODE_ERROR}, {REFUSED} or a constant of the error table")
    before, number = (None if text is None else int(text) for text in (query.get("before"), key))
    request_id, method, outcome = (query.get(name) for name in ("request_id", "method", "outcome"))
    return CallsWanted(int(limit), before, CallFilter(request_id, method, outcome, number))


def call_body(number: int, call: LoggedCall) -> dict[str, Any]:
    ended = datetime.fromtimestamp(call.at_ms / 1000, UTC)
    return {
        "id": str(number),  # One day too large a number for JavaScript.
        "at": f"{ended:%Y-%m-%dT%H:%M:%S}.{call.at_ms % 1000:03d}Z",
        "method": call.method or None,
        "outcome": call.outcome,
        "ms": round(call.micros / 1000, 2),
        "credits": call.credits,
        "request_id": call.request_id,
        "key": call.key or None,
    }


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
