"""Looks keys up in the store, with one query for all waiting callers.

Implements: hundreds of deposits a second after an outage; many settles at once that reach a fresh owner. A shell.
Callers do not join a query that has already started: its answer may be older than what they know.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

_AT_ONCE_MAX = 1_000

Key = TypeVar("Key")
Found = TypeVar("Found")


class CoalescedLookup(Generic[Key, Found]):
    """Looks up keys for several callers at once. ask: queries the store for these keys; missing keys are not in its
    result."""

    def __init__(self, ask: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Found]]]) -> None:
        self._ask_store = ask
        self._waiting: dict[Key, asyncio.Future[Found | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def find(self, key: Key) -> Found | None:
        """Return the value of the key, or None. Raises whatever the query raises."""
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._ask())
        return await asyncio.shield(future)

    async def _ask(self) -> None:
        while self._waiting:
            keys = list(self._waiting)[:_AT_ONCE_MAX]
            asked = [(key, self._waiting.pop(key)) for key in keys]
            try:
                found = await self._ask_store(keys)
            except Exception as error:  # noqa: BLE001 - each caller gets it, whatever it is; the task must go on.
                for _, future in asked:
                    future.set_exception(error)
                    # Marks the exception as retrieved, so that a cancelled caller causes no warning.
                    future.exception()
            else:
                for key, future in asked:
                    future.set_result(found.get(key))
        self._task = None
