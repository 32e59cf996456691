"""Bodies and statuses of everything that is not a node's own answer.

Implements: interface specification, "Proxy error codes" and "HTTP statuses and bodies"; decisions 3.2 (`data.source`,
`data.constant`) and "batch replies".
Pure. Rows of the error table with a code become JSON-RPC errors where the request was JSON-RPC; rows without one, and
refusals of a whole batch or of a path that is not JSON-RPC, become plain HTTP errors.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from actors.calls import SettleRequest
from actors.errors import Err, ErrorRow, Refusal
from actors.gateway import admission, headers
from actors.gateway.headers import HeaderList
from actors.gateway.payment_terms import Terms

_INVALID_REQUEST_CODE = -32600  # JSON-RPC's own, for items of a batch; the table gives HTTP 400 for whole requests.
_METHOD_NOT_FOUND_CODE = -32601
_WITH_TERMS = frozenset((Err.PAYMENT_REQUIRED, Err.INSUFFICIENT_CREDITS))
_PLAIN_NAMES = {Err.BACKEND_UNAVAILABLE: "UPSTREAM_ERROR"}  # The interface has two names for one refusal.


class Response(msgspec.Struct):
    """One HTTP answer. headers: beside content type, content length, request id and CORS, which the door adds.

    refused: constants of the error table that the body tells, for the figures. charges: what was posted for what is in
    the body. parts: a body too large to be one text, in place of `body`;
    kept: what must live until those have been sent. id: of the request, as the logs know it; set by the door.
    """

    status: int
    body: bytes
    headers: HeaderList = []
    charges: Sequence[SettleRequest] = ()
    parts: Sequence[bytes | memoryview] = ()
    kept: Sequence[object] = ()
    id: str = ""
    refused: Sequence[str] = ()


def single(refusal: Refusal, raw_id: bytes, request_id: str, terms: Terms) -> Response:
    """The answer to a single JSON-RPC call that was refused."""
    row = refusal.err.row
    if code_of(refusal) is None:
        return plain(refusal, request_id, terms)
    is_402 = refusal.err in _WITH_TERMS
    body = error_object(refusal, raw_id, request_id, terms, alone=True)
    if is_402 and terms.v1_accepts:
        body = b'%b,"x402Version":1,"accepts":%b}' % (body[:-1], orjson.dumps(terms.v1_accepts))
    return Response(row.http, body, _headers(row, terms), refused=(refusal.err.name,))


def plain(
    refusal: Refusal,
    request_id: str,
    terms: Terms | None = None,
    http: int | None = None,
    retry_seconds: int | None = None,
) -> Response:
    """A plain HTTP error. terms: of the path, where it takes credentials. http, retry_seconds: where the table's status
    or its time to wait is not right for this one."""
    row = refusal.err.row
    if retry_seconds is not None:
        row = replace(row, retry_seconds=retry_seconds)
    hint = refusal.hint or row.hint
    message = refusal.message + (f" ({hint})" if hint and not refusal.detail else "")
    name = _PLAIN_NAMES.get(refusal.err, refusal.err.name)
    body: dict[str, Any] = {"error": {"code": name, "message": message, "requestId": request_id}}
    if _says_when(row):
        body["error"]["data"] = {"retry_after_secs": row.retry_seconds}
    if terms is not None and refusal.err in _WITH_TERMS:
        body["error"]["data"] = terms.deposit
        if terms.v1_accepts:
            body |= {"x402Version": 1, "accepts": terms.v1_accepts}
    return Response(http or row.http, orjson.dumps(body), _headers(row, terms), refused=(refusal.err.name,))


def error_object(refusal: Refusal, raw_id: bytes, request_id: str, terms: Terms, alone: bool = False) -> bytes:
    """The whole JSON-RPC error response. alone: not one of a batch, where a hundred x402 terms would be no help."""
    row = refusal.err.row
    data: dict[str, Any] = {"source": "gateway", "constant": refusal.err.name, "requestId": request_id}
    if hint := refusal.hint or row.hint:
        data["hint"] = hint
    if row.retry_seconds is not None:
        data["retry_after_secs"] = row.retry_seconds
    if refusal.err in _WITH_TERMS:
        data |= terms.deposit
        if alone and terms.v2:
            data["x402"] = terms.v2
    code = code_of(refusal)
    error = {"code": _INVALID_REQUEST_CODE if code is None else code, "message": refusal.message, "data": data}
    return b'{"jsonrpc":"2.0","error":%b,"id":%b}' % (orjson.dumps(error), raw_id)


def code_of(refusal: Refusal) -> int | None:
    """The table's code, but for the one denied method that has two rows of the interface for itself."""
    return _METHOD_NOT_FOUND_CODE if refusal == admission.FORBIDDEN else refusal.err.row.code


def internal(request_id: str) -> Response:
    """Something broke that is nobody's request's fault. The log has the rest under the same id."""
    return plain(Refusal(Err.INTERNAL_ERROR), request_id, http=500)


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
    """Whether the answer says when to ask again: by its status, and in no answer of HTTP 200."""
    return row.http in (404, 429, 502, 503, 504) and row.retry_seconds is not None
