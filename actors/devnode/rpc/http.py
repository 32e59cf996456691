"""The HTTP door: POST / for JSON-RPC, GET /health, and whatever routes are handed in.

Implements: a raw ASGI application; bodies are capped like a node's (50 KiB). Browsers may call JSON-RPC from any
origin, as on a node; other routes give no such permission.
Not here: what the routes do.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from actors.devnode.rpc.dispatch import Dispatcher
from actors.devnode.rpc.errors import RpcError
from actors.devnode.rpc.node import Health

BODY_BYTES_MAX = 50 * 1024  # Agave's default max_request_body_size.

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: bytes = b"application/json"


Route = Callable[[Scope, bytes], Reply]

_CORS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"POST, GET, OPTIONS"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
]


class TooLarge(Exception):
    """The body is above the cap."""


class HttpDoor:
    """routes: (verb, path) to handler, for doors beside JSON-RPC. websocket: takes WebSocket connections, if any."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        health: Health,
        routes: Mapping[tuple[str, str], Route],
        websocket: AsgiApp | None = None,
    ) -> None:
        self._dispatcher, self._health, self._routes, self._websocket = dispatcher, health, routes, websocket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            if self._websocket is not None:
                await self._websocket(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        verb, path = scope["method"], scope["path"]
        route = self._routes.get((verb, path))
        try:
            if route is not None:
                await _send(send, route(scope, await _body(receive)))
            elif verb == "POST" and path == "/":
                answer = self._dispatcher.answer(await _body(receive))
                await _send(send, Reply(200, answer or b""), cors=True)
            elif verb == "GET" and path == "/health":
                await _send(send, Reply(200, self._health_text(), b"text/plain"), cors=True)
            elif verb == "OPTIONS" and path == "/":
                await _send(send, Reply(204, b"", b"text/plain"), cors=True)
            elif path in ("/", "/health") or any(path == known for _, known in self._routes):
                await _send(send, Reply(405, b"method not allowed\n", b"text/plain"))
            else:
                await _send(send, Reply(404, b"not found\n", b"text/plain"))
        except TooLarge:
            text = f"request body is larger than {BODY_BYTES_MAX} bytes\n".encode()
            await _send(send, Reply(413, text, b"text/plain"))

    def _health_text(self) -> bytes:
        try:
            self._health.check()
        except RpcError:
            return b"unknown" if self._health.slots_behind is None else b"behind"
        return b"ok"


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):  # Nearly every request comes in one piece.
        if len(body) > BODY_BYTES_MAX:
            raise TooLarge
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            raise TooLarge
    return b"".join(parts)


async def _send(send: Send, reply: Reply, cors: bool = False) -> None:
    headers = [(b"content-type", reply.content_type), (b"content-length", str(len(reply.body)).encode())]
    if cors:
        headers += _CORS if reply.status == 204 else _CORS[:1]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
