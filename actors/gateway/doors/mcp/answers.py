"""Makes MCP answers: results of tools, and refusals with the id of their request.

Implements: Model Context Protocol 2025-03-26 to 2026-07-28, server/tools ("Tool Result", "Error Handling") and basic
("Error Codes"); decisions, "MCP credentials" and "MCP revisions"; x402 transport over MCP. Pure.

An error of the node is a result with `isError`, so that the model sees it, with a sentence on what to change. In the
older revisions a refusal of this service is a JSON-RPC error with the HTTP status that the same call has at POST /;
from 2025-11-25 on unfit arguments and a lack of payment are results. In 2026-07-28 every refusal of a call is a result,
which an agent can act on, but for those of the credential; and codes of our own are outside JSON-RPC's range, as that
revision asks.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from actors.errors import Err, Refusal
from actors.gateway.calls import replies
from actors.gateway.calls.outcomes import Reply
from actors.gateway.calls.replies import Response, Terms
from actors.gateway.doors.mcp import tasks
from actors.gateway.doors.mcp.advice import of_node_error
from actors.gateway.doors.mcp.eras import ENVELOPE_ERRORS, MODERN, OLDEST, Dialect
from actors.gateway.doors.mcp.tasks import Task
from actors.release import RELEASE
from actors.upstream.replies import AnswerKind, NodeAnswer, made

STRUCTURED_BYTES_MAX = 64 << 10  # The text contains the result already; a large one is not repeated.
TEXT_ONLY = "textOnly"
RECEIPT_META = "x402/payment-response"
CREDITS_META = "ledger-gateway/credits"
SERVER = {"name": "ledger-gateway", "title": "Ledger Gateway", "version": RELEASE}
_RECEIPT_HEADERS = (b"payment-response", b"x-payment-response")
_SERVER_META = b'"io.modelcontextprotocol/serverInfo":' + orjson.dumps(SERVER)
# Own codes are outside JSON-RPC's range in 2026-07-28: by this much above those that the older revisions have.
_OWN_CODES = range(-32_019, -31_999)
_OWN_SHIFT = 1_000
# Refusals about the caller, not about the outcome of the call.
_OF_THE_CREDENTIAL = frozenset((Err.AUTH_FAILED, Err.NONCE_REUSED, Err.METHOD_NOT_ALLOWED))


def result(raw_id: bytes, value: bytes) -> bytes:
    """Make a JSON-RPC response with this result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (raw_id, value)


def free_result(raw_id: bytes, value: bytes, dialect: Dialect) -> bytes:
    """A response that nobody pays for. value: a JSON object that is not empty where the revision is the newer one."""
    if dialect.is_modern:
        value = b'{"resultType":"complete","_meta":{%b},%b' % (_SERVER_META, value[1:])
    return result(raw_id, value)


def tool_result(reply: Reply, receipt: bytes = b"", dialect: Dialect = OLDEST) -> bytes:
    """Make the response to a tools/call that the node answered. receipt: JSON of a payment's receipt."""
    assert reply.answer is not None
    meta = [_credits(spent_of(reply), reply.credits_remaining), *_receipt(receipt)]
    return result(reply.id, _tool_result(reply.answer, meta, dialect))


def spent_of(reply: Reply) -> int:
    """Return the credits posted for this reply so far."""
    return reply.posted + (0 if reply.charge is None else reply.charge.charged)


def _receipt(receipt: bytes) -> list[bytes]:
    return [b'"%b":%b' % (RECEIPT_META.encode(), receipt)] if receipt else []


def _credits(spent: int, left: int | None) -> bytes:
    """left None: the account's balance is unknown and not told."""
    return b'"%b":%b' % (CREDITS_META.encode(), orjson.dumps({"spent": spent, "left": left}))


