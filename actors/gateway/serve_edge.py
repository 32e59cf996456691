"""The outermost layer of every request under Ray Serve: what it would take from a client, it takes from us.

Implements: interface specification, `X-Request-Id` (one, made here); hostile inputs 9 and 13 (nothing of a log is the
caller's to make). Plugged in by RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH, Serve's own hook for ASGI middlewares.

Serve reads three request headers: an id that it echoes and logs, a time limit, and a switch for watching whether the
client is still there. A stranger must set none of them. The id is ours. Serve's watching is switched off, as it costs
two tasks a request, a sixth of a replica's time; the door watches by itself, and only calls that take long enough for
anybody to leave (door_http.py).
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.middleware import Middleware

from actors.telemetry import RequestIds

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]

_OURS = frozenset((b"x-request-id", b"x-request-disconnect-disabled", b"x-request-timeout-seconds"))
_UNWATCHED = (b"x-request-disconnect-disabled", b"?1")


class ServeEdge:
    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._ids = RequestIds()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [header for header in scope["headers"] if header[0] not in _OURS]
            headers += ((b"x-request-id", self._ids.next().encode()), _UNWATCHED)
            scope["headers"] = headers
        await self._app(scope, receive, send)


def middlewares() -> list[Middleware]:
    """What Serve's hook calls once in each process that listens."""
    return [Middleware(ServeEdge)]
