"""Guards how long a start waits for the gateway, and for whom it does not."""

from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from actors.launch.local_run import readiness
from actors.launch.local_run.deadlines import Stop
from actors.launch.local_run.readiness import until_deployed, until_healthy


@asynccontextmanager
async def answering(answers: Sequence[tuple[int, str]]) -> Any:
    """A gateway that gives these answers one after the other, and the last one from then on."""
    left = list(answers)

    async def health(_: web.Request) -> web.Response:
        status, text = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_get("/health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", left
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_LOOK_SECONDS", 0.0)


async def test_it_waits_for_paid_calls_and_not_for_an_answer() -> None:
    answers = [
        (503, "<html>"),
        (200, "no JSON"),
        (200, '{"paid_traffic_ready": false}'),
        (200, '{"paid_traffic_ready": true}'),
    ]
    async with answering(answers) as (url, left):
        await until_healthy(url, Stop(), lambda: False)
        assert len(left) == 1


async def test_replicas_that_cannot_start_are_not_waited_for() -> None:
    """Serve has given them up after some tries, and says why."""

    def given_up() -> bool:
        raise ValueError("no such module")

    async with answering([(503, "")]) as (url, _):
        with pytest.raises(ValueError, match="no such module"):
            await until_healthy(url, Stop(), given_up)


async def test_a_start_that_is_to_stop_waits_for_nobody() -> None:
    stop = Stop()
    stop.set()
    await until_healthy("http://127.0.0.1:1", stop, lambda: False)


async def test_a_gateway_that_never_takes_calls_is_told_with_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_HEALTHY_SECONDS", 0.1)
    async with answering([(200, '{"paid_traffic_ready": false}')]) as (url, _):
        with pytest.raises(TimeoutError, match="logs/ tell why"):
            await until_healthy(url, Stop(), lambda: False)


async def test_the_start_ends_when_all_replicas_run() -> None:
    """A run that says it has a spare replica has one. One that is to stop, or whose replicas cannot start, does not
    wait."""
    looks = [False, False, True, True]
    await until_deployed(Stop(), lambda: looks.pop(0))
    assert len(looks) == 1
    stop = Stop()
    stop.set()
    await until_deployed(stop, lambda: False)

    def given_up() -> bool:
        raise ValueError("no such module")

    with pytest.raises(ValueError, match="no such module"):
        await until_deployed(Stop(), given_up)