def _tool_result(answer: NodeAnswer, meta: list[bytes], dialect: Dialect) -> bytes:
    value, failed = answer.value(), answer.kind is AnswerKind.ERROR
    text = orjson.dumps(value.decode("utf-8", "replace"))
    parts = [
        b'{"resultType":"complete",' if dialect.is_modern else b"{",
        b'"content":[{"type":"text","text":',
        text,
        b"}",
    ]
    if failed:  # Added to the node's own error, which stays unchanged JSON.
        parts += (b',{"type":"text","text":', orjson.dumps(of_node_error(value)), b"}")
    parts.append(b"]")
    if not failed:
        parts += (b',"structuredContent":', _structured(value))
    parts.append(b',"isError":true' if failed else b',"isError":false')
    if dialect.is_modern:
        meta = [*meta, _SERVER_META]
    parts.append(b',"_meta":{%b}' % b",".join(meta))
    return b"".join((*parts, b"}"))


def _structured(value: bytes) -> bytes:
    """A tool with an output schema has to give structured content: of a large value it says that the text has it."""
    if len(value) > STRUCTURED_BYTES_MAX:
        return b'{"%b":true,"bytes":%d}' % (TEXT_ONLY.encode(), len(value))
    # The older revisions take objects alone. The output schemas of all revisions say so, as lists are cached.
    return value if value[:1] == b"{" else b'{"result":%b}' % value


def input_required(raw_id: bytes, input_requests: Mapping[str, Any], state: str, left: int | None) -> bytes:
    """Make the response to a call that a person must confirm first; only in the newer revision."""
    asked = orjson.dumps({"resultType": "input_required", "inputRequests": input_requests, "requestState": state})
    return result(raw_id, b'%b,"_meta":{%b,%b}}' % (asked[:-1], _credits(0, left), _SERVER_META))


def task_created(raw_id: bytes, task: Task, left: int | None) -> bytes:
    """Make the response to a call that continues as a task. Nothing is charged until it has ended."""
    return _result_of_task(raw_id, {"resultType": "task", **tasks.created(task)}, left)


def task_told(raw_id: bytes, task: Task, status: Mapping[str, Any], now: int, left: int | None) -> bytes:
    """Make the response to tasks/get. status: the result of getSendStatus."""
    fields = {"resultType": "complete", **tasks.fields_of(task, status, now)}
    if tasks.is_over(task, status, now):
        body = orjson.dumps(tasks.outcome_of(status))
        meta = [_credits(int(status["charged_credits"]), left)]
        fields["result"] = orjson.Fragment(_tool_result(made(body), meta, MODERN))
    return _result_of_task(raw_id, fields, left)


def acknowledged(raw_id: bytes, left: int | None) -> bytes:
    """Make the response to tasks/update and tasks/cancel."""
    return _result_of_task(raw_id, {"resultType": "complete"}, left)


def _result_of_task(raw_id: bytes, fields: Mapping[str, Any], left: int | None) -> bytes:
    return result(raw_id, b'%b,"_meta":{%b,%b}}' % (orjson.dumps(fields)[:-1], _credits(0, left), _SERVER_META))


def receipt_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the JSON of the payment's receipt among these headers; empty if there is none."""
    for name, value in headers:
        if name in _RECEIPT_HEADERS:
            return base64.b64decode(value)
    return b""


def refused(
    refusal: Refusal,
    raw_id: bytes,
    request_id: str,
    terms: Terms | None,
    always_200: bool,
    dialect: Dialect = OLDEST,
) -> Response:
    """The answer to a single message that is refused. terms: of the path, for a 402.

    always_200: for clients that close their connection on every other status. They read the payment terms of a 402 in
    the form of the x402 transport over MCP.
    """
    row = refusal.err.row
    if dialect.is_modern:
        return _modern_error(refusal, raw_id, request_id, 200 if always_200 else row.http)
    if always_200 and refusal.err is Err.PAYMENT_REQUIRED and terms is not None and terms.v2:
        return Response(200, result(raw_id, _terms_result(terms.v2)), [], refused=(refusal.err.name,), is_free=True)
    if replies.code_of(refusal) is None:
        body = replies.error_object(refusal, raw_id, request_id, {})
        response = Response(row.http, body, [], refused=(refusal.err.name,), is_free=True)
    else:
        response = replies.single(refusal, raw_id, request_id, terms)
    if always_200:
        response.status = 200
    return response


