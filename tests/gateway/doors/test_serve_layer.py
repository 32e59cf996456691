"""Guards what a stranger may tell Serve: nothing."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from uvicorn.config import HTTP_PROTOCOLS, WS_PROTOCOLS

from actors.gateway.doors import serve_layer
from actors.gateway.doors.serve_layer import ServeLayer, middlewares
from actors.http_server.choice import CautiousApp


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    serve_layer.open_to(None)


class App:
    """An ASGI application that keeps what reaches it."""

    websocket_paths = frozenset((b"/ws",))
    name_of_client = None

    def __init__(self) -> None:
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del receive, send
        self.scopes.append(scope)


def request(path: bytes, headers: list[tuple[bytes, bytes]], kind: str = "http") -> dict[str, Any]:
    return {"type": kind, "raw_path": path, "headers": headers}


OBEYED = [
    (b"x-request-id", b"forged"),
    (b"x-request-timeout-seconds", b"0.001"),
    (b"x-request-disconnect-disabled", b"?1"),
]


async def test_a_client_sets_none_of_the_headers_that_serve_obeys() -> None:
    """Rule: a stranger chooses no log entry, no time limit, and not whether its leaving is noticed; on no path."""
    door, inner = App(), App()
    for opened in (None, door):
        serve_layer.open_to(opened)
        for path in (b"/", b"/-/healthz"):
            await ServeLayer(inner)(request(path, [*OBEYED, (b"x-api-key", b"kept")]), None, None)
    for scope in (*door.scopes, *inner.scopes):
        assert scope["headers"] == [(b"x-api-key", b"kept")]


async def test_calls_go_straight_to_the_door_and_serves_own_paths_do_not() -> None:
    """Rule: from Serve's HTTP server straight to the door; Serve answers its health checks itself."""
    door, inner = App(), App()
    layer = ServeLayer(inner)
    await layer(request(b"/rpc", []), None, None)
    serve_layer.open_to(door)
    assert serve_layer.doorway.websocket_paths == door.websocket_paths
    await layer(request(b"/rpc", []), None, None)
    await layer(request(b"/-/healthz", []), None, None)
    assert [scope["raw_path"] for scope in inner.scopes] == [b"/rpc", b"/-/healthz"], "closed, calls go through Serve"
    assert [scope["raw_path"] for scope in door.scopes] == [b"/rpc"]


async def test_other_protocols_pass_as_they_are() -> None:
    """Rule: only HTTP requests carry these headers."""
    door, inner = App(), App()
    serve_layer.open_to(door)
    await ServeLayer(inner)(request(b"/ws", list(OBEYED), "websocket"), None, None)
    assert inner.scopes[0]["headers"] == OBEYED and door.scopes == []


def test_serve_gets_it_as_a_middleware() -> None:
    """Rule: Serve's hook wants a list of Starlette middlewares."""
    assert [middleware.cls for middleware in middlewares()] == [ServeLayer]


def test_where_uvicorn_is_not_as_expected_it_serves_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: what is in doubt is refused before anything else sees it, and no handshake gets past that."""
    monkeypatch.setattr(serve_layer, "http_server", lambda doorway: None)
    protocols, websockets = dict(HTTP_PROTOCOLS), {**WS_PROTOCOLS}
    monkeypatch.setattr(serve_layer, "HTTP_PROTOCOLS", protocols)
    monkeypatch.setattr(serve_layer, "WS_PROTOCOLS", websockets)
    assert [middleware.cls for middleware in middlewares()] == [CautiousApp, ServeLayer]
    assert protocols == HTTP_PROTOCOLS and websockets["auto"] is None


async def test_a_door_is_told_when_serve_replaces_its_process() -> None:
    """From whatever thread Serve does it, and with the time that is left; a process without a door has no streams."""
    told: list[float] = []

    class LeavingApp(App):
        def leave(self, grace_seconds: float) -> None:
            told.append(grace_seconds)

    serve_layer.leave(30.0)
    serve_layer.open_to(LeavingApp())
    await asyncio.to_thread(serve_layer.leave, 30.0)
    await asyncio.sleep(0)
    assert told == [30.0]
