"""The HTTP door: a bare ASGI application.

Implements: interface specification, "JSON-RPC gateway", "HTTP statuses and bodies", "Limits" (headers); hostile
inputs 6 to 13 and 35.
The shell. POST / and POST /rpc are hot and go straight to the pipeline; routes.py answers the other paths. A path is
compared with the client's own bytes: `/rpc/`, `//rpc`, `/RPC` and `/%72pc` are no paths of this service.

Order of checks: framing, size, credential, JSON-RPC, then the pipeline's own order. URLs are never logged: they may
carry a key.
"""

import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from actors.accounts.api import AccountsClient
from actors.calls import SettleRequest
from actors.clock import Clock
from actors.config import Config
from actors.errors import Err, Refusal
from actors.gateway import answers, bulk_requests, headers, jsonrpc, replies, terms
from actors.gateway.departures import while_there
from actors.gateway.door_bulk import BulkDoor
from actors.gateway.paid_requests import refused_for_free, within
from actors.gateway.payments import Paid, PaymentDoor, Refuse
from actors.gateway.pipeline import EDGE_BYTES, Node, Pipeline, Replies
from actors.gateway.replies import Response
from actors.gateway.requests import (
    ClientLeftError,
    Looks,
    Receive,
    Request,
    Scope,
    Send,
    answer_other,
    look,
    raw_path,
    read_body,
    too_long,
)
from actors.gateway.routes import DepositDesk, Routes, StatusPages
from actors.gateway.sign_in import EXTENSION, NONCE_BYTES, SignIn
from actors.gateway.terms import Terms
from actors.identity.proofs import prove, uses_url_key
from actors.identity.store import IdentityStore
from actors.settlements import BlockhashHint, PaymentDesk

logger = logging.getLogger(__name__)

