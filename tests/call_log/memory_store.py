"""A log of calls in memory, which keeps and forgets as the one in Redis does."""

import itertools
from collections.abc import Sequence

from actors.call_log.core import CallsOfAccount, LoggedCall
from actors.call_log.store import ACCOUNT_WEIGHT, KEPT_MS, CallLogUnavailable


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

    async def read(self, pubkey: bytes, before: int | None, limit: int, now_ms: int) -> list[tuple[int, LoggedCall]]:
        self._check()
        newest = [one for one in reversed(self._calls.get(pubkey, [])) if before is None or one[0] < before]
        return [one for one in newest[:limit] if one[1].at_ms > now_ms - KEPT_MS]

    def _drop(self, pubkey: bytes) -> None:
        del self._calls[pubkey], self._last[pubkey]

    def _check(self) -> None:
        if self.down:
            raise CallLogUnavailable("down")
