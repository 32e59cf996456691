"""The measurement of built trades: what is asked when, and what it makes of the times."""

import time
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from bench.trades import Asked, plan, timed


def test_builds_are_asked_at_equal_distances_and_in_turn() -> None:
    """A purchase and a sale of each coin, then the next coin, at the rate that is measured."""
    builds = plan({"a": 7, "b": 9}, 4, 1.5)
    assert [one.at_seconds for one in builds] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert [(one.method, one.params["mint"]) for one in builds[:4]] == [
        *(("executeSnipe", "a"), ("executeSell", "a"), ("executeSnipe", "b"), ("executeSell", "b"))
    ]
    assert builds[3].params["token_amount"] == "9"


async def test_a_time_counts_from_when_the_build_was_due_and_failures_are_kept() -> None:
    """Else a stalled generator would hide the waits that it caused."""

    async def answer(request: web.Request) -> web.Response:
        asked: Any = await request.json()
        name = "result" if asked["method"] == "executeSnipe" else "error"
        return web.json_response({"jsonrpc": "2.0", "id": 1, name: {}})

    application = web.Application()
    application.router.add_post("/", answer)
    async with TestServer(application) as server, ClientSession() as session:
        url, failed = str(server.make_url("/")), list[str]()
        began = time.perf_counter() - 2
        assert await timed(session, url, Asked(1, "executeSnipe", {}), began, failed) >= 1
        assert failed == []
        await timed(session, url, Asked(1, "executeSell", {}), began, failed)
        assert len(failed) == 1
