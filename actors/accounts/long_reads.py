"""Bounds the long reads of an owner: listings of ledgers, and sums of usage.

Implements: threat 35. A shell. Such a read may take seconds, and an owner makes one at a time (store.py), so that its
other connections stay free for the work of its shards. Waiting reads are bounded here for each account, for the owner
and in time, so that an answer arrives before its caller gives up. What happens when full: README.md, "Usage". Not here:
which reads there are.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actors.accounts.stored import StoreUnavailable
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)

AT_ONCE_MAX = 100  # Concurrent reads of one owner, for all accounts.
READ_SECONDS_MAX = 8.0  # Includes the wait for its turn. A gateway waits 10 s for an owner (hosting.py).
_FULL = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many listings and sums of usage are being made here")
NOT_READ = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE,
    "this could not be read in time; ask later, or for less: a shorter range, or a smaller offset",
)
_Rows = TypeVar("_Rows")


class LongReads:
    """until_written: waits until earlier decisions about the account are in the store."""

    def __init__(self, until_written: Callable[[bytes], Awaitable[None]]) -> None:
        self._until_written = until_written
        self._under_way: Counter[tuple[str, bytes]] = Counter()

    async def read(
        self,
        kind: str,
        most: int,
        pubkey: bytes,
        read: Callable[[], Awaitable[_Rows]],
        seconds_max: float | None = None,
    ) -> _Rows | Refusal:
        """Read rows of an account. most: concurrent reads per account and kind. kind: a plural, for refusals.

        seconds_max: None: READ_SECONDS_MAX. A read that runs out of time returns NOT_READ itself."""
        name = (kind, pubkey)
        if self._under_way[name] >= most:
            return Refusal(Err.CONCURRENCY_LIMITED, f"at most {most} {kind} of an account are made at a time")
        if self._under_way.total() >= AT_ONCE_MAX:
            return _FULL
        self._under_way[name] += 1
        try:
            async with asyncio.timeout(seconds_max or READ_SECONDS_MAX):
                await self._until_written(pubkey)
                return await read()
        except (StoreUnavailable, TimeoutError) as error:
            logger.info("%s were not read: %s", kind, error or type(error).__name__)
            return NOT_READ
        finally:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]