def is_result(refusal: Refusal, dialect: Dialect, names_tool: bool) -> bool:
    """Return whether a refusal of a tools/call is a result that the model sees. names_tool: the tool exists."""
    if not names_tool or not dialect.tells_unfit:
        return False
    if dialect.is_modern:
        return refusal.err not in _OF_THE_CREDENTIAL
    # Clients of that revision end their connection on a status above 399, so they would never read the terms.
    return refusal.err is Err.INVALID_PARAMS or refusal.err.row.http == 402


def refused_result(
    refusal: Refusal,
    raw_id: bytes,
    request_id: str,
    terms: Terms | None,
    dialect: Dialect,
    left: int | None,
    receipt: bytes = b"",
) -> Response:
    """The result of a call that was refused, with HTTP 200: what is wrong, and what to do. terms: of the path, for a
    402: then it is what an x402 client of MCP pays by. left: credits, where they are known. receipt: JSON of the
    receipt of a payment that was not taken."""
    headers = [(b"retry-after", b"%d" % wait)] if (wait := _wait_of(refusal)) is not None else []
    if terms is not None and terms.v2:
        body, headers = _terms_result(terms.v2, dialect, left, receipt), [*headers, (b"payment-required", terms.header)]
    else:
        error = _error_of(refusal, request_id, dialect)
        hint = refusal.hint or refusal.err.row.hint
        pause = "" if wait is None else f"Wait {wait} s before the next call"
        text = ". ".join(part for part in (refusal.message, hint, pause) if part)
        body = _failed(text, orjson.dumps({"error": error}), dialect, left, receipt)
    return Response(200, result(raw_id, body), headers, refused=(refusal.err.name,), is_free=True)


def _wait_of(refusal: Refusal) -> int | None:
    return refusal.err.row.retry_seconds if refusal.retry_seconds is None else refusal.retry_seconds


def envelope_error(
    refusal: Refusal, raw_id: bytes, request_id: str, http: int, data: Mapping[str, Any] | None
) -> Response:
    """The error of a request of the newer era whose envelope is none, or whose method is not served. data: of the
    protocol, beside ours."""
    return _modern_error(refusal, raw_id, request_id, http, data)


def _modern_error(
    refusal: Refusal, raw_id: bytes, request_id: str, http: int, data: Mapping[str, Any] | None = None
) -> Response:
    error = _error_of(refusal, request_id, MODERN)
    error["data"] |= data or {}
    body = b'{"jsonrpc":"2.0","error":%b,"id":%b}' % (orjson.dumps(error), raw_id)
    headers = [] if (wait := _wait_of(refusal)) is None or http == 200 else [(b"retry-after", b"%d" % wait)]
    return Response(http, body, headers, refused=(refusal.err.name,), is_free=True)


def _error_of(refusal: Refusal, request_id: str, dialect: Dialect) -> dict[str, Any]:
    error = replies.error_value(refusal, request_id, {})
    if dialect.is_modern and error["code"] in _OWN_CODES and refusal.err not in ENVELOPE_ERRORS:
        error["code"] += _OWN_SHIFT
    return error


def _terms_result(
    terms: dict[str, Any], dialect: Dialect = OLDEST, left: int | None = None, receipt: bytes = b""
) -> bytes:
    encoded = orjson.dumps(terms)
    return _failed(encoded.decode(), encoded, dialect, left, receipt)


def _failed(text: str, structured: bytes, dialect: Dialect, left: int | None, receipt: bytes) -> bytes:
    parts = [b'{"resultType":"complete",' if dialect.is_modern else b"{"]
    parts += (b'"content":[{"type":"text","text":', orjson.dumps(text), b'}],"structuredContent":', structured)
    meta = [_credits(0, left), *_receipt(receipt), *([_SERVER_META] if dialect.is_modern else [])]
    return b"".join((*parts, b',"isError":true,"_meta":{%b}}' % b",".join(meta)))
