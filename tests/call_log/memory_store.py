"""A log of calls in memory, which keeps and forgets as the one in Redis does."""

import itertools
from collections.abc import Sequence
from typing import Any

from actors.call_log.core import ANY_CALL, CallFilter, CallsOfAccount, LoggedCall
from actors.call_log.store import ACCOUNT_WEIGHT, KEPT_MS, CallLogStore, CallLogUnavailable, LogPart


class MemoryCallLogStore:
    """down: it does not answer."""

    def __init__(self, of_account_max: int = 100, weight_max: int = 1_000) -> None:
        self._of_account_max, self._weight_max = of_account_max, weight_max
        self._calls: dict[bytes, list[tuple[int, LoggedCall]]] = {}
        self._last: dict[bytes, tuple[bool, int, int]] = {}  # Has credits, when, and in which order.
        self._order = itertools.count()
        self.down = False

    async def append(self, accounts: Sequence[CallsOfAccount], now_ms: int) -> None:
        self._check()
        for pubkey, calls, has_credits in accounts:
            kept = self._calls.setdefault(pubkey, [])
            kept += [(next(self._order), call) for call in calls]
            del kept[: max(0, len(kept) - self._of_account_max)]
            self._last[pubkey] = has_credits, now_ms, next(self._order)
        for pubkey in [one for one, (_, at_ms, _) in self._last.items() if at_ms <= now_ms - KEPT_MS]:
            self._drop(pubkey)
        while sum(len(one) + ACCOUNT_WEIGHT for one in self._calls.values()) > self._weight_max:
            self._drop(min(self._last, key=lambda one: self._last[one]))

    async def find(
        self, pubkey: bytes, before: int | None, most: int, now_ms: int, wanted: CallFilter = ANY_CALL
    ) -> LogPart:
        """Looks at five calls at a time where they are filtered, so that searches have several parts."""
        self._check()
        newest = [one for one in reversed(self._calls.get(pubkey, [])) if before is None or one[0] < before]
        part = newest[: most if wanted == ANY_CALL else 5]
        found = [one for one in part if one[1].at_ms > now_ms - KEPT_MS and wanted.has(one[1])]
        if len(found) > most:
            return LogPart(found[:most], found[most - 1][0])
        return LogPart(found, part[-1][0] if len(part) < len(newest) else None)

    def _drop(self, pubkey: bytes) -> None:
        del self._calls[pubkey], self._last[pubkey]

    def _check(self) -> None:
        if self.down:
            raise CallLogUnavailable("down")


async def read(store: CallLogStore, pubkey: bytes, before: int | None, most: int, now_ms: int) -> list[Any]:
    """The calls of an account with their ids, newest first."""
    return (await store.find(pubkey, before, most, now_ms)).calls
