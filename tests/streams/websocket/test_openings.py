"""Subscriptions that are being opened at the same time are bounded, and one account leaves room for others."""

import asyncio
from collections import Counter

from actors.streams.websocket.openings import ACCOUNT_OPENINGS_MAX, OPENINGS_MAX, Openings


async def test_openings_are_bounded_for_each_account_and_in_all() -> None:
    openings, under_way, order = Openings(), Counter[bytes](), list[int]()
    most: Counter[bytes] = Counter()
    go_on = asyncio.Semaphore(0)

    async def opens(account: bytes, number: int) -> None:
        async with openings.turn(account):
            order.append(number)
            under_way[account] += 1
            most[account] = max(most[account], under_way[account])
            most[b"all"] = max(most[b"all"], under_way.total())
            await go_on.acquire()
            under_way[account] -= 1

    greedy = [asyncio.create_task(opens(b"greedy", number)) for number in range(1_000)]
    await asyncio.sleep(0)
    others = [asyncio.create_task(opens(b"other%d" % number, -1)) for number in range(10)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert under_way[b"greedy"] == ACCOUNT_OPENINGS_MAX and under_way.total() == ACCOUNT_OPENINGS_MAX + 10
    more = [asyncio.create_task(opens(b"more%d" % number, -1)) for number in range(OPENINGS_MAX)]
    for _ in range(1_000 + 10 + OPENINGS_MAX):
        go_on.release()
    await asyncio.gather(*greedy, *others, *more)
    assert most[b"greedy"] == ACCOUNT_OPENINGS_MAX and most[b"all"] <= OPENINGS_MAX
    assert [number for number in order if number >= 0] == list(range(1_000))
    assert openings._by_account == {}


async def test_an_opening_that_is_given_up_leaves_its_place() -> None:
    openings = Openings()
    waiting = [asyncio.create_task(_for_ever(openings)) for _ in range(2 * ACCOUNT_OPENINGS_MAX)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(5), openings.turn(b"account"):
        assert set(openings._by_account) == {b"account"}


async def _for_ever(openings: Openings) -> None:
    async with openings.turn(b"account"):
        await asyncio.Event().wait()
