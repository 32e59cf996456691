"""Taken nonces on their way to the identity store: all that wait go in one pipeline, one pipeline at a time.

Implements: decisions, money rule 11; design, section 5 (Redis away: signed calls are refused, the rest goes on).
A shell: whether a nonce may be taken was decided before (nonces.py).
"""

import asyncio
import logging

from actors.clock import Clock
from actors.identity.store import IdentityStore, IdentityStoreUnavailable

logger = logging.getLogger(__name__)

WAITING_MAX = 10_000
_PAUSE_SECONDS = 1.0  # After a failure calls are refused at once for so long, rather than each waiting for a time-out.


class NonceLog:
    def __init__(self, store: IdentityStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting: list[tuple[bytes, str, int]] = []
        self._future: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed_until = 0.0

    @property
    def available(self) -> bool:
        return len(self._waiting) < WAITING_MAX and self._clock.monotonic() >= self._closed_until

    def failed(self) -> None:
        """The identity store did not answer somebody else either."""
        self._closed_until = self._clock.monotonic() + _PAUSE_SECONDS

    def put(self, pubkey: bytes, nonce: str, expires_at: int) -> "asyncio.Future[None]":
        """Done when it is kept; fails with IdentityStoreUnavailable. Shared by all that go together."""
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
            self._future.add_done_callback(_retrieve)
        self._waiting.append((pubkey, nonce, expires_at))
        if self._task is None:
            self._task = asyncio.create_task(self._write())
        return self._future

    async def stop(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._waiting:
                entries, self._waiting = self._waiting, []
                future, self._future = self._future, None
                assert future is not None
                try:
                    await self._store.take_nonces(entries)
                except IdentityStoreUnavailable as error:
                    logger.warning("nonces cannot be kept, signed calls are refused: %s", error)
                    self.failed()
                    if not future.done():
                        future.set_exception(error)
                else:
                    if not future.done():
                        future.set_result(None)
        finally:
            self._task = None


def _retrieve(future: "asyncio.Future[None]") -> None:
    if not future.cancelled():
        future.exception()
