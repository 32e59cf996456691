"""One HTTP request as the doors see it: its body in full, its shape checked, whose address it came from.

Implements: hostile inputs 6 (one canonical path), 7 (compressed bodies, ambiguous framing) and 35 (address limits).
The framing checks are pure; read_body awaits the server. Nothing here knows what a body means.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

import msgspec

from actors.errors import Err, Refusal
from actors.identity.addresses import FRONT_HEADER, UNKNOWN, TrustedProxies, allowance_name, client_address
from actors.identity.proofs import url_keys

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_PAYMENTS = frozenset((b"payment-signature", b"x-payment"))
_CREDENTIALS = _PAYMENTS | {b"x-api-key", b"x-pubkey", b"x-signature", b"authorization", b"sign-in-with-x"}
_WATCHED = _PAYMENTS | {b"content-length", b"transfer-encoding", b"content-encoding", b"origin", b"x-request-id"}
_COMPRESSED = Refusal(Err.INVALID_REQUEST, "compressed bodies are not taken; send it without Content-Encoding")
_AMBIGUOUS = Refusal(Err.INVALID_REQUEST, "the body's length is given in more than one way")


class Request(msgspec.Struct):
    method: str
    path: bytes  # Exactly as the client sent it, without the query; paths are compared as bytes and never decoded.
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    id: str
    peer: str | None


class Sender(Protocol):
    """Where a request came from: its headers, and the address of the peer that sent it (None: it has none)."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...

    @property
    def peer(self) -> str | None: ...


class Caller(Sender, Protocol):
    """The client of a request, as the server sees it while the request is worked on."""

    @property
    def disconnected(self) -> bool:
        """Whether the client has closed its connection. False while this server itself gives the request up."""
        ...


class AsgiCaller(msgspec.Struct):
    """A Caller whose departure disconnects.py notices."""

    headers: list[tuple[bytes, bytes]]
    peer: str | None
    disconnected: bool = False


class ClientLeftError(Exception):
    """The client closed the connection before its request was whole: there is nobody to answer."""


def raw_path(scope: Scope) -> bytes:
    """The path in the client's own bytes; servers that keep none give it decoded, and escapes then never match."""
    path: bytes | None = scope.get("raw_path")
    return scope["path"].encode() if path is None else path.partition(b"?")[0]


class Looks(msgspec.Struct):
    """What one pass over the headers found. edge_id: of X-Request-Id, of which only a trusted layer's is of use."""

    browser: bool = False  # It sent an Origin.
    fault: Refusal | None = None  # Of the body's framing.
    edge_id: bytes = b""
    pays: bool = False  # It came with an x402 payment, of either version.


def look(headers: list[tuple[bytes, bytes]]) -> Looks:
    """One pass, on every call."""
    lengths = 0
    chunked = compressed = False
    looks = Looks()
    for name, value in headers:
        if name in _WATCHED:
            if name == b"content-length":
                lengths += 1
            elif name == b"origin":
                looks.browser = True
            elif name == b"x-request-id":
                looks.edge_id = value
            elif name == b"transfer-encoding":
                chunked = True
            elif name in _PAYMENTS:
                looks.pays = True
            else:
                compressed = value.strip().lower() not in (b"", b"identity")
    if lengths + chunked > 1:
        looks.fault = _AMBIGUOUS
    elif compressed:
        looks.fault = _COMPRESSED
    return looks


async def read_body(receive: Receive, bytes_max: int) -> bytes | Refusal:
    """The whole body; reading stops as soon as it is longer than bytes_max. Raises ClientLeftError."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise ClientLeftError
    if not message.get("more_body", False) and len(body) <= bytes_max:
        return body
    parts, size = [body], len(body)
    while size <= bytes_max and message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if size > bytes_max:
        return too_long(bytes_max)
    return b"".join(parts)


def too_long(bytes_max: int) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, f"the body is longer than {bytes_max} bytes")


def request_of(scope: Scope, path: bytes, request_id: str) -> Request:
    """The request without its body, which is read later."""
    sent, query = scope["headers"], scope["query_string"]
    return Request(scope["method"], path, query, sent, b"", request_id, peer_of(scope))


def peer_of(scope: Scope) -> str | None:
    """The address of the peer that sent this request."""
    return scope["client"][0] if scope.get("client") else None


def carries_credentials(request: Request) -> bool:
    """Whether the request carries a credential, a payment or a sign-in, good or not."""
    return any(name in _CREDENTIALS for name, _ in request.headers) or bool(url_keys(request.query))


def counted_address(request: Sender, trusted: TrustedProxies) -> str:
    """The name under which this request counts against the limit of its address; addresses.UNKNOWN has no limit."""
    front_says = [value for name, value in request.headers if name == FRONT_HEADER]
    forwarded = [value for name, value in request.headers if name == b"x-forwarded-for"]
    address = client_address(trusted.peer(request.peer, front_says), forwarded, trusted)
    return UNKNOWN if trusted.names_no_client(address) else allowance_name(address)


async def answer_other(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI's own life cycle, and a clear no to WebSockets."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "not offered"})
