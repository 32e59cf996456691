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
from dataclasses import dataclass, field
from typing import Any

from actors.accounts.api import AccountsClient
from actors.calls import EDGE_BYTES, SettleRequest
from actors.clock import Clock
from actors.config import Config
from actors.errors import Err, Refusal
from actors.gateway import answers, bulk_requests, headers, jsonrpc, payment_terms, replies
from actors.gateway.authentication import Entrance
from actors.gateway.disconnects import while_there
from actors.gateway.door_bulk import BulkDoor
from actors.gateway.late_answers import LateAnswers
from actors.gateway.paid_requests import refused_for_free, within
from actors.gateway.payment_terms import Terms
from actors.gateway.payments import Paid, PaymentDoor, Refuse
from actors.gateway.pipeline import Pipeline, Replies
from actors.gateway.refusal_limits import RefusalLimits
from actors.gateway.replies import Response
from actors.gateway.requests import (
    AsgiCaller,
    Caller,
    ClientLeftError,
    Looks,
    Receive,
    Request,
    Scope,
    Send,
    answer_other,
    look,
    peer_of,
    raw_path,
    read_body,
    request_of,
)
from actors.gateway.routes import PUBLIC_PAGES, DepositDesk, Routes, StatusPages
from actors.gateway.sign_in import EXTENSION, NONCE_BYTES, SignIn
from actors.identity.proofs import uses_url_key
from actors.identity.store import IdentityStore
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import Node
from actors.x402_types import BlockhashHint, PaymentDesk

logger = logging.getLogger(__name__)

_RPC_PATHS = (b"/", b"/rpc")
_NOT_SERVED = Refusal(Err.NOT_FOUND)
_STRANGERS_BODY_MAX = 4_096  # Of a request that goes no further, only a small one is read to give back its id.


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
    peers_are_clients: bool = True  # False: requests come through a proxy that tells no addresses.
    metrics: Metrics = field(default_factory=Metrics)  # Of this process.


