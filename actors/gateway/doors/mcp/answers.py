"""Makes MCP answers: results of tools, and refusals with the id of their request.

Implements: Model Context Protocol 2025-06-18, server/tools ("Tool Result", "Error Handling"); decisions, "MCP
credentials". Pure.

An error of the node is a result with `isError`, so that the model sees it. A refusal of this service is a JSON-RPC
error with the HTTP status that the same call has at POST /.
"""

import base64
from typing import Any

import orjson

from actors.errors import Err, Refusal
from actors.gateway.calls import replies
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.outcomes import Reply
from actors.gateway.calls.replies import Response, Terms
from actors.upstream.replies import AnswerKind, NodeAnswer

STRUCTURED_BYTES_MAX = 64 << 10  # A result is in the text already; a large one is not repeated.
RECEIPT_META = "x402/payment-response"
_RECEIPT_HEADERS = (b"payment-response", b"x-payment-response")


def result(raw_id: bytes, value: bytes) -> bytes:
    """A JSON-RPC response with this result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (raw_id, value)


def tool_result(reply: Reply, receipt: bytes = b"") -> bytes:
    """The response to a tools/call that the node answered. receipt: JSON of a payment's receipt."""
    assert reply.answer is not None
    return result(reply.id, _tool_result(reply.answer, receipt))


def _tool_result(answer: NodeAnswer, receipt: bytes) -> bytes:
    value, failed = answer.value(), answer.kind is AnswerKind.ERROR
    text = orjson.dumps(value.decode("utf-8", "replace"))
    parts = [b'{"content":[{"type":"text","text":', text, b"}]"]
    if not failed and len(value) <= STRUCTURED_BYTES_MAX:
        # The protocol takes objects alone.
        parts += (b',"structuredContent":', value if value[:1] == b"{" else b'{"result":%b}' % value)
    parts.append(b',"isError":true' if failed else b',"isError":false')
    if receipt:
        parts.append(b',"_meta":{"%b":%b}' % (RECEIPT_META.encode(), receipt))
    return b"".join((*parts, b"}"))


def receipt_of(headers: HeaderList) -> bytes:
    """The JSON of the payment's receipt among these headers; empty where there is none."""
    for name, value in headers:
        if name in _RECEIPT_HEADERS:
            return base64.b64decode(value)
    return b""


def refused(refusal: Refusal, raw_id: bytes, request_id: str, terms: Terms | None, always_200: bool) -> Response:
    """The answer to a single message that is refused. terms: of the path, for a 402.

    always_200: for clients that close their connection on every other status. They read the payment terms of a 402 in
    the form of the x402 transport over MCP.
    """
    row = refusal.err.row
    if always_200 and refusal.err is Err.PAYMENT_REQUIRED and terms is not None and terms.v2:
        return Response(200, result(raw_id, _terms_result(terms.v2)), [], refused=(refusal.err.name,))
    if replies.code_of(refusal) is None:
        body = replies.error_object(refusal, raw_id, request_id, {})
        response = Response(row.http, body, [], refused=(refusal.err.name,))
    else:
        response = replies.single(refusal, raw_id, request_id, terms)
    if always_200:
        response.status = 200
    return response


def _terms_result(terms: dict[str, Any]) -> bytes:
    encoded = orjson.dumps(terms)
    content = [{"type": "text", "text": encoded.decode()}]
    return orjson.dumps({"content": content, "structuredContent": orjson.Fragment(encoded), "isError": True})
