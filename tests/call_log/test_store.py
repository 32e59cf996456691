"""Both stores of the log of calls: a day, a number for each account, a number for all."""

import itertools
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis

from actors.call_log.core import REFUSED, CallFilter, CallsOfAccount, LoggedCall
from actors.call_log.store import ACCOUNT_WEIGHT, KEPT_MS, CallLogStore, CallLogUnavailable, LogPart, RedisCallLogStore
from actors.storage.connections import open_redis
from tests.call_log.memory_store import MemoryCallLogStore, read

FIRST, SECOND, POOR = b"a" * 32, b"b" * 32, b"c" * 32
NOW = 1_700_000_000_000
ROOM = 3 * ACCOUNT_WEIGHT  # Of three accounts, beside their calls.
_numbers = itertools.count()

Make = Callable[[int, int], CallLogStore]


@pytest.fixture(params=["memory", "redis"])
async def make(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Make]:
    if request.param == "memory":
        yield MemoryCallLogStore
        return
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield lambda of_account_max, weight_max: RedisCallLogStore(client, of_account_max, weight_max)
    await client.aclose()


def of(pubkey: bytes, count: int, has_credits: bool = True, at_ms: int = NOW) -> CallsOfAccount:
    calls = [LoggedCall(at_ms, "getSlot", "result", 1_250, 1, f"r-{next(_numbers)}", 2) for _ in range(count)]
    return CallsOfAccount(pubkey, tuple(calls), has_credits)


async def kept(store: CallLogStore, at_ms: int = NOW) -> list[int]:
    """How many calls each of the three accounts has."""
    return [len(await read(store, pubkey, None, 1_000, at_ms)) for pubkey in (FIRST, SECOND, POOR)]


async def test_calls_are_read_newest_first_and_page_by_page(make: Make) -> None:
    """As they were written, by their account alone."""
    store, first, more = make(100, 1_000), of(FIRST, 3), of(FIRST, 2)
    await store.append([first, of(SECOND, 1)], NOW)
    await store.append([more], NOW)
    wanted = [*reversed(more.calls), *reversed(first.calls)]
    page = await read(store, FIRST, None, 3, NOW)
    assert [call for _, call in page] == wanted[:3]
    rest = await read(store, FIRST, page[-1][0], 3, NOW)
    assert [call for _, call in rest] == wanted[3:]
    assert await read(store, FIRST, rest[-1][0], 3, NOW) == await read(store, b"z" * 32, None, 3, NOW) == []
    assert await read(store, FIRST, 10**17, 3, NOW) == page


SEARCHES = [
    CallFilter(method="getBlock"),
    CallFilter(method="getNothing"),
    CallFilter(method="result"),  # A text that others have in another place.
    CallFilter(outcome="result"),
    CallFilter(outcome="node_error"),
    CallFilter(outcome=REFUSED),
    CallFilter(outcome="RATE_LIMITED"),
    CallFilter(key=0),
    CallFilter(key=7),
    CallFilter(request_id="r-17"),
    CallFilter(request_id="r-1", method="getSlot"),
    CallFilter(key=0, outcome=REFUSED, method="getBlock"),
]


@pytest.mark.parametrize("wanted", SEARCHES)
@pytest.mark.parametrize("most", [1, 4, 200])
async def test_a_search_finds_what_a_reader_of_all_calls_finds(make: Make, wanted: CallFilter, most: int) -> None:
    store, ends = make(10_000, 20_000), ("result", "node_error", "RATE_LIMITED", "INVALID_PARAMS", "result")
    methods, keys = ("getSlot", "getBlock", "", "getSlot"), (0, 7, 70)
    calls = [
        LoggedCall(NOW, methods[at % 4], ends[at % 5], 1_250, at % 2, f"r-{at // 3}", keys[at % 3]) for at in range(60)
    ]
    await store.append([of(SECOND, 30), CallsOfAccount(FIRST, tuple(calls), True)], NOW)
    found: list[tuple[int, LoggedCall]] = []
    part = await store.find(FIRST, None, most, NOW, wanted)
    while part.end is not None:
        assert len(part.calls) <= most
        found += part.calls
        part = await store.find(FIRST, part.end, most, NOW, wanted)
    found += part.calls
    assert [call for _, call in found] == [call for call in reversed(calls) if wanted.has(call)]
    numbers = dict(map(reversed, await read(store, FIRST, None, 60, NOW)))
    assert found == [(numbers[call], call) for _, call in found]


