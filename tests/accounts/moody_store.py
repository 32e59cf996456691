"""A store of accounts that takes its time, and fails now and then."""

import asyncio
import random
from contextlib import suppress

from actors.accounts.stored import Fenced, StoreUnavailable
from actors.accounts.writes import Write
from tests.accounts.shards import FailingStore


class MoodyStore(FailingStore):
    """Takes its time, and fails now and then: before the write, or after it."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.late: list[asyncio.Future[None]] = []
        self.kind = False  # Tests that begin or end want no trouble.

    async def write(self, epoch: int, group: Write) -> int:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        mood = 1.0 if self.kind else self.chance.random()
        if mood < 0.08:
            raise StoreUnavailable("lost before")
        if mood < 0.12:
            self.late.append(asyncio.ensure_future(self._write_late(epoch, group)))
            raise StoreUnavailable("lost while it was on its way")
        database_ms = await super().write(epoch, group)
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        if mood < 0.20:
            raise StoreUnavailable("lost after")
        return database_ms

    async def _write_late(self, epoch: int, group: Write) -> None:
        """The server works on although nobody listens any more; a takeover comes before it or after it."""
        for _ in range(self.chance.randrange(30)):
            await asyncio.sleep(0)
        with suppress(Fenced, StoreUnavailable):
            self.write_now(epoch, group)
