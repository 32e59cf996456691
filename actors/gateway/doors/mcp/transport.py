"""What a request to the MCP endpoint must be, whatever its body is.

Implements: Model Context Protocol, basic/transports/streamable-http ("Security & Endpoint", "Sending Messages");
threat 38. Pure.
"""

from collections.abc import Collection, Mapping

from actors.errors import Err, Refusal
from actors.gateway.calls import replies
from actors.gateway.calls.consistency import MALFORMED, is_malformed
from actors.gateway.calls.cost_limits import parse_limit
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import Request
from actors.gateway.doors.mcp import eras

READ = frozenset((b"origin", b"accept", b"content-type", *eras.HEADERS))
_ONLY_POST = Refusal(Err.INVALID_REQUEST, "this endpoint has no streams and no sessions: POST a message to it")
_FOREIGN_ORIGIN = Refusal(Err.METHOD_NOT_ALLOWED, "pages of this origin may not use the MCP endpoint of this service")
_NOT_JSON_TYPE = Refusal(Err.INVALID_REQUEST, "the Content-Type must be application/json")
_ONLY_STREAMS = Refusal(Err.INVALID_REQUEST, "answers are application/json, which the Accept header does not take")
_ACCEPTED = (b"application/json", b"application/*", b"*/*")


def unfit(sent: Mapping[bytes, bytes], origins: Collection[str], request_id: str) -> Response | None:
    """The answer to a request that this endpoint cannot take. sent: the headers of READ. origins: in lower case."""
    origin = sent.get(b"origin")
    # Protects against DNS rebinding: a foreign page could reach a service on its reader's own machine.
    if origin is not None and origin.decode("latin-1").lower() not in origins:
        return replies.plain(_FOREIGN_ORIGIN, request_id)
    if sent.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        return replies.plain(_NOT_JSON_TYPE, request_id, http=415)
    accept = sent.get(b"accept")
    if accept is not None and not any(kind in accept.lower() for kind in _ACCEPTED):
        return replies.plain(_ONLY_STREAMS, request_id, http=406)
    return None


def only_post(request_id: str) -> Response:
    """The answer to every other method: the protocol wants 405, after which clients go on without a stream."""
    response = replies.plain(_ONLY_POST, request_id, http=405)
    response.headers.append((b"allow", b"POST"))
    return response


def unfit_option(request: Request) -> Refusal | None:
    """Return why X-Max-Credits or X-Consistency cannot be read."""
    limit = None if request.max_credits is None else parse_limit(request.max_credits)
    if isinstance(limit, Refusal):
        return limit
    return MALFORMED if is_malformed(request.consistency) else None
