"""The HTTP door: an ASGI application that finds the door of a path, and completes its answers.

Implements: interface, "JSON-RPC gateway", "HTTP statuses and bodies", "Limits" (headers); threats 6 to 13 and 35.
A shell. Calls are doors/rpc.py's, lists doors/bulk.py's, bundles doors/relay.py's, tool calls doors/mcp/door.py's,
pages of other contexts pages/served.py's; all others are pages/routes.py's. Paths are compared with the bytes that the
client sent: `/rpc/`, `//rpc`, `/RPC` and `/%72pc` are no paths of this service. URLs are never logged: they may hold a
key.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

from actors.errors import Err, Refusal
from actors.gateway.calls import headers, replies
from actors.gateway.calls.accepted import is_json, prefers
from actors.gateway.calls.address_limits import is_limited
from actors.gateway.calls.answers import LateAnswers
from actors.gateway.calls.compressing import LEAST_BYTES, Compressing
from actors.gateway.calls.delayed_refusals import DelayedRefusals
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import (
    WATCHED,
    AsgiClient,
    ClientLeftError,
    HeaderFacts,
    Receive,
    Request,
    Scope,
    Send,
    answer_other,
    peer_of,
    raw_path,
    read_body,
    read_headers,
    too_long,
)
from actors.gateway.calls.streamed_answers import StreamedAnswers
from actors.gateway.doors import bulk as door_bulk
from actors.gateway.doors import quote as door_quote
from actors.gateway.doors import relay as door_relay
from actors.gateway.doors import rpc as door_rpc
from actors.gateway.doors.bulk import BulkDoor
from actors.gateway.doors.mcp import door as door_mcp
from actors.gateway.doors.mcp import transport as mcp_transport
from actors.gateway.doors.mcp.door import McpDoor
from actors.gateway.doors.parts import Dependencies, shared_parts
from actors.gateway.doors.quote import QuoteDoor
from actors.gateway.doors.relay import RelayDoor
from actors.gateway.doors.rpc import RpcDoor
from actors.gateway.doors.websocket import door as door_websocket
from actors.gateway.doors.websocket.door import WebSocketDoor
from actors.gateway.pages import operator_guard, routes
from actors.gateway.pages.operator_guard import OperatorGuard
from actors.gateway.pages.page_table import PageTable
from actors.gateway.pages.routes import PUBLIC_PAGES, Routes
from actors.gateway.pages.served import PageDoor
from actors.gateway.payments import terms as payment_terms
from actors.gateway.payments.authentication import Authenticator
from actors.http_server.exchange import HttpRequest, Upgrade
from actors.identity.credentials import uses_url_key
from actors.pages import Page
from actors.request_ids import work_for

logger = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]

_WATCHED = WATCHED - {b"content-length"}  # Usually there is one content-length.
_PLAIN = HeaderFacts()
_POST: Mapping[str, Page | None] = {"POST": None}
_GET: Mapping[str, Page | None] = {"GET": None}
_EMPTY = (204, 304)  # Statuses without a body or headers about it.
_SHORT = (*door_rpc.PATHS, door_mcp.PATH)  # Paths whose requests need not use ASGI.
_CONSOLE = b"/console"
_CALL_PATHS = frozenset((*door_rpc.PATHS, *door_bulk.ROWS, *door_relay.PATHS, door_mcp.PATH))
_SMALL_BYTES = 4_096  # Public answers up to here are not larger than the answer to a refused call, and not counted.
# The paths of calls; /.well-known/x402.json lists them, because a payment can come with a call.
_PAYABLE = [("POST", path.decode()) for path in (*door_rpc.PATHS, *door_bulk.ROWS)]
_PAYABLE_RELAY = [(relayed.verb, path.decode()) for path, relayed in door_relay.PATHS.items()]


def _payable(relay: bool) -> list[tuple[str, str]]:
    return _PAYABLE + (_PAYABLE_RELAY if relay else [])


def endpoints(relay: bool) -> tuple[str, ...]:
    """Return "<HTTP method> <path>" of everything that this door serves, beside the pages of other contexts.

    relay: whether there is a block engine.
    """
    return (*(f"{method} {path}" for method, path in _payable(relay)), "POST /mcp", "POST /quote", *routes.ENDPOINTS)


class HttpDoor:
    """The ASGI application. close() waits for the settlements of cancelled requests."""

    def __init__(self, dependencies: Dependencies) -> None:
        config, clock, gateway = dependencies.config, dependencies.clock, dependencies.config.gateway
        parts = shared_parts(dependencies)
        authenticator, errors, keyed = parts.authenticator, parts.errors, parts.keyed
        self.authenticator = authenticator
        self.deposit_instructions = errors.deposit["instructions"]  # For doors whose answers are plain text.
        self._operators = OperatorGuard(config.operator, parts.addresses)
        self._errors, self._addresses, self._pipeline, self._keyed = errors, parts.addresses, parts.pipeline, keyed
        self._rpc = RpcDoor(authenticator, self._pipeline, keyed, errors, clock, parts.limited, parts.offered)
        self._mcp = McpDoor(
            authenticator,
            self._pipeline,
            keyed,
            parts.terms,
            clock,
            parts.offered,
            config.pricing,
            (parts.public_url, *gateway.mcp_origins),
            gateway.mcp_refusals_as_200,
            parts.confirming,
            parts.long_sends,
            parts.limited,
        )
        self._bulk = BulkDoor(authenticator, self._pipeline, errors, clock, parts.limited)
        self._quote = QuoteDoor(authenticator, self._pipeline, errors, clock, parts.callers)
        self._relay = RelayDoor(authenticator, keyed, errors, clock, parts.limited, dependencies.relay)
        self._routes = Routes(
            config,
            dependencies.accounts,
            dependencies.status,
            clock,
            dependencies.randomness,
            authenticator,
            errors,
            parts.payments,
            keyed,
            dependencies.deposits,
            payment_terms.discovery(config.payments, parts.public_url, _payable(dependencies.relay)),
            parts.public_url,
            parts.pricing,
        )
        taken = (*_SHORT, door_quote.PATH, *door_bulk.ROWS, *door_relay.PATHS, *routes.PATHS)
        self._pages = PageDoor(
            PageTable(dependencies.pages, taken), dependencies.accounts, authenticator, errors, clock
        )
        self._has_console = self._pages.find(_CONSOLE) is not None
        self._streams, self._leaving = StreamedAnswers(), dependencies.leaving
        if self._leaving is not None:
            self._leaving.add(self._streams)
        self._delayed = DelayedRefusals()
        self._compressing = Compressing(parts.addresses.name_of)
        self.late = LateAnswers(dependencies.accounts, self._complete)
        self._sockets = self._socket_door(dependencies, authenticator)
        self.websocket_paths = frozenset(door_websocket.PATHS if self._sockets else ())
        self.body_bytes_max = gateway.body_bytes_max
        self._ids_from_serve, self._metrics = dependencies.ids_from_serve, dependencies.metrics
        self._request_prefix, self._requests = parts.replica_id.hex()[:10] + "-", 0

    def _socket_door(self, dependencies: Dependencies, authenticator: Authenticator) -> WebSocketDoor | None:
        if dependencies.streams is None:
            return None
        return WebSocketDoor(
            *(dependencies.config.gateway, authenticator, dependencies.accounts, self._pipeline, self.late),
            *(self._errors, dependencies.streams, self._next_id, self._addresses, dependencies.clock),
        )

    def leave(self, grace_seconds: float) -> None:
        """Serve replaces this process: end its streams within this time, and go on answering calls."""
        if self._leaving is not None:
            self._leaving.begin(grace_seconds)

    async def close(self) -> None:
        await self._streams.close()
        await self._keyed.drain()
        await self._pipeline.drain()
        await self._compressing.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await answer_other(scope, receive, send)
            return
        sent, path = scope["headers"], raw_path(scope)
        facts = read_headers(sent)
        client = AsgiClient(sent, peer_of(scope), receive, takes_chunks=scope.get("http_version") != "1.0")
        request_id = facts.serve_id.decode("latin-1") if self._ids_from_serve and facts.serve_id else self._next_id()
        request = Request(
            *(scope["method"], path, scope["query_string"], sent, b"", request_id, client),
            *(facts.pays, facts.key, facts.max_credits, facts.consistency),
        )
        work_for(request_id)
        if operator_guard.is_operators(path):
            facts.browser = False  # No page of another origin may read the answer.
        try:
            response = await self._answer(request, receive, facts.fault)
            if path.startswith(operator_guard.PATHS):
                response.headers.append(headers.NO_STORE)
            response.is_free &= path in _CALL_PATHS  # Answers of pages tell no cost.
            if response.is_delayed:
                request.body = b""  # Frees up to 256 KiB of each waiting request.
                await self._delayed.wait()
        except ClientLeftError:
            return
        except Exception:  # The client gets an answer with an id that the operator finds in the log.
            logger.exception("request %s failed", request_id)
            response = replies.internal(request_id)
        if response.parts or len(response.body) > LEAST_BYTES:
            await self._compressing.answer(response, request)
        self._complete(response, request_id, facts, path not in PUBLIC_PAGES and not response.is_public)
        if response.stream is not None:
            await self._streams.send(send, client, response, request.method == "HEAD")
        else:
            await self.late.send(send, response, facts)

    async def _answer(self, request: Request, receive: Receive, fault: Refusal | None) -> Response:
        """Read the body, and hand the request to the door of its path. fault: of the body's framing."""
        path, method = request.path, request.method
        if method == "OPTIONS":
            return Response(204, b"", [] if operator_guard.is_operators(path) else list(headers.PREFLIGHT))
        answer, serves = self._door_of(_CONSOLE if self._is_for_people(request) else path)
        # A 404 costs next to nothing, so it does not count against the limit of its address.
        if answer is None:
            if path not in self.websocket_paths:
                return replies.plain(replies.NOT_SERVED, request.id)
            if method == "GET":
                return replies.plain(replies.IS_WEBSOCKET, request.id)
            serves = _GET  # Other methods are refused below.
        served_as = "GET" if method == "HEAD" else method  # Also for its price, because a HEAD causes the same work.
        if served_as not in serves:
            if path == door_mcp.PATH:
                return mcp_transport.only_post(request.id)
            refused = replies.wrong_method(serves, request.id)
            if self._is_root(request):
                refused.headers.append(headers.VARY_ACCEPT)
            return refused
        page = serves[served_as]
        refusal = None
        if page is not None and page.for_operators:
            refusal = await self._operators.refusal(request)
        elif is_limited(path) if page is None else page.is_limited:
            refusal = await self._addresses.refusal(request)
        elif page is not None and page.minute_max is not None:
            refusal = self._addresses.page_refusal(request, page.minute_max)
        if refusal is not None:
            return self._errors.reply(refusal, request)
        body = fault or (b"" if served_as == "GET" else await read_body(receive, self.body_bytes_max))
        if isinstance(body, Refusal):
            return replies.closing(body, request.id)
        if body and not all(is_json(value) for name, value in request.headers if name == b"content-type"):
            return replies.plain(replies.NOT_JSON, request.id)
        request.body = body
        assert answer is not None  # A path without a door serves nothing.
        response = await answer(request)
        if len(response.body) > _SMALL_BYTES and (response.is_public or path in PUBLIC_PAGES) and method != "HEAD":
            too_much = self.authenticator.free_answer(request, len(response.body))
            if too_much is not None:
                return self._errors.reply(too_much, request)
        if response.stream is not None and self._streams.is_full:
            await response.stream.aclose()
            response = replies.plain(replies.TOO_MANY_STREAMS, request.id)
        if request.query and uses_url_key(request.headers, request.query):
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    def _is_for_people(self, request: Request) -> bool:
        """Return whether a browser opens the address of this service: it gets the console, if there is one."""
        if request.query or not self._is_root(request):
            return False
        return prefers(request.headers, b"text/html", b"application/json")

    def _is_root(self, request: Request) -> bool:
        """Return whether the request is for the root, which has two forms if there is a console."""
        return self._has_console and request.path == b"/" and request.method in ("GET", "HEAD")

    def _door_of(self, path: bytes) -> tuple[Answer | None, Mapping[str, Page | None]]:
        """Find the door of a path, and the methods that it takes; on a path of another context each has a page."""
        if path in door_rpc.PATHS:
            return self._rpc.answer, _POST
        if path in door_bulk.ROWS:
            return self._bulk.answer, _POST
        if path in door_relay.PATHS:
            return self._relay.answer, {door_relay.PATHS[path].verb: None}
        if path == door_mcp.PATH:
            return self._mcp.answer, _POST
        if path == door_quote.PATH:
            return self._quote.answer, _POST
        method = self._routes.serves(path)
        if method is not None:
            return self._routes.answer, {method: None}
        found = self._pages.find(path)
        return (None, {}) if found is None else (partial(self._pages.answer, found), found.pages)

    # --- without ASGI (http_server/)

    def takes(self, request: HttpRequest) -> bool:
        """Return whether this is a POST of calls without a payment. Its target may have a query."""
        target, sent = request.target, request.headers
        kind = request.by_name.get(b"content-type")
        if kind is not None and kind != b"application/json" and not is_json(kind):
            return False  # __call__ refuses it.
        if target not in _SHORT and (b"#" in target or target.partition(b"?")[0] not in _SHORT):
            return False
        if len(sent) == len(request.by_name) and _WATCHED.isdisjoint(request.by_name):
            request.notes = _PLAIN
            return True
        request.notes = facts = read_headers(sent)
        facts.serve_id = b""  # A client must not be able to set our internal request id.
        return facts.fault is None and not facts.pays

    async def answer(self, posted: HttpRequest) -> Response:
        """Answer a request that it takes. Raises nothing but the cancellation of a request whose client left."""
        path, _, query = posted.target.partition(b"?")
        sent = posted.headers
        facts = posted.notes
        request_id, body = self._next_id(), posted.body
        request = Request(  # Without stars, which cost each call as much again.
            "POST", path, query, sent, body, request_id, posted, False, facts.key, facts.max_credits, facts.consistency
        )
        work_for(request_id)
        try:
            response = await (self._mcp if path == door_mcp.PATH else self._rpc).answer(request)
            if response.is_delayed:
                posted.body = request.body = b""  # Frees up to 256 KiB of each waiting request.
                await self._delayed.wait()
            if query and uses_url_key(sent, query):
                response.headers += headers.DEPRECATED_URL_KEY
        except Exception:
            logger.exception("request %s failed", request.id)
            response = replies.internal(request.id)
        if response.parts or len(response.body) > LEAST_BYTES:
            posted.waiting = None  # Completes the answer even after a disconnect.
            await self._compressing.answer(response, request)
        self._complete(response, request.id, facts)
        return response

    async def upgrade(self, handshake: HttpRequest) -> Response | Upgrade:
        """Answer a WebSocket handshake. Raises nothing but the cancellation of a request whose client left."""
        path, _, query = handshake.target.partition(b"?")
        request = Request("GET", path, query, handshake.headers, b"", self._next_id(), handshake)
        work_for(request.id)
        facts = HeaderFacts(browser=b"origin" in handshake.by_name)
        assert self._sockets is not None, "no path takes a WebSocket"
        try:
            answer = await self._sockets.answer(request)
            if isinstance(answer, Response) and answer.is_delayed:
                await self._delayed.wait()
        except Exception:
            logger.exception("request %s failed", request.id)
            answer = replies.internal(request.id)
        if isinstance(answer, Response):
            self._complete(answer, request.id, facts)
        else:
            for constant in answer.refused:
                self._metrics.refusals.add((constant,))
        return answer

    def too_long(self, posted: HttpRequest) -> Response:
        return self._cut_short(too_long(self.body_bytes_max), posted.notes)

    def refused(self, reason: str, status: int) -> Response:
        """Answer a request that was not read to its end; its connection is closed."""
        return self._cut_short(Refusal(Err.INVALID_REQUEST, reason), HeaderFacts(), status)

    def _cut_short(self, refusal: Refusal, facts: HeaderFacts, status: int | None = None) -> Response:
        request_id = self._next_id()
        response = replies.closing(refusal, request_id, status)
        self._complete(response, request_id, facts)
        return response

    def name_of_client(self, sent: HeaderList, peer: str | None) -> str:
        """Return the address of the client that sent these headers, as limits use it."""
        return self._addresses.name_of(AsgiClient(sent, peer))

    def start_over(self, replica_id: bytes) -> None:
        """Use this replica id for operations from now on."""
        self._pipeline.start_over(replica_id)

    # --- both ways

    def _complete(self, response: Response, request_id: str, facts: HeaderFacts, shows_id: bool = True) -> None:
        """Add the headers of every answer. shows_id: with X-Request-Id, which public pages lack."""
        response.id = request_id
        for constant in response.refused:
            self._metrics.refusals.add((constant,))
        added = response.headers
        if response.charges or response.posted:
            headers.add_cost(added, response.charges, response.posted, response.operations)
        elif response.is_free:
            added.append(headers.FREE)
        if shows_id and not (self._ids_from_serve and facts.serve_id):
            added.append((b"x-request-id", request_id.encode()))
        if facts.browser:
            added += headers.CORS
        if response.status not in _EMPTY:
            added.append((b"content-type", response.content_type))
            if response.stream is None and response.made is None and not response.is_head:
                length = sum(map(len, response.parts)) if response.parts else len(response.body)
                added.append((b"content-length", b"%d" % length))

    def _next_id(self) -> str:
        self._requests += 1
        return f"{self._request_prefix}{self._requests:x}"