class HttpDoor:
    """The ASGI application. close() waits for what is still being settled for clients who left."""

    def __init__(self, dependencies: Dependencies) -> None:
        config = dependencies.config
        edge = dependencies.edge or dependencies.randomness(EDGE_BYTES)
        self._clock = dependencies.clock
        self._ids_from_edge = dependencies.ids_from_edge
        self.body_bytes_max = config.gateway.body_bytes_max
        self._payments = config.payments
        self._public_url = config.serve.public_url or f"http://{config.serve.host}:{config.serve.http_port}"
        self._desk = dependencies.payment_desk
        self._metrics = dependencies.metrics
        self._payment_door = PaymentDoor(config.payments, self._desk, self._metrics)
        self._sign_in = SignIn(config.payments, self._public_url)
        self._randomness = dependencies.randomness
        self._terms_by_path: dict[bytes, tuple[BlockhashHint | None, Terms]] = {}
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
            dependencies.peers_are_clients,
        )
        gateway = config.gateway
        limits = RefusalLimits(
            gateway.account_refusals_per_second, gateway.address_refusals_per_second, self._routes.address_of
        )
        self._entrance = Entrance(config.identity, self._clock, self._sign_in, limits)
        self._pipeline = Pipeline(
            dependencies.accounts,
            dependencies.node,
            self._clock,
            edge,
            gateway.calls_in_flight_max,
            limits,
            self._metrics,
        )
        self.late = LateAnswers(self._pipeline, self._complete)
        self._bulk = BulkDoor(config, self._entrance, self._pipeline, self._clock, self._terms, self._pay_for_list)
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
        self._complete(response, request_id, looks, path not in PUBLIC_PAGES)
        charges = await self.late.send(send, response, looks)
        if charges:
            self.delivered(charges)

    # --- the short way (swift_http.py)

    def takes(self, target: bytes) -> bool:
        """Whether calls are posted to this request target, which may carry a query."""
        return target in _RPC_PATHS or (b"#" not in target and target.partition(b"?")[0] in _RPC_PATHS)

    async def answer_calls(
        self, target: bytes, sent: headers.HeaderList, body: bytes, looks: Looks, caller: Caller
    ) -> Response:
        """To a POST of calls that carries no payment and whose body is whole: ready to be written.

        Whoever calls this cancels it when the client leaves, and says so to delivered() when the answer has left.
        """
        path, _, query = target.partition(b"?")
        request_id = self._next_id()
        try:
            response = await self._calls(sent, query, path, body, request_id, caller)
        except Exception:
            logger.exception("request %s failed", request_id)
            response = replies.internal(request_id)
        self._complete(response, request_id, looks)
        return response

    def refused(self, refusal: Refusal, looks: Looks) -> Response:
        """To a request of which not everything is read; its connection is closed."""
        request_id = self._next_id()
        response = self._closing(refusal, request_id)
        self._complete(response, request_id, looks)
        return response

    def start_over(self, edge: bytes) -> None:
        """Go on under this edge id."""
        self._pipeline.start_over(edge)

    def delivered(self, charges: Sequence[SettleRequest]) -> None:
        """The answers that these paid for have left."""
        self._pipeline.delivered(charges)

    # --- both ways

    def _complete(self, response: Response, request_id: str, looks: Looks, shows_id: bool = True) -> None:
        """Add the headers that every answer has. shows_id: X-Request-Id too, which public pages do without."""
        response.id = request_id
        for constant in response.refused:
            self._metrics.refusals.add((constant,))
        added = response.headers
        if shows_id and not (self._ids_from_edge and looks.edge_id):
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
        caller = AsgiCaller(sent, peer_of(scope))
        paid = await self._pay_for_calls(scope, path, body, request_id, caller) if looks.pays else None
        if isinstance(paid, Response):
            return paid
        return await self._calls(sent, scope["query_string"], path, body, request_id, caller, paid, receive)

    async def _calls(
        self,
        sent: headers.HeaderList,
        query: bytes,
        path: bytes,
        body: bytes,
        request_id: str,
        caller: Caller,
        paid: Paid | None = None,
        receive: Receive | None = None,
    ) -> Response:
        """receive: where it is to be noticed here that the client has left; then raises ClientLeftError."""
        entered = paid.proof if paid else self._entrance.enter(sent, query, path, body, caller)
        raw_id: bytes | None = None
        if isinstance(entered, Replies):
            done, raw_id = entered, jsonrpc.id_of(body, _STRANGERS_BODY_MAX)
        else:
            parsed = jsonrpc.parse(body)
            if isinstance(parsed, list):
                calls = within(parsed, paid.credits) if paid else parsed
                done = await _there(receive, self._pipeline.batch(entered, calls, caller), caller)
            else:
                call = jsonrpc.BadCall(jsonrpc.NO_ID, parsed) if isinstance(parsed, Refusal) else parsed
                if paid:
                    (call,) = within([call], paid.credits)
                raw_id = call.id
                done = await _there(receive, self._pipeline.single(entered, call, caller), caller)
        response = self._response(done, raw_id, path, request_id)
        if paid:
            response.headers += paid.headers
        elif query and uses_url_key(sent, query):
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    async def _pay_for_calls(
        self, scope: Scope, path: bytes, body: bytes, request_id: str, caller: Caller
    ) -> Paid | Response | None:
        """The payment that came with these calls, settled. None: payments are not taken, credentials decide."""
        if not self._payment_door.takes_payments:
            return None
        parsed = jsonrpc.parse(body)
        calls = jsonrpc.BadCall(jsonrpc.NO_ID, parsed) if isinstance(parsed, Refusal) else parsed
        raw_id = None if isinstance(calls, list) else calls.id
        free = refused_for_free(calls)
        if free is not None:
            return self._response(self._entrance.refuse(free, caller), raw_id, path, request_id)

        def refuse(refusal: Refusal, page: Terms) -> Response:
            if raw_id is None:
                return replies.plain(refusal, request_id, page)
            return replies.single(refusal, raw_id, request_id, page)

        return await self._pay(request_of(scope, path, request_id), refuse)

    async def _pay_for_list(self, scope: Scope, path: bytes, request_id: str) -> Paid | Response | None:
        """As _pay_for_calls, for a path whose errors are plain ones."""
        if not self._payment_door.takes_payments:
            return None
        request = request_of(scope, path, request_id)
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
        request = request_of(scope, path, request_id)
        serves = "POST" if path in _RPC_PATHS or path in bulk_requests.ROWS else self._routes.serves(path)
        # A 404 costs next to nothing, so it is not counted: it must use up nobody's allowance.
        if serves is None:
            return replies.plain(_NOT_SERVED, request_id)
        if serves != method and not (method == "HEAD" and serves == "GET"):
            return replies.plain(Refusal(Err.NOT_FOUND, f"this path answers to {serves} only"), request_id)
        if self._routes.is_limited(path):
            refused = await self._routes.over_limit(request)
            if refused is not None:
                return refused
        body = looks.fault or (b"" if serves == "GET" else await read_body(receive, self.body_bytes_max))
        if isinstance(body, Refusal):
            return self._closing(body, request_id)
        request.body = body
        response = await self._routes.answer(request)
        if query and uses_url_key(sent, query):
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    def _response(self, done: Replies, raw_id: bytes | None, path: bytes, request_id: str) -> Response:
        """The answer made of these replies, with the account's figures wherever they are known.

        raw_id: of the single call; None: the request was a batch, or was not read.
        """
        refusal = done.refusal
        if refusal is None and raw_id is None:
            response = answers.batch(done.items, request_id, self._page(path))
        elif refusal is None and done.items[0].answer is not None:
            assert raw_id is not None
            response = answers.single(done.items[0], raw_id)
        else:
            refusal = refusal or done.items[0].refusal
            assert refusal is not None
            page = self._terms(path) if refusal.err.row.http == 402 else self._page(path)
            if raw_id is None:
                response = replies.plain(refusal, request_id, page)
            else:
                response = replies.single(refusal, raw_id, request_id, page)
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        return response

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
            page = payment_terms.build(self._payments, self._public_url, path.decode("ascii"), hint)
            self._terms_by_path[path] = (hint, page)
        return page


def build_app(dependencies: Dependencies) -> HttpDoor:
    return HttpDoor(dependencies)


def _there(receive: Receive | None, work: Coroutine[Any, Any, Replies], caller: Caller) -> Coroutine[Any, Any, Replies]:
    if receive is None:
        return work
    assert isinstance(caller, AsgiCaller)
    return while_there(receive, work, caller)
