"""What a request tells uvicorn and its door."""

import asyncio
from typing import Any

from actors.http_server.exchange import HttpRequest


def a_request(client: tuple[str, int] | None = None) -> HttpRequest:
    door: Any = None
    return HttpRequest(door, b"/", [], {}, client, True)


def test_a_request_knows_the_peer_that_sent_it() -> None:
    """None where the peer has no address."""
    assert a_request(("192.0.2.1", 5)).peer == "192.0.2.1"
    assert a_request().peer is None


async def test_work_ends_when_the_client_left() -> None:
    """uvicorn sets the event of a request also when nobody left; a door's future is never cancelled."""
    request, task = a_request(), asyncio.ensure_future(asyncio.sleep(60))
    request.waiting = task
    request.message_event.set()
    assert not task.cancelling()
    request.disconnected = True
    request.message_event.set()
    assert task.cancelling()
    request.waiting = future = asyncio.get_running_loop().create_future()
    request.message_event.set()
    assert not future.cancelled()
