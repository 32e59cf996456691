"""The HTTP door: POST / for JSON-RPC, GET /health, and whatever routes are handed in.

Implements: a raw ASGI application; bodies are capped like a node's (50 KiB). Browsers may call JSON-RPC from any
origin, as on a node; other routes give no such permission.
Not here: what the routes do.
"""

from collections.abc import Mapping

from actors.devnode.execution.signature_checks import SignatureChecks
from actors.devnode.faults.door import answer_faultily
from actors.devnode.rpc.asgi import AsgiApp, Receive, Reply, Route, Scope, Send, send_reply
from actors.devnode.rpc.dispatch import Dispatcher
from actors.devnode.rpc.errors import RpcError
from actors.devnode.rpc.node import Health
from actors.devnode.rpc.unfinished import Unfinished

BODY_BYTES_MAX = 50 * 1024  # Agave's default max_request_body_size.


class TooLarge(Exception):
    """The body is above the cap."""


class HttpDoor:
    """routes: (verb, path) to handler, for doors beside JSON-RPC. websocket: takes WebSocket connections, if any.
    signature_checks: who may check the signatures of what is sent."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        health: Health,
        routes: Mapping[tuple[str, str], Route],
        websocket: AsgiApp | None = None,
        signature_checks: SignatureChecks | None = None,
    ) -> None:
        self.signature_checks = SignatureChecks(cores=1) if signature_checks is None else signature_checks
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
                await send_reply(send, route(scope, await _body(receive)))
            elif verb == "POST" and path == "/":
                await self._call(await _body(receive), receive, send)
            elif verb == "GET" and path == "/health":
                await send_reply(send, Reply(200, self._health_text(), b"text/plain"), cors=True)
            elif verb == "OPTIONS" and path == "/":
                await send_reply(send, Reply(204, b"", b"text/plain"), cors=True)
            elif path in ("/", "/health") or any(path == known for _, known in self._routes):
                await send_reply(send, Reply(405, b"method not allowed\n", b"text/plain"))
            else:
                await send_reply(send, Reply(404, b"not found\n", b"text/plain"))
        except TooLarge:
            text = f"request body is larger than {BODY_BYTES_MAX} bytes\n".encode()
            await send_reply(send, Reply(413, text, b"text/plain"))

    async def _call(self, body: bytes, receive: Receive, send: Send) -> None:
        faults = self._health.faults
        if faults.befall_calls and await answer_faultily(faults, body, self._dispatcher.answer, receive, send):
            return
        await send_reply(send, Reply(200, self._dispatcher.answer(body) or b""), cors=True)

    @property
    def answers_at_once(self) -> bool:
        """Whether `begin` is all there is to a call: no fault makes anybody wait."""
        return not self._health.faults.befall_calls

    def begin(self, body: bytes) -> "bytes | Unfinished[bytes | None]":
        """The reply to the body of a JSON-RPC call, empty for notifications; or what is left to do for it."""
        assert len(body) <= BODY_BYTES_MAX, len(body)
        return self._dispatcher.begin(body) or b""

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
