"""Waits of measurements: they go on while clients arrive, and end when none does."""

import asyncio

import pytest

from tests.stream_checks.waiting import Stalled, until_all


async def test_a_wait_lasts_as_long_as_clients_arrive() -> None:
    """However slow the machine: the limit counts from the latest arrival."""
    arrived: set[int] = set()

    async def arrive() -> None:
        for number in range(4):
            await asyncio.sleep(0.15)
            arrived.add(number)

    arriving = asyncio.create_task(arrive())
    await until_all(range(4), arrived.__contains__, "not there", stall_seconds=0.45)
    assert arriving.done() or len(arrived) == 4


async def test_a_wait_ends_when_nobody_arrives_or_when_it_is_of_no_use() -> None:
    """A client that leaves and comes back is no progress."""
    looks = iter(range(1_000))
    with pytest.raises(Stalled, match=r"not there: [01] of 2 after 0\.3 s"):
        await until_all((0, 1), lambda number: number == 0 and next(looks) % 2 == 0, "not there", stall_seconds=0.3)

    def broken() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await until_all((1,), bool, "broken", broken)
