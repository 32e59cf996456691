"""Records of deliveries: which events they cover, how they are joined, and both stores."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from actors.signals.deliveries import Delivered, DeliveryStore, RedisDeliveries, merged
from actors.signals.filters import SignalFilter
from actors.signals.log import RedisSignalLog, SignalLogUnavailable
from actors.storage.connections import open_redis
from tests.signals.memory_store import MemoryDeliveries
from tests.signals.test_log import signal

ALL, SWAPS = SignalFilter(), SignalFilter(kinds=frozenset(["largeSwap"]))
NEWEST = "1000-0"


def record(after: int, until: int, wanted: SignalFilter = ALL) -> Delivered:
    return Delivered(wanted, f"{after}-0", f"{until}-0")


def test_a_record_covers_the_events_of_its_filter_in_its_range() -> None:
    """After the first cursor, up to the second."""
    mine = record(5, 9, SWAPS)
    large, pair = signal(kind="largeSwap"), signal()
    assert [mine.covers(f"{ms}-0", large) for ms in (5, 6, 9, 10)] == [False, True, True, False]
    assert not mine.covers("6-0", pair)


_ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.sampled_from([ALL, SWAPS])), max_size=12)


@given(ranges=_ranges)
def test_joining_changes_nothing_that_is_covered(ranges: list[tuple[int, int, SignalFilter]]) -> None:
    """And joins all ranges of one filter that meet."""
    records = {str(name): record(after, after + size, kept) for name, (after, size, kept) in enumerate(ranges)}
    changed, gone = merged(records, NEWEST)
    after = {name: each for name, each in (records | changed).items() if name not in gone}
    for ms in range(82):
        for event in (signal(), signal(kind="largeSwap")):
            assert any(each.covers(f"{ms}-0", event) for each in records.values()) == any(
                each.covers(f"{ms}-0", event) for each in after.values()
            )
    again, gone_again = merged(after, NEWEST)
    assert not again and not gone_again


def test_a_record_that_may_be_open_is_left_alone() -> None:
    """Its subscription writes it again only after seconds, and may be killed before."""
    records = {"old": record(1, 5), "open": record(4, 2_000)}
    assert merged(records, NEWEST) == ({}, set())


def test_there_are_at_most_some_hundreds_of_records() -> None:
    """An account that reconnects all day with gaps between."""
    records = {str(number): record(number * 10, number * 10 + 5) for number in range(90)}
    wide = {f"w{number}": record(number * 3 + 1_000_000, number * 3 + 1_000_001) for number in range(300)}
    _, gone = merged(records | wide, "9000000-0")
    assert len(records | wide) - len(gone) == 256 and not gone & wide.keys() - set(list(wide)[:44])


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[DeliveryStore]:
    if request.param == "memory":
        yield MemoryDeliveries()
        return
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield RedisDeliveries(client)
    await client.aclose()


async def test_records_are_kept_by_account_and_name(store: DeliveryStore) -> None:
    first, second = b"a" * 32, b"b" * 32
    await store.record([(first, "x", record(1, 2)), (second, "x", record(3, 4, SWAPS))])
    await store.record([(first, "x", record(1, 9)), (first, "y", record(5, 6))])
    assert await store.delivered(first) == {"x": record(1, 9), "y": record(5, 6)}
    assert await store.delivered(second) == {"x": record(3, 4, SWAPS)}
    await store.tidy(first, {"x": record(1, 10)}, {"y"})
    assert await store.delivered(first) == {"x": record(1, 10)}
    assert await store.now_ms() > 1_600_000_000_000


async def test_a_store_that_is_away_is_told_as_such() -> None:
    client = open_redis("redis://127.0.0.1:1")  # With the tries that the product makes.
    with pytest.raises(SignalLogUnavailable):
        await RedisDeliveries(client).record([(b"a" * 32, "x", record(1, 2))])
    await client.aclose()


async def test_while_a_redis_has_lost_its_data_nothing_can_be_billed(redis_url: str) -> None:
    """Its records are lost too, so everything of a day before its beginning is free; until then replays wait."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    deliveries = RedisDeliveries(client)
    with pytest.raises(SignalLogUnavailable):
        await deliveries.doubtful()
    await RedisSignalLog(client).restore({}, [])
    began_ms, found = await deliveries.now_ms(), await deliveries.doubtful()
    assert found.covers(f"{began_ms - 3_600_000}-5", signal()) and not found.covers(f"{began_ms + 60_000}-0", signal())
    assert not found.covers(f"{began_ms - 30 * 3_600_000}-0", signal())
    await client.aclose()