async def test_a_search_of_a_full_log_asks_redis_a_few_times_and_reads_no_other_call(redis_url: str) -> None:
    """It is free: read whole, a log of 10,000 calls took 42 ms of its replica, in which others' calls waited."""
    client = Redis.from_url(redis_url)
    store = RedisCallLogStore(client, 10_000, 20_000)
    for _ in range(20):
        await store.append([of(b"f" * 32, 500)], NOW)
    part, asked = LogPart([], None), 0
    while asked == 0 or part.end is not None:
        part, asked = await store.find(b"f" * 32, part.end, 200, NOW, CallFilter(method="getNothing")), asked + 1
        assert part.calls == []
    assert asked <= 11
    await client.aclose()


async def test_an_account_has_its_newest_calls(make: Make) -> None:
    """And their ids stay theirs."""
    store, calls = make(5, 1_000), of(FIRST, 4)
    await store.append([calls], NOW)
    (number, newest), *_ = await read(store, FIRST, None, 1, NOW)
    more = of(FIRST, 4)
    await store.append([more, of(SECOND, 1)], NOW)
    found = await read(store, FIRST, None, 10, NOW)
    assert [call for _, call in found] == [*reversed(more.calls), calls.calls[-1]] and found[-1] == (number, newest)
    assert await kept(store) == [5, 1, 0]


async def test_above_the_room_of_all_accounts_without_credits_go_first(make: Make) -> None:
    """Then those that were silent longest. Anybody can open accounts without credits, and they push no other out."""
    store = make(10, 10 + ROOM)
    await store.append([of(FIRST, 4)], NOW - 3)
    await store.append([of(SECOND, 4)], NOW - 2)
    await store.append([of(POOR, 2, has_credits=False)], NOW - 1)
    assert await kept(store) == [4, 4, 2]
    for _ in range(3):
        await store.append([of(POOR, 9, has_credits=False)], NOW)
    assert await kept(store) == [4, 4, 0]
    await store.append([of(POOR, 3, has_credits=True)], NOW)  # It has paid in.
    assert await kept(store) == [0, 4, 3]
    await store.append([of(FIRST, 3)], NOW + 1)
    assert await kept(store) == [3, 4, 3]


async def test_a_call_is_kept_a_day(make: Make) -> None:
    """And an account that is silent for so long takes no room of others any more."""
    store = make(10, 10 + ROOM)
    await store.append([of(FIRST, 8)], NOW)
    assert (await kept(store, NOW + KEPT_MS - 1), await kept(store, NOW + KEPT_MS)) == ([8, 0, 0], [0, 0, 0])
    later = NOW + KEPT_MS
    await store.append([of(SECOND, 2, at_ms=later), of(POOR, 8, has_credits=False, at_ms=later)], later)
    assert await kept(store, later) == [0, 2, 8]


async def test_old_calls_of_an_account_that_goes_on_leave_redis(redis_url: str) -> None:
    """They are not only left out of answers. The sum of what all accounts take stays right, and ids go on."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    store, later = RedisCallLogStore(client, 10, 1_000), NOW + KEPT_MS
    await store.append([of(FIRST, 8)], NOW)
    ((before, _),) = await read(store, FIRST, None, 1, NOW)
    await store.append([of(FIRST, 1, at_ms=later), of(SECOND, 1, at_ms=later)], later)
    assert await client.llen(f"calls:{FIRST.hex()}") == 1
    assert int(await client.get("calls:weight")) == 2 + 2 * ACCOUNT_WEIGHT
    ((after, _),) = await read(store, FIRST, None, 1, later)
    assert after == before + 1
    await store.append([of(POOR, 1, at_ms=later + KEPT_MS)], later + KEPT_MS)
    assert await client.hkeys("calls:weights") == await client.hkeys("calls:newest-ids") == [POOR.hex().encode()]
    assert int(await client.get("calls:weight")) == 1 + ACCOUNT_WEIGHT
    await store.append([of(FIRST, 1, at_ms=later + KEPT_MS)], later + KEPT_MS)
    ((again, _),) = await read(store, FIRST, None, 1, later + KEPT_MS)
    assert again > after
    await client.aclose()


async def test_a_store_that_is_away_is_told_as_such() -> None:
    client = open_redis("redis://127.0.0.1:1")  # With the tries that the product makes.
    store = RedisCallLogStore(client, 1, 100)
    with pytest.raises(CallLogUnavailable):
        await store.append([of(FIRST, 1)], 0)
    with pytest.raises(CallLogUnavailable):
        await read(store, FIRST, None, 1, 0)
    await client.aclose()
