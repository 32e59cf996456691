"""A watcher that another one has replaced ends its work."""

import asyncio

from actors.deposits.usdc.store import Cursor, Gap, WatcherReplaced
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.world import World


class ReplacedStore(MemoryDepositStore):
    """Of a watcher that was cut off: it may read."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    async def move_cursor(self, account: str, cursor: Cursor, gap: Gap | None, now_ms: int) -> None:
        self.refused += 1
        raise WatcherReplaced("another deposit watcher has begun")


async def test_a_watcher_that_was_replaced_ends_its_work_for_good() -> None:
    """It credits nothing more, tells so once, and does not try again."""
    store, ended = ReplacedStore(), asyncio.Event()
    world = World(store)
    world.chain.pay(("alice", 20_000))
    watcher = world.watcher(replaced=ended.set)
    watcher.start()
    await ended.wait()
    await watcher._background.finish()
    assert store.refused == 1 and world.accounts.balances == {}
    assert watcher.fault == "another deposit watcher has begun"
