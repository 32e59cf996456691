"""HTTP answers of our own: refusals as bodies and statuses.

Implements: interface, "Proxy error codes" and "HTTP statuses and bodies"; decisions, "Errors of this service"
(`data.source`, `data.constant`) and "batch replies".
Rows of the error table with a code become JSON-RPC errors where the request was JSON-RPC. Rows without one, and
refusals of a whole batch or of a path that is not JSON-RPC, become plain HTTP errors.
"""

import base64
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from actors.errors import Err, ErrorRow, Refusal
from actors.gateway.calls import admission, headers
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.requests import RefusedCaller, Request
from actors.http_server.responses import HttpResponse
from actors.upstream.memory_budget import HeldMemory

_INVALID_REQUEST_CODE = -32600  # JSON-RPC's own, for items of a batch; the table gives HTTP 400 for whole requests.
_PARSE_ERROR_CODE = -32700  # Defined by JSON-RPC, for messages of a WebSocket.
_METHOD_NOT_FOUND_CODE = -32601
_WITH_TERMS = frozenset((Err.PAYMENT_REQUIRED, Err.INSUFFICIENT_CREDITS))
_LIMITS = (Err.RATE_LIMITED, Err.CONCURRENCY_LIMITED)
_PLAIN_NAMES = {Err.BACKEND_UNAVAILABLE: "UPSTREAM_ERROR"}  # The interface has two names for one refusal.
NOT_SERVED = Refusal(Err.NOT_FOUND, "there is no such path; GET /capabilities lists what this service offers")
NOT_JSON = Refusal(Err.UNSUPPORTED_MEDIA_TYPE, "send it with Content-Type: application/json, or without a Content-Type")
IS_WEBSOCKET = Refusal(Err.INVALID_REQUEST, "this path is a WebSocket: connect to it with ws:// or wss://, see /docs")
TOO_MANY_STREAMS = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many streams are open here")


class Response(HttpResponse):
    """headers: beside content type, content length, request id and CORS, which the door adds. charges: SettleRequests.

    kept: objects that must live until the parts have been sent. id: of the request, as the logs know it; set by the
    door. refused: constants of the error table that the body names, for the metrics. stream: in place of `body`.
    is_public: of a page whose answers have no X-Request-Id. posted: as in Reply. is_delayed: the door holds it back.
    operations: of all charges, where `charges` does not have all of them. is_free: it costs nothing, for good.
    is_head: of a HEAD, whose GET would be compressed: its length is not known.
    holdings: the memory of the large answers in it.
    """

    kept: Sequence[object] = ()
    holdings: Sequence[HeldMemory] = ()
    id: str = ""
    refused: Sequence[str] = ()
    content_type: bytes = b"application/json"
    stream: AsyncGenerator[bytes, None] | None = None
    is_public: bool = False
    posted: int = 0
    operations: Sequence[bytes] = ()
    is_free: bool = False
    is_delayed: bool = False
    is_head: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """Payment terms of one path. deposit: fields of error.data; the others are empty if x402 is not configured."""

    deposit: dict[str, str]
    v2: dict[str, Any]
    v1_accepts: list[dict[str, Any]]
    header: bytes  # Value of PAYMENT-REQUIRED.

    def bare(self) -> "Terms":
        """Where to deposit, and no offer: for those who may have paid already, and for paths that take no payment."""
        return Terms(self.deposit, {}, [], b"")

    def with_extension(self, name: str, extension: dict[str, Any]) -> "Terms":
        """Return the offer with an alternative to payment; the older x402 version has no extensions."""
        v2 = {**self.v2, "extensions": {name: extension}}
        return Terms(self.deposit, v2, self.v1_accepts, base64.b64encode(orjson.dumps(v2)))


class PathTerms(Protocol):
    """The payment terms of each path (payments/terms.py). deposit: where to deposit, on every path."""

    deposit: dict[str, str]

    def of(self, path: bytes, now: int) -> Terms: ...


class ErrorReplies:
    """Makes the answers to refused requests, with the payment terms of their path where they must pay."""

    def __init__(self, terms: PathTerms, now: Callable[[], int]) -> None:
        self._terms, self._now = terms, now
        self.deposit = terms.deposit

    def reply(self, refusal: Refusal, request: Request, raw_id: bytes | None = None) -> Response:
        """Make the answer to a wholly refused request. raw_id: of its single JSON-RPC call; None: it has none."""
        terms = self._terms.of(request.path, self._now()) if refusal.err.row.http == 402 else None
        more = refusal if isinstance(refusal, RefusedCaller) else RefusedCaller(refusal.err)
        if terms is not None and not more.offers_payment:
            terms = terms.bare()
        response = plain(refusal, request.id, terms) if raw_id is None else single(refusal, raw_id, request.id, terms)
        response.headers += more.headers
        response.is_delayed = more.told_to_wait
        if more.figures is not None:
            headers.add_figures(response.headers, more.figures, more.credits_remaining, self._now())
        return response


def single(refusal: Refusal, raw_id: bytes, request_id: str, terms: Terms | None) -> Response:
    """Make the answer to a refused single JSON-RPC call. terms: of the path, for a 402."""
    if code_of(refusal) is None:
        return plain(refusal, request_id, terms)
    row = _row(refusal)
    if terms is None or refusal.err not in _WITH_TERMS:
        body = error_object(refusal, raw_id, request_id, {})
    else:
        body = error_object(refusal, raw_id, request_id, terms.deposit | ({"x402": terms.v2} if terms.v2 else {}))
        if terms.v1_accepts:
            body = b'%b,"x402Version":1,"accepts":%b}' % (body[:-1], orjson.dumps(terms.v1_accepts))
    return Response(row.http, body, _headers(row, terms), refused=(refusal.err.name,), is_free=True)


