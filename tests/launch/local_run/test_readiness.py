"""readiness.py: a run is ready when /health says so, and not before; Serve's failure is told."""

import asyncio

import pytest
from aiohttp import web

from actors.launch.local_run import readiness
from actors.launch.local_run.deadlines import Stop


async def served(answers: list[tuple[int, bool]], seen: list[int], stop: Stop) -> None:
    """Wait for a server that gives these answers (status, ready) one after the other."""

    async def health(_: web.Request) -> web.Response:
        seen.append(1)
        status, is_ready = answers[min(len(seen), len(answers)) - 1]
        return web.json_response({"paid_traffic_ready": is_ready}, status=status)

    app = web.Application()
    app.router.add_get("/health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        await asyncio.wait_for(readiness.until_healthy(f"http://127.0.0.1:{port}", stop), 5)
    finally:
        await runner.cleanup()


async def test_a_run_is_ready_when_health_says_that_paid_calls_are_accepted() -> None:
    seen: list[int] = []
    await served([(503, False), (200, False), (200, True)], seen, Stop())
    assert len(seen) == 3


async def test_a_stop_signal_ends_the_wait() -> None:
    stop = Stop()
    stop.set()
    seen: list[int] = []
    await served([(503, False)], seen, stop)
    assert seen == []


async def test_what_serve_says_of_a_failed_deployment_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed() -> None:
        raise readiness.cluster.StartFailed("no")

    monkeypatch.setattr(readiness.cluster, "require_deploying", failed)
    monkeypatch.setattr(readiness, "_LOOKS_BETWEEN", 2)
    seen: list[int] = []
    with pytest.raises(readiness.cluster.StartFailed):
        await served([(503, False)], seen, Stop())
    assert len(seen) == 2


async def test_a_run_that_does_not_get_healthy_is_told_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_HEALTHY_SECONDS", 0.2)
    with pytest.raises(TimeoutError, match="logs/ tell why"):
        await served([(503, False)], [], Stop())