_RPC_PATHS = (b"/", b"/rpc")
_NO_CREDENTIALS = Refusal(Err.PAYMENT_REQUIRED)
_NOT_SERVED = Refusal(Err.NOT_FOUND)
_STRANGERS_BODY_MAX = 4_096  # Of a request without credentials, only a small one is read to give back its id.


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the door works with. config: whole and settled, with the network, wallets and cluster secret filled in."""

    config: Config
    accounts: AccountsClient
    node: Node
    identity_store: IdentityStore
    status: StatusPages
    clock: Clock
    randomness: Callable[[int], bytes] = os.urandom
    edge: bytes = b""  # What this process's operation ids begin with, where accounts must know it; else made here.
    # A request that carries X-Request-Id got it from a layer of ours outside, which answers with it too; on all others
    # this door makes the id. False: whatever a request carries is a stranger's.
    ids_from_edge: bool = False
    payment_desk: PaymentDesk | None = None  # None: x402 payments are not taken.
    deposits: DepositDesk | None = None  # None: there is no deposit wallet.


class HttpDoor:
    """The ASGI application. close() waits for what is still being settled for clients who left."""

    def __init__(self, dependencies: Dependencies) -> None:
        config = dependencies.config
        edge = dependencies.edge or dependencies.randomness(EDGE_BYTES)
        self._clock = dependencies.clock
        self._ids_from_edge = dependencies.ids_from_edge
        self._identity = config.identity
        self.body_bytes_max = config.gateway.body_bytes_max
        self._payments = config.payments
        self._public_url = config.serve.public_url or f"http://{config.serve.host}:{config.serve.http_port}"
        self._desk = dependencies.payment_desk
        self._payment_door = PaymentDoor(config.payments, self._desk)
        self._sign_in = SignIn(config.payments, self._public_url)
        self._randomness = dependencies.randomness
        self._terms_by_path: dict[bytes, tuple[BlockhashHint | None, Terms]] = {}
        self._pipeline = Pipeline(
            dependencies.accounts, dependencies.node, self._clock, edge, config.gateway.calls_in_flight_max
        )
        self._routes = Routes(
            config,
            dependencies.accounts,
            dependencies.identity_store,
            dependencies.status,
            self._clock,
            dependencies.randomness,
            self._terms,
            self._payment_door,
            self._sign_in,
            dependencies.deposits,
        )
        self._bulk = BulkDoor(config, self._pipeline, self._clock, self._terms, self._pay_for_list, self._sign_in)
        self._request_prefix = edge.hex()[:10] + "-"
        self._requests = 0

    async def close(self) -> None:
        await self._pipeline.drain()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await answer_other(scope, receive, send)
            return
        looks = look(scope["headers"])
        request_id = self._request_id(looks)
        path = raw_path(scope)
        try:
            if scope["method"] == "POST" and path in _RPC_PATHS:
                response = await self._rpc(scope, receive, path, looks, request_id)
            elif scope["method"] == "POST" and path in bulk_requests.ROWS:
                response = await self._bulk.answer(scope, receive, path, looks, request_id)
            else:
                response = await self._other(scope, receive, path, looks, request_id)
        except ClientLeftError:
            return
        except Exception:  # Whatever it was, the client gets an answer with an id to ask about.
            logger.exception("request %s failed", request_id)
            response = replies.internal(request_id)
        self._complete(response, request_id, looks)
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        if response.parts:
            await answers.send_parts(send, response.parts, request_id)
        else:
            await send({"type": "http.response.body", "body": response.body})
        if response.charges:
            self.delivered(response.charges)

    # --- the short way (swift_http.py)

    def takes(self, target: bytes) -> bool:
        """Whether calls are posted to this request target, which may carry a query."""
        return target in _RPC_PATHS or (b"#" not in target and target.partition(b"?")[0] in _RPC_PATHS)

    async def answer_calls(self, target: bytes, sent: headers.HeaderList, body: bytes, looks: Looks) -> Response:
        """To a POST of calls that carries no payment and whose body is whole: ready to be written.

        Whoever calls this cancels it when the client leaves, and says so to delivered() when the answer has left.
        """
        path, _, query = target.partition(b"?")
        request_id = self._next_id()
        try:
            response = await self._calls(sent, query, path, body, request_id)
        except Exception:
            logger.exception("request %s failed", request_id)
            response = replies.internal(request_id)
        self._complete(response, request_id, looks)
        return response

    def too_long(self, looks: Looks) -> Response:
        """To a body that is longer than body_bytes_max; the rest of it is not read."""
        request_id = self._next_id()
        response = self._closing(too_long(self.body_bytes_max), request_id)
        self._complete(response, request_id, looks)
        return response

    def delivered(self, charges: Sequence[SettleRequest]) -> None:
        """The answers that these paid for have left."""
        self._pipeline.delivered(charges)

    # --- both ways

    def _complete(self, response: Response, request_id: str, looks: Looks) -> None:
        """Add the headers that every answer has."""
        response.id = request_id
        added = response.headers
        if not (self._ids_from_edge and looks.edge_id):
            added.append((b"x-request-id", request_id.encode()))
        if looks.browser:
            added += headers.CORS
        if response.status != 204:
            length = len(response.body) + sum(map(len, response.parts))
            added += (headers.JSON_CONTENT, (b"content-length", b"%d" % length))

    def _request_id(self, looks: Looks) -> str:
        return looks.edge_id.decode("latin-1") if self._ids_from_edge and looks.edge_id else self._next_id()

    def _next_id(self) -> str:
        self._requests += 1
        return f"{self._request_prefix}{self._requests:x}"

    async def _rpc(
        self,
        scope: Scope,
        receive: Receive,
        path: bytes,
        looks: Looks,
        request_id: str,
    ) -> Response:
        sent = scope["headers"]
        body = looks.fault or await read_body(receive, self.body_bytes_max)
        if isinstance(body, Refusal):
            return self._closing(body, request_id)
        paid = await self._pay_for_calls(scope, path, body, request_id) if looks.pays else None
        if isinstance(paid, Response):
            return paid
        return await self._calls(sent, scope["query_string"], path, body, request_id, paid, receive)

    async def _calls(
        self,
        sent: headers.HeaderList,
        query: bytes,
        path: bytes,
        body: bytes,
        request_id: str,
        paid: Paid | None = None,
        receive: Receive | None = None,
    ) -> Response:
        """receive: where it is to be noticed here that the client has left; then raises ClientLeftError."""
        proof = paid.proof if paid else prove(sent, query, "POST", path, body, self._clock.now(), self._identity)
        proof = proof or self._sign_in.proof(sent, self._clock.now())
        if proof is None:
            return self._without_credentials(path, body, request_id)
        if isinstance(proof, Refusal):
            return replies.plain(proof, request_id)
        parsed = jsonrpc.parse(body)
        if isinstance(parsed, list):
            calls = within(parsed, paid.credits) if paid else parsed
            done = await _there(receive, self._pipeline.batch(proof, calls))
            response = self._batch_response(done, path, request_id)
        else:
            call = jsonrpc.BadCall(jsonrpc.NO_ID, parsed) if isinstance(parsed, Refusal) else parsed
            if paid:
                (call,) = within([call], paid.credits)
            done = await _there(receive, self._pipeline.single(proof, call))
            response = self._single_response(done, call.id, path, request_id)
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        if paid:
            response.headers += paid.headers
        elif query and uses_url_key(sent, query):
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    async def _pay_for_calls(self, scope: Scope, path: bytes, body: bytes, request_id: str) -> Paid | Response | None:
        """The payment that came with these calls, settled. None: payments are not taken, credentials decide."""
        if not self._payment_door.takes_payments:
            return None
        parsed = jsonrpc.parse(body)
        if isinstance(parsed, Refusal):
            return replies.plain(parsed, request_id)
        raw_id = jsonrpc.NO_ID if isinstance(parsed, list) else parsed.id
        free = refused_for_free(parsed)
        if free is not None and isinstance(parsed, list):
            return self._batch_response(free, path, request_id)
        if free is not None:
            return self._single_response(free, raw_id, path, request_id)

        def refuse(refusal: Refusal, page: Terms) -> Response:
            if isinstance(parsed, list):
                return replies.plain(refusal, request_id, page)
            return replies.single(refusal, raw_id, request_id, page)

        return await self._pay(_request(scope, path, request_id), refuse)

    async def _pay_for_list(self, scope: Scope, path: bytes, request_id: str) -> Paid | Response | None:
        """As _pay_for_calls, for a path whose errors are plain ones."""
        if not self._payment_door.takes_payments:
            return None
        request = _request(scope, path, request_id)
        return await self._pay(request, lambda refusal, page: replies.plain(refusal, request_id, page))

    async def _pay(self, request: Request, refuse: Refuse) -> Paid | Response:
        over_limit = await self._routes.over_limit(request)
        address = self._routes.address_of(request)
        return over_limit or await self._payment_door.take(request.headers, address, self._terms(request.path), refuse)

    async def _other(
        self,
        scope: Scope,
        receive: Receive,
        path: bytes,
        looks: Looks,
        request_id: str,
    ) -> Response:
        method: str = scope["method"]
        sent = scope["headers"]
        if method == "OPTIONS":
            return Response(204, b"", list(headers.PREFLIGHT))
        query: bytes = scope["query_string"]
        request = _request(scope, path, request_id)
        if self._routes.is_limited(path):
            refused = await self._routes.over_limit(request)
            if refused is not None:
                return refused
        serves = "POST" if path in _RPC_PATHS or path in bulk_requests.ROWS else self._routes.serves(path)
        if serves is None:
            return replies.plain(_NOT_SERVED, request_id)
        if serves != method and not (method == "HEAD" and serves == "GET"):
            return replies.plain(Refusal(Err.NOT_FOUND, f"this path answers to {serves} only"), request_id)
        body = looks.fault or (b"" if serves == "GET" else await read_body(receive, self.body_bytes_max))
        if isinstance(body, Refusal):
            return self._closing(body, request_id)
        request.body = body
        response = await self._routes.answer(request)
        if query and uses_url_key(sent, query):
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    def _single_response(self, done: Replies, raw_id: bytes, path: bytes, request_id: str) -> Response:
        if done.refusal is None:
            reply = done.items[0]
            if reply.answer is not None:
                return answers.single(reply, raw_id)
            assert reply.refusal is not None
            return self._refusal(reply.refusal, raw_id, path, request_id)
        return self._refusal(done.refusal, raw_id, path, request_id)

    def _refusal(self, refusal: Refusal, raw_id: bytes, path: bytes, request_id: str) -> Response:
        page = self._terms(path) if refusal.err.row.http == 402 else self._page(path)
        return replies.single(refusal, raw_id, request_id, page)

    def _batch_response(self, done: Replies, path: bytes, request_id: str) -> Response:
        if done.refusal is not None:
            return replies.plain(done.refusal, request_id, self._terms(path))
        return answers.batch(done.items, request_id, self._page(path))

    def _without_credentials(self, path: bytes, body: bytes, request_id: str) -> Response:
        """402 with the terms; a single call gets it under its own id, anything else as a plain error."""
        page = self._terms(path)
        if len(body) > _STRANGERS_BODY_MAX:
            return replies.plain(_NO_CREDENTIALS, request_id, page)
        parsed = jsonrpc.parse(body)
        if isinstance(parsed, list):
            return replies.plain(_NO_CREDENTIALS, request_id, page)
        raw_id = jsonrpc.NO_ID if isinstance(parsed, Refusal) else parsed.id
        return replies.single(_NO_CREDENTIALS, raw_id, request_id, page)

    @staticmethod
    def _closing(refusal: Refusal, request_id: str) -> Response:
        response = replies.plain(refusal, request_id)
        response.headers.append(headers.CLOSE)
        return response

    def _terms(self, path: bytes) -> Terms:
        """For one 402: with a nonce to sign in with, which is another one each time."""
        page = self._page(path)
        if not page.v2:
            return page
        url = page.v2["resource"]["url"]
        offered = self._sign_in.offer(url, self._clock.now(), self._randomness(NONCE_BYTES))
        return page if offered is None else page.with_extension(EXTENSION, offered)

    def _page(self, path: bytes) -> Terms:
        """Made when first asked for, and when the blockhash in it is another. Only paths that are served ask: few."""
        hint = None if self._desk is None else self._desk.hint()
        known, page = self._terms_by_path.get(path, (None, None))
        if page is None or known != hint:
            page = terms.build(self._payments, self._public_url, path.decode("ascii"), hint)
            self._terms_by_path[path] = (hint, page)
        return page


def build_app(dependencies: Dependencies) -> HttpDoor:
    return HttpDoor(dependencies)


def _there(receive: Receive | None, work: Coroutine[Any, Any, Replies]) -> Coroutine[Any, Any, Replies]:
    return work if receive is None else while_there(receive, work)


def _request(scope: Scope, path: bytes, request_id: str) -> Request:
    peer = scope["client"][0] if scope.get("client") else None
    return Request(scope["method"], path, scope["query_string"], scope["headers"], b"", request_id, peer)
