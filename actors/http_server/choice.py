"""Chooses the HTTP server of a process: the one of this folder, or uvicorn as it is.

Implements: threats 7, 45 and 46 where uvicorn is not as server.py expects it. A shell.
server.py rests on the inside of uvicorn. So that inside is tried out once, without a network, before a process listens.
Where it is another, uvicorn's own server and ASGI answer every request, and the application is wrapped in
CautiousApp. What is lost then, and what still protects:

| Lost | In its place |
|---|---|
| the short way from the parser to a door | ASGI, at about two thirds more processor time a call |
| bodies in chunks, whose trailers uvicorn reports as headers | refused with 400, and the connection is closed |
| limits for a head's length, a slow request, and a client that takes nothing | the front (HAProxy) has its own |

The last row protects nobody who reaches a replica past the front, and the warning says so.
"""

import logging
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from actors.http_server.exchange import Doorway, HttpRequest
from actors.http_server.responses import HttpResponse, refusal

logger = logging.getLogger(__name__)

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
_REFUSED = "this server takes one Host, no upgrades, no CONNECT and no bodies in chunks; send a Content-Length"


def http_server(doorway: Doorway) -> Any:
    """Return the value for uvicorn's `http` setting; None: use uvicorn unchanged, with CautiousApp."""
    try:
        # Imported here, because it names parts of uvicorn that another version may lack.
        from actors.http_server.server import HttpServer

        _try_out(HttpServer)
    except Exception as error:  # noqa: BLE001  # Whatever it is, uvicorn as it is still serves.
        logger.warning(
            "uvicorn is not as expected (%s: %s): requests are answered more slowly, and bodies in chunks are refused; "
            "let clients reach this process through the front only, as it alone bounds long heads and slow clients",
            *(type(error).__name__, error),
        )
        return None
    return partial(HttpServer, doorway)


class CautiousApp:
    """An ASGI application that refuses, and closes the connection of, each request whose end uvicorn may find elsewhere
    than a front does, or whose headers may have come after its body. Behind a front, uvicorn's `ws` must be "none"."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and _is_in_doubt(scope):
            response = refusal(_REFUSED, 400)
            await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
            await send({"type": "http.response.body", "body": response.body})
        else:
            await self._app(scope, receive, send)


def _is_in_doubt(scope: Any) -> bool:
    names = [name for name, _ in scope["headers"]]
    hosts = names.count(b"host")
    return (
        scope["method"] == "CONNECT"
        or (b"upgrade" in names or b"transfer-encoding" in names)
        or hosts > 1
        or (not hosts and scope["http_version"] == "1.1")
    )


# --- whether uvicorn is as expected


class _Rehearsal:
    """Stands in for everything around a connection: the loop, the transport, the door and the ASGI application."""

    body_bytes_max, late = 100, None
    written = b""
    is_ended = False

    def get_extra_info(self, name: str) -> None: ...
    def add_done_callback(self, callback: Any) -> None: ...
    def cancel(self) -> None: ...

    def time(self) -> float:
        return 0.0

    def call_later(self, seconds: float, callback: Any) -> "_Rehearsal":
        return self

    def create_task(self, work: Coroutine[Any, Any, None]) -> "_Rehearsal":
        """Run the coroutine to its end at once."""
        with suppress(StopIteration):
            work.send(None)
        return self

    def write(self, data: bytes) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        self.is_ended = True

    def takes(self, request: HttpRequest) -> bool:
        return request.target == b"/door"

    def answer(self, request: HttpRequest) -> bytes:
        assert request.by_name == {b"host": b"a", b"content-length": b"2"}, request.by_name
        return _OK + request.body

    def refused(self, reason: str, status: int) -> HttpResponse:
        return refusal(reason, status)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": scope["path"][1:].encode()})


def _try_out(server: Any) -> None:
    """Raise unless a connection without a network answers by its door, by ASGI, and with a refusal, in this order."""
    world: Any = _Rehearsal()
    config = Config(world, log_config=None, lifespan="off", http=server, access_log=False)
    connection = server(Doorway(world), config, ServerState(), {}, _loop=world)
    connection.connection_made(world)
    host = b"HTTP/1.1\r\nHost: a\r\n"
    connection.data_received(b"POST /door %bContent-LENGTH: 2\r\n\r\nhiGET /ok %b\r\n" % (host, host))
    answered = world.written
    connection.data_received(b"POST /door %bTransfer-Encoding: chunked\r\n\r\n0\r\nx-late: 1\r\n\r\n" % host)
    connection.connection_lost(None)
    assert answered == _OK + b"hi" + _OK + b"ok", answered
    assert world.written[len(answered) :].startswith(b"HTTP/1.1 400 ") and world.is_ended, "trailers are not refused"
