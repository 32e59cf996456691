"""GET /signals/recent: newest first, filters, pages, corrections, and its cache."""

import asyncio
from typing import Any

import orjson
import pytest

from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.pages import PageAnswer, PageRequest
from actors.signals.log import NO_CURSOR
from actors.signals.recent import SEARCHES_MAX, RecentSignals
from actors.signals.replays import ReplayPage, Replays
from tests.signals.test_hub import World, _yield
from tests.signals.test_log import put, signal, take_back


class RecentWorld(World):
    async def page(self) -> RecentSignals:
        self.clock = ManualClock()
        self.live = await self.hub()
        return RecentSignals(self.live, self.live._replays, self.clock, _yield)


async def get(page: RecentSignals, **query: str) -> Any:
    answer = await page.answer(PageRequest(None, query=query))
    if isinstance(answer, Refusal):
        return answer
    assert isinstance(answer, PageAnswer) and isinstance(answer.body, bytes)
    return orjson.loads(answer.body)


async def test_the_newest_come_first_with_their_cursors() -> None:
    """Decisions, `GET /signals/recent`: `{ok, events, next_cursor}`, at most `limit`."""
    world = RecentWorld()
    await world.write(80)
    page = await world.page()
    found = await get(page)
    assert found["ok"] and [each["mint"] for each in found["events"]] == [f"M{n}" for n in range(79, 29, -1)]
    assert found["events"][0] == signal(79).body() | {"cursor": found["next_cursor"]}
    assert len((await get(page, limit="3"))["events"]) == 3
    assert [each["mint"] for each in (await get(page, kinds="graduation"))["events"]] == []


async def test_with_since_pages_follow_each_other_oldest_first() -> None:
    """A client that fills a gap reads every signal once."""
    world = RecentWorld()
    await world.write(70)
    page = await world.page()
    cursor, mints = NO_CURSOR, []
    while (found := await get(page, since=cursor, limit="30"))["events"]:
        mints += [each["mint"] for each in found["events"]]
        cursor = found["next_cursor"]
    assert mints == [f"M{number}" for number in range(70)]
    assert cursor == world.live.last


async def test_searches_for_older_signals_take_turns_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for free, and each reads thousands of rows: calls of others must not wait for them."""
    world = RecentWorld()
    await world.write(30)
    page = await world.page()
    monkeypatch.setattr(world.live._ring, "number_after", lambda _: None)  # As if all were older.
    at_once: list[int] = []
    under_way = 0

    async def after(cursor: str, count: int) -> ReplayPage:
        nonlocal under_way
        under_way += 1
        at_once.append(under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return ReplayPage(await world.log.read(cursor, count))

    monkeypatch.setattr(world.live._replays, "after", after)
    found = await asyncio.gather(*(get(page, since=f"0-{number}", kinds="graduation") for number in range(70)))
    refused = [each for each in found if isinstance(each, Refusal)]
    assert {each.err for each in refused} == {Err.SERVICE_TEMPORARILY_UNAVAILABLE} and len(refused) == 70 - SEARCHES_MAX
    assert set(at_once) == {1}
    assert (await get(page, since="0-0", limit="7"))["events"][6]["mint"] == "M6"


async def test_what_a_fork_removed_is_not_shown() -> None:
    """And what moved has its new slot, in both orders."""
    world = RecentWorld()
    await put(world.log, [signal(1), signal(2), signal(2, slot=107), signal(3)], 0)
    await take_back(world.log, 100, [signal(1), signal(2)])
    page = await world.page()
    newest, oldest = await get(page), await get(page, since=NO_CURSOR)
    assert [(each["mint"], each["slot"]) for each in newest["events"]] == [("M3", 100), ("M2", 107)]
    assert [(each["mint"], each["slot"]) for each in oldest["events"]] == [("M2", 107), ("M3", 100)]


async def test_an_answer_is_kept_until_something_happens() -> None:
    """Cheap under load; never older than a quarter of a second when something did."""
    world = RecentWorld()
    await world.write(1)
    page = await world.page()
    first = await get(page)
    world.clock.advance(60)
    ring = world.live._replays.ring
    ring.newest_first = lambda: iter(())  # type: ignore[method-assign]
    assert await get(page) == first
    del ring.newest_first
    await world.write(1)
    await world.publish(world.live)
    world.clock.advance(1)
    assert [each["mint"] for each in (await get(page))["events"]] == ["M1", "M0"]


async def test_kept_answers_take_a_few_megabytes_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask, free: neither large answers nor long questions fill the memory, and the newest stay."""
    world = RecentWorld()
    await world.write(60)
    page = await world.page()
    monkeypatch.setattr("actors.signals.recent.CACHED_BYTES_MAX", 60_000)
    for number in range(1, 61):
        await get(page, limit=str(number))
        await get(page, kinds=",".join(["graduation"] * number))
        kept = sum(len(answer[2]) + len(str(key)) for key, answer in page._cached.items())
        assert kept <= page.cached_bytes <= 60_000
    assert 2 < len(page._cached) < 120 and (("limit", "60"),) in page._cached
    await world.write(1)
    await world.publish(world.live)
    world.clock.advance(1)
    for key in list(page._cached):
        await get(page, **dict(key))
    left = {key: 500 + len(answer[2]) + sum(map(len, sum(key, ()))) for key, answer in page._cached.items()}
    assert page.cached_bytes == sum(left.values()), "an answer that was replaced still counts"


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "501"},
        {"limit": "x"},
        {"limit": "9" * 40},
        {"limit": "0001" + "9" * 20},
        {"kinds": "x"},
    ],
)
async def test_a_bad_query_is_refused(query: dict[str, str]) -> None:
    world = RecentWorld()
    refusal = await get(await world.page(), **query)
    assert isinstance(refusal, Refusal) and refusal.err is Err.INVALID_REQUEST


async def test_stores_that_are_away_are_a_503() -> None:
    world = RecentWorld()
    await world.write(1)
    page = await world.page()
    assert isinstance(world.live._replays, Replays)

    async def away() -> None:
        from actors.signals.log import SignalLogUnavailable

        raise SignalLogUnavailable("away")

    world.log.oldest = away  # type: ignore[method-assign]
    refusal = await get(page, since="5-0")
    assert isinstance(refusal, Refusal) and refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
