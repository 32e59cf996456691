"""GET /signals/history before its first signal: what is refused, and what is told of the range."""

import asyncio
from typing import Any

import pytest

from actors.errors import Err, Refusal
from actors.pages import PageAnswer
from actors.signals import history_page
from actors.signals.history_page import ACCOUNT_EXPORTS_MAX, EXPORTS_MAX
from actors.signals.log import SignalLogUnavailable
from tests.signals.test_history import NOW
from tests.signals.test_history_export import ACCOUNTS, a_world, event


@pytest.fixture
def urls(postgres_url: str, owner_url: str) -> tuple[str, str]:
    return postgres_url, owner_url


async def test_what_is_not_kept_any_more_is_told(urls: tuple[str, str]) -> None:
    """A range before it is refused, free; one that begins before it says so."""
    async with a_world(urls, [event(1)]) as world:
        await world.history.keep(NOW + 10, 0)
        before = await world.ask({"from": "1000", "to": str(NOW // 1000 - 10)})
        assert isinstance(before, Refusal) and "2024-10-04T00:00:00" in before.detail
        rows, end = await world.lines({"from": "1000"})
        assert len(rows) == 1 and end["kept_from"].startswith("2024-10-04")
        assert [gap["reason"] for gap in end["gaps"]] == ["not kept any more"]
        assert world.account.posted == {"signals/history": 10}


async def test_what_the_history_has_not_got_yet_is_not_called_complete(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the archive is behind the log, and for a range that is not over."""
    monkeypatch.setattr(history_page, "_ARCHIVE_SECONDS", 0)
    async with a_world(urls, [event(1)]) as world:
        assert (await world.lines({"to": "9000000000"}))[1]["reason"] == "newest"
        assert (await world.lines())[1]["reason"] == "complete"
        world.log.entries.append(event(2))
        assert (await world.lines())[1]["reason"] == "newest"
        assert (await world.lines({"to": str(NOW // 1000)}))[1]["reason"] == "complete"


@pytest.mark.threat(35)
async def test_the_number_of_exports_is_bounded(urls: tuple[str, str]) -> None:
    """Of one account: 429; of all: 503; both before any charge. An answer of which nothing was read counts no more."""
    async with a_world(urls, [event(1)]) as world:
        open_ones = []
        for account in ACCOUNTS[: EXPORTS_MAX // ACCOUNT_EXPORTS_MAX]:
            for _ in range(ACCOUNT_EXPORTS_MAX):
                answer = await world.ask(pubkey=account)
                assert isinstance(answer, PageAnswer)
                open_ones.append(answer)
        own, others = await world.ask(pubkey=ACCOUNTS[0]), await world.ask(pubkey=ACCOUNTS[-1])
        assert isinstance(own, Refusal) and own.err is Err.CONCURRENCY_LIMITED
        assert isinstance(others, Refusal) and others.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
        assert len(world.account.holds) == EXPORTS_MAX
        for answer in open_ones:
            assert not isinstance(answer.body, bytes)
            await answer.body.aclose()
        await world.meters.stop()
        assert world.account.posted == {} and isinstance(await world.ask(is_head=True), PageAnswer)


@pytest.mark.threat(35)
async def test_what_is_not_paid_for_takes_no_place_of_an_export(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that wait for the archive, and those of HEAD, keep nobody else out."""
    async with a_world(urls, [event(1)]) as world:
        waiting = asyncio.Event()

        async def slow(*_: Any) -> Any:
            await waiting.wait()
            return await extent()

        extent = world.page.rows.extent
        monkeypatch.setattr(world.page.rows, "extent", slow)
        free = [
            asyncio.create_task(world.ask(pubkey=account, is_head=number % 2 == 0))
            for number, account in enumerate(ACCOUNTS[:4] * ACCOUNT_EXPORTS_MAX)
        ]
        await asyncio.sleep(0)
        monkeypatch.setattr(world.page.rows, "extent", extent)
        others = await world.ask(pubkey=ACCOUNTS[-1])
        assert len(free) == EXPORTS_MAX and isinstance(others, PageAnswer)
        waiting.set()
        for answer in (others, *await asyncio.gather(*free)):
            assert isinstance(answer, PageAnswer)
            if not isinstance(answer.body, bytes):
                await answer.body.aclose()


async def test_without_the_stores_it_is_refused_free(urls: tuple[str, str]) -> None:
    async with a_world(urls, [event(1)]) as world:

        async def away(*_: Any) -> Any:
            raise SignalLogUnavailable

        world.log.read = away  # type: ignore[method-assign]
        answer = await world.ask()
        assert isinstance(answer, Refusal) and answer.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
        assert not world.account.holds
