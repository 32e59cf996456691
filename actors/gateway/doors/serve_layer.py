"""Leads every request under Ray Serve from Serve's HTTP server straight to the door.

Implements: design, "Measured facts" (straight to replicas); interface, `X-Request-Id` (one, made here);
threats 9 and 13 (no client writes into a log). Plugged in by
RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH, Serve's own hook for ASGI middlewares.

Between its HTTP server and a replica's application Serve puts two tasks, two context managers, four metrics and a log
record per request, which measured as a third of a replica's time. The door has its own load limit, figures, ids and
watch for disconnections, so calls go to it directly, and POSTs of calls even from the parser (http_server/).
Serve keeps placing, checking, replacing and draining replicas (its HTTP server waits for what is under way), and
answers its own paths. What is given up: Serve's own request metrics, and autoscaling by them; the number of replicas
is the operator's (gateway.replicas).

Serve also obeys request headers: an id that it echoes and logs, a time limit, a switch for noticing departures. A
stranger must set none of them, on any path.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.middleware import Middleware
from uvicorn.config import HTTP_PROTOCOLS, WS_PROTOCOLS

from actors.http_server.choice import CautiousApp, http_server
from actors.http_server.exchange import Doorway

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]

_SERVES_OWN = b"/-/"  # Serve's own health and routes.
_OBEYED = frozenset((b"x-request-id", b"x-request-disconnect-disabled", b"x-request-timeout-seconds"))
# The front has a time limit for the head and for the first 15 kB of the body; what is longer is passed on as it comes.
# This is for the rest, and for a request that comes to a replica directly. The longest body, 256 KiB, needs 26 kB a
# second: less than a weak mobile connection has.
_ARRIVAL_SECONDS_MAX = 10.0

# Doorway of this process. It has a door once the application runs, in processes that have one.
doorway = Doorway(arrival_seconds_max=_ARRIVAL_SECONDS_MAX)
_loop: asyncio.AbstractEventLoop | None = None  # Event loop of the door.


def open_to(door: Any) -> None:
    """Send this process's calls directly to this door, an HttpDoor; None: through Serve again."""
    global _loop
    _loop = None if door is None else asyncio.get_running_loop()
    doorway.door = door
    doorway.websocket_paths = frozenset() if door is None else door.websocket_paths
    doorway.name_of = None if door is None else door.name_of_client


def leave(grace_seconds: float) -> None:
    """Tell this process's door that Serve replaces the process. May be called from any thread."""
    door: Any = doorway.door
    if door is not None and _loop is not None:
        _loop.call_soon_threadsafe(door.leave, grace_seconds)


class ServeLayer:
    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headers"] = [header for header in scope["headers"] if header[0] not in _OBEYED]
        door: Any = doorway.door
        if door is None or scope["raw_path"].startswith(_SERVES_OWN):
            await self._app(scope, receive, send)
        else:
            await door(scope, receive, send)


def middlewares() -> list[Middleware]:
    """What Serve's hook calls once in each process that listens, just before its HTTP server is made.

    Serve lets nobody choose the protocol class of that server; uvicorn's table of names does.
    """
    http = http_server(doorway)
    if http is None:
        WS_PROTOCOLS["auto"] = None  # Otherwise uvicorn would route WebSocket handshakes around CautiousApp.
        return [Middleware(CautiousApp), Middleware(ServeLayer)]
    HTTP_PROTOCOLS["auto"] = http
    return [Middleware(ServeLayer)]
