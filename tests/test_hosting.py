"""Guards what a call to a silent actor becomes."""

import asyncio
import gc
from typing import Any

import pytest

from actors import hosting


class _Silent:
    """An actor handle whose method never answers."""

    class method:
        @staticmethod
        def remote(*_: Any) -> "asyncio.Future[None]":
            return asyncio.get_running_loop().create_future()


async def test_a_silent_actor_is_unreachable_in_time() -> None:
    """Rule: no call waits for ever; what is not known is said to be not known."""
    with pytest.raises(hosting.ActorUnreachable):
        await hosting.ask(_Silent(), "method", wait_seconds=0.01)


def test_memory_is_settled_for_a_process_that_lives_long() -> None:
    """Rule: cycles are still collected, only rarely, and what is there for good is not looked through again."""
    thresholds = gc.get_threshold()
    try:
        hosting.tune_gc()
        assert gc.isenabled() and gc.get_threshold()[0] > thresholds[0]
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_looking_for_an_actor_starts_no_cluster() -> None:
    """Ray starts a cluster of its own in a process that looks for an actor without having joined one."""
    import ray

    with pytest.raises(hosting.ActorUnreachable, match="not connected to a cluster"):
        hosting.find("nobody")
    assert not ray.is_initialized()
