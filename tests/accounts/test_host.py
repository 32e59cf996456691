"""Guards the shard actor around the shard: it starts once, whoever asks first and however many ask."""

import asyncio
from typing import Any

from actors.accounts.host import AccountShardActor
from actors.config import Config


class _Shard:
    async def health(self) -> dict[str, Any]:
        return {"fenced": False, "committing": True}


async def test_many_askers_share_one_start() -> None:
    """Rule: an owner takes its epoch once per process, however many edges ask for its address at the same time."""
    actor = AccountShardActor(Config(), 0)
    starts = 0

    async def start() -> None:
        nonlocal starts
        starts += 1
        await asyncio.sleep(0)
        actor._shard, actor._address = _Shard(), ("127.0.0.1", 1)  # type: ignore[assignment]

    actor._start = start  # type: ignore[method-assign]
    answers = await asyncio.gather(*(actor.address() for _ in range(20)), actor.health())
    assert starts == 1
    assert set(answers[:20]) == {("127.0.0.1", 1)}


async def test_an_asker_that_leaves_does_not_stop_the_start() -> None:
    """Rule: the first asker going away must not leave everybody else without an owner."""
    actor = AccountShardActor(Config(), 0)
    go = asyncio.Event()

    async def start() -> None:
        await go.wait()
        actor._shard, actor._address = _Shard(), ("127.0.0.1", 1)  # type: ignore[assignment]

    actor._start = start  # type: ignore[method-assign]
    first = asyncio.create_task(actor.address())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    go.set()
    assert await actor.address() == ("127.0.0.1", 1)
