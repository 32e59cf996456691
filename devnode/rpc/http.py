"""The HTTP door: POST / for JSON-RPC, GET /health, and whatever routes are handed in.

Implements: a raw ASGI application; bodies are capped like a node's (50 KiB). Browsers may call JSON-RPC from any
origin, as on a node; other routes give no such permission. In a chain that clones, a call waits for the accounts that
it touches, and gets an error if they cannot be fetched.
Not here: what the routes do.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

import orjson

from actors.http_server.exchange import HttpRequest
from actors.http_server.responses import HttpResponse, refusal
from devnode.cloning.cloner import CloneError, Cloner
from devnode.cloning.touched import touched_by_calls, touched_by_fund
from devnode.cloning.upstream import CLONING_HEADER
from devnode.execution.signature_checks import SignatureChecks
from devnode.rpc.asgi import AsgiApp, Receive, Reply, Route, Scope, Send, send_reply
from devnode.rpc.dispatch import Dispatcher, Unfinished, failed
from devnode.rpc.errors import RpcError, internal_error
from devnode.rpc.faulty_answers import answer_faultily
from devnode.rpc.node import Health

BODY_BYTES_MAX = 50 * 1024  # Agave's default max_request_body_size.
FUND_PATH = "/admin/fund"


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\naccess-control-allow-origin: *\r\ncontent-length: "


class TooLarge(Exception):
    """The body is above the cap."""


class HttpDoor:
    """routes: (verb, path) to handler, for doors beside JSON-RPC. websocket: takes WebSocket connections, if any.
    signature_checks: who may check the signatures of what is sent."""

    body_bytes_max = BODY_BYTES_MAX
    late = None  # Nothing is paid for here.

    def __init__(
        self,
        dispatcher: Dispatcher,
        health: Health,
        routes: Mapping[tuple[str, str], Route],
        websocket: AsgiApp | None = None,
        signature_checks: SignatureChecks | None = None,
        cloner: Cloner | None = None,
    ) -> None:
        self._cloner = cloner
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
                body = await _body(receive)
                reply = await self._lacking(scope, body) or route(scope, body)
                await send_reply(send, reply if isinstance(reply, Reply) else await reply)
            elif verb == "POST" and path == "/":
                body = await _body(receive)
                lacking = await self._lacking(scope, body)
                if lacking is None:
                    await self._call(body, receive, send)
                else:
                    await send_reply(send, lacking, cors=True)
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

    async def _lacking(self, scope: Scope, body: bytes) -> Reply | None:
        """Bring the accounts that a request touches; the refusal if they cannot be fetched.

        Nothing is brought for another node that clones: two that clone from each other would wait for each other."""
        cloner = self._cloner
        if cloner is None or scope["method"] != "POST" or CLONING_HEADER in dict(scope["headers"]):
            return None
        funds = scope["path"] == FUND_PATH
        touched = touched_by_fund(body) if funds else touched_by_calls(body)
        try:
            await cloner.bring(touched)
        except CloneError as error:
            if funds:
                return Reply(502, orjson.dumps({"ok": False, "error": str(error)}))
            return Reply(200, failed(body, internal_error(str(error))))
        return None

    # --- without ASGI (actors/http_server): JSON-RPC, answered in the turn that read it. A send may wait for a check of
    # its signatures. Measured with getAccountInfo on one core: 101 us of CPU by way of ASGI, half of that here.

    def takes(self, request: HttpRequest) -> bool:
        """Take the request unless faults or another node may make calls wait."""
        may_wait = self._cloner is not None or self._health.faults.befall_calls
        return request.target == b"/" and request.keep_alive and not may_wait

    def answer(self, request: HttpRequest) -> "bytes | asyncio.Future[bytes]":
        """The reply to the body of a JSON-RPC call, empty for notifications."""
        reply = self._dispatcher.begin(request.body)
        if not isinstance(reply, Unfinished):
            return _whole(reply or b"")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        finish = partial(_finish, reply, answer)
        request.hurry = partial(finish, is_signed=False)
        self.signature_checks.check(reply.raw, finish)
        return answer

    def too_long(self, request: HttpRequest) -> HttpResponse:
        text = b"request body is larger than %d bytes\n" % BODY_BYTES_MAX
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text))]
        return HttpResponse(413, text, headers)

    def refused(self, reason: str, status: int) -> HttpResponse:
        return refusal(reason, status, source="node")

    def _health_text(self) -> bytes:
        try:
            self._health.check()
        except RpcError:
            return b"unknown" if self._health.slots_behind is None else b"behind"
        return b"ok"


def _finish(reply: Unfinished[bytes | None], answer: "asyncio.Future[bytes]", is_signed: bool) -> None:
    """Completes the answer even after a disconnect: the request was received."""
    if not answer.done():  # Otherwise the next request has finished it before the check ended.
        try:
            answer.set_result(_whole(reply.finish(is_signed) or b""))
        except Exception as error:  # noqa: BLE001  # The server logs it.
            answer.set_exception(error)


def _whole(body: bytes) -> bytes:
    return b"%b%d\r\n\r\n%b" % (_HEAD, len(body), body)


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