def plain(refusal: Refusal, request_id: str, terms: Terms | None = None, http: int | None = None) -> Response:
    """Make a plain HTTP error. terms: of the path, for a 402. http: a status that replaces the table's."""
    row = _row(refusal)
    hint = refusal.hint or row.hint
    message = refusal.message + (f" ({hint})" if hint and not refusal.detail else "")
    name = _PLAIN_NAMES.get(refusal.err, refusal.err.name)
    told = {"code": name, "source": "gateway", "constant": refusal.err.name, "message": message}
    body: dict[str, Any] = {"error": told | {"requestId": request_id}}
    if _says_when(row):
        body["error"]["data"] = {"retry_after_secs": row.retry_seconds}
    if terms is not None and refusal.err in _WITH_TERMS:
        body["error"]["data"] = terms.deposit | _lack(refusal)
        if terms.v1_accepts:
            body |= {"x402Version": 1, "accepts": terms.v1_accepts}
    status, named = http or row.http, (refusal.err.name,)
    return Response(status, orjson.dumps(body), _headers(row, terms), refused=named, is_free=True)


def error_object(refusal: Refusal, raw_id: bytes, request_id: str, terms: Mapping[str, Any]) -> bytes:
    """Make the whole JSON-RPC error response. terms: fields of error.data if the caller must pay."""
    return b'{"jsonrpc":"2.0","error":%b,"id":%b}' % (orjson.dumps(error_value(refusal, request_id, terms)), raw_id)


def error_value(refusal: Refusal, request_id: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Make the error object alone."""
    row = _row(refusal)
    data: dict[str, Any] = {"source": "gateway", "constant": refusal.err.name, "requestId": request_id}
    if hint := refusal.hint or row.hint:
        data["hint"] = hint
    if row.retry_seconds is not None:
        data["retry_after_secs"] = row.retry_seconds
    if refusal.err in _WITH_TERMS:
        data |= terms
    data |= _lack(refusal)
    code = code_of(refusal)
    return {"code": _INVALID_REQUEST_CODE if code is None else code, "message": refusal.message, "data": data}


def _lack(refusal: Refusal) -> dict[str, int]:
    """Return the price of a call and the available credits, so that a client knows how much to deposit."""
    if refusal.credits is None:
        return {}
    required, available = refusal.credits
    return {"required_credits": required, "available_credits": available}


def _row(refusal: Refusal) -> ErrorRow:
    row = refusal.err.row
    if refusal.retry_seconds is not None:
        return replace(row, retry_seconds=refusal.retry_seconds)
    return row


def parse_error(refusal: Refusal, request_id: str) -> bytes:
    """Make the JSON-RPC error response to a malformed WebSocket message. Over HTTP it is a plain HTTP 400."""
    error = error_value(refusal, request_id, {}) | {"code": _PARSE_ERROR_CODE}
    return b'{"jsonrpc":"2.0","error":%b,"id":null}' % orjson.dumps(error)


def code_of(refusal: Refusal) -> int | None:
    """Return the JSON-RPC code of the error table, except for the denied method that has two rows in the interface."""
    return _METHOD_NOT_FOUND_CODE if refusal == admission.FORBIDDEN else refusal.err.row.code


def retry_after_of(refusals: Sequence[Refusal | None]) -> HeaderList:
    """Return Retry-After for a batch, if all its calls were refused for their rate; else no header."""
    late = [_row(refusal).retry_seconds or 1 for refusal in refusals if refusal is not None and refusal.err in _LIMITS]
    return [headers.retry_after(max(late))] if late and len(late) == len(refusals) else []


def closing(refusal: Refusal, request_id: str, http: int | None = None) -> Response:
    """Make the answer to a request that is not read completely; its connection is closed."""
    response = plain(refusal, request_id, http=http)
    response.headers.append(headers.CLOSE)
    return response


def wrong_method(serves: Collection[str], request_id: str) -> Response:
    """Make the 405 answer for a method that the path does not serve, with the methods that it serves (RFC 9110)."""
    allowed = sorted({*serves, "OPTIONS", *(("HEAD",) if "GET" in serves else ())})
    response = plain(Refusal(Err.WRONG_HTTP_METHOD, f"it answers to {', '.join(serves)}"), request_id)
    response.headers.append((b"allow", ", ".join(allowed).encode()))
    return response


def internal(request_id: str) -> Response:
    """Make the answer for a fault of this service. The log has details under the same request id."""
    response = plain(Refusal(Err.INTERNAL_ERROR), request_id, http=500)
    response.is_free = False  # After a fault, this replica does not know whether something was charged.
    return response


def _headers(row: ErrorRow, terms: Terms | None) -> HeaderList:
    if row.http == 402:
        added: HeaderList = [headers.NO_STORE]
        if terms is not None and terms.header:
            added.append((b"payment-required", terms.header))
        return added
    if _says_when(row):
        assert row.retry_seconds is not None
        return [headers.retry_after(row.retry_seconds)]
    return []


def _says_when(row: ErrorRow) -> bool:
    """Return whether the answer says when to retry: by its status, and never with HTTP 200."""
    return row.http in (404, 409, 429, 502, 503, 504) and row.retry_seconds is not None
