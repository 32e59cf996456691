"""Bounds how many subscriptions are being opened at the same time, in a process and for each account.

Implements: design, "Work on the loop" (work on the loop). A shell around semaphores; openings begin in the order in
which they were asked for. An opening asks the owner of the account and the hub, and all that are under way become ready
in the same turns of the loop: 50 sockets that send batches of 100 subscriptions would begin 5,000 at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

OPENINGS_MAX = 64
ACCOUNT_OPENINGS_MAX = 16  # Leaves room for other accounts.


class Openings:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(OPENINGS_MAX)
        self._by_account: dict[bytes, tuple[asyncio.Semaphore, list[int]]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, pubkey: bytes) -> AsyncIterator[None]:
        """Wait until this account may open one more subscription."""
        own, users = self._by_account.setdefault(pubkey, (asyncio.Semaphore(ACCOUNT_OPENINGS_MAX), [0]))
        users[0] += 1
        try:
            async with own, self._all:
                yield
        finally:
            users[0] -= 1
            if not users[0]:
                del self._by_account[pubkey]
