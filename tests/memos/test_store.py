"""One suite for both stores of memos: of two writers who know the same attempt one writes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.clock import SystemClock
from actors.memos.core import Memo, Root
from actors.memos.store import Latest, MemosUnavailable, PostgresMemoStore
from tests.databases import emptied
from tests.memos.world import MemoryMemos, digest

ROOT = Root(3, 40, digest(4))


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if request.param == "memory":
        yield MemoryMemos()
        return
    urls = [request.getfixturevalue(name) for name in ("postgres_url", "owner_url")]
    async with emptied(*urls, "TRUNCATE root_memos", connections_max=2) as pool:
        yield PostgresMemoStore(pool)


async def test_an_hour_of_a_series_has_one_memo(store: Any) -> None:
    assert await store.latest([3, 4]) == [Latest(0, 0)] * 2 and await store.under_way() == []
    await store.begin(ROOT, 7)
    await store.begin(Root(3, 41, digest(5)), 7)
    await store.begin(Root(4, 1, digest(6)), 6)
    assert await store.under_way() == [Memo(Root(4, 1, digest(6)), 6), Memo(ROOT, 7)]
    assert await store.latest([4, 3]) == [Latest(6, 1), Latest(7, 40)]


async def test_of_two_senders_one_makes_the_next_attempt(store: Any) -> None:
    await store.begin(ROOT, 7)
    (memo,) = await store.under_way()
    assert await store.attempt(memo, b"s", b"t", 9)
    assert not await store.attempt(memo, b"other", b"u", 10)
    (sent,) = await store.under_way()
    assert sent == Memo(ROOT, 7, attempt=1, signature=b"s", transaction=b"t", valid_to=9)
    for stale in (store.landed(memo, 5), store.failed(memo, 5), store.lost(memo)):
        assert not await stale
    assert await store.failed(sent, 5_600)
    assert not await store.failed(sent, 5_600)
    (again,) = await store.under_way()
    assert again == Memo(ROOT, 7, attempt=2, charged=1)


async def test_what_has_ended_stays_as_it_is(store: Any) -> None:
    """A series whose memo was lost has none on the chain, and still had one in that hour."""
    for hour, number in ((7, 40), (8, 50)):
        await store.begin(ROOT._replace(number=number), hour)
    landed, lost = await store.under_way()
    assert await store.landed(landed, 5_000) and await store.lost(lost)
    assert await store.under_way() == [] and await store.latest([3]) == [Latest(8, 40)]
    for late in (store.landed(lost, 1), store.lost(landed), store.attempt(lost, b"s", b"t", 1)):
        assert not await late


async def test_the_hour_is_that_of_the_database(postgres_url: str, owner_url: str) -> None:
    async with emptied(postgres_url, owner_url, connections_max=1) as pool:
        store = PostgresMemoStore(pool)
        assert abs(await store.hour() - SystemClock().now() // 3600) <= 1
    with pytest.raises(MemosUnavailable):
        await store.hour()
