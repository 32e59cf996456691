"""Asks the store which transfers were credited before, for all who ask at once in one question.

Implements: a backlog of deposits that is caught up with at hundreds a second. A shell. A question that is under way
takes nobody in: its answer may be older than what they know.
"""

import asyncio

from actors.accounts.store import AccountStore
from actors.accounts.writes import Credited

_AT_ONCE_MAX = 1_000


class DepositFinds:
    def __init__(self, store: AccountStore) -> None:
        self._store = store
        self._waiting: dict[bytes, asyncio.Future[Credited | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def find(self, operation: bytes) -> Credited | None:
        """Raises StoreUnavailable."""
        future = self._waiting.get(operation)
        if future is None:
            future = self._waiting[operation] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._ask())
        return await asyncio.shield(future)

    async def _ask(self) -> None:
        while self._waiting:
            operations = list(self._waiting)[:_AT_ONCE_MAX]
            asked = [(operation, self._waiting.pop(operation)) for operation in operations]
            try:
                found = await self._store.find_deposits(operations)
            except Exception as error:  # noqa: BLE001 - whoever asked gets it, whatever it is; this must go on.
                for _, future in asked:
                    future.set_exception(error)
                    future.exception()  # Told to whoever still waits; nobody else needs to hear of it.
            else:
                for operation, future in asked:
                    future.set_result(found.get(operation))
        self._task = None
