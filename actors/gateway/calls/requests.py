"""One HTTP request as the doors see it: the request, the client that sent it, the caller whose account it names.

Implements: threats 6 (one canonical path) and 7 (compressed bodies, ambiguous framing).
The framing checks are pure; read_body awaits the server. Nothing here knows the meaning of a body.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from actors.calls import Figures, Proof
from actors.errors import Err, Refusal
from actors.gateway.calls.headers import Header, HeaderList
from actors.identity import operator_token
from actors.identity.credentials import url_keys

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PAYMENT_V2, PAYMENT_V1 = b"payment-signature", b"x-payment"  # Headers of the two versions of x402.
_PAYMENTS = frozenset((PAYMENT_V2, PAYMENT_V1))
CREDENTIALS = _PAYMENTS | {b"x-api-key", b"x-pubkey", b"x-signature", b"authorization", b"sign-in-with-x"}
CREDENTIALS |= {operator_token.HEADER}
_KEY, _MAX_CREDITS, CONSISTENCY = b"idempotency-key", b"x-max-credits", b"x-consistency"
WATCHED = _PAYMENTS | {
    _KEY,
    _MAX_CREDITS,
    CONSISTENCY,
    b"content-length",
    b"transfer-encoding",
    b"content-encoding",
    b"origin",
    b"x-request-id",
}
_COMPRESSED = Refusal(
    Err.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not taken; send the body without Content-Encoding"
)
_AMBIGUOUS = Refusal(Err.INVALID_REQUEST, "the body's length is given in more than one way")


class Client(Protocol):
    """The client's end of the connection of a request, as the server sees it while the request runs."""

    @property
    def headers(self) -> HeaderList: ...

    @property
    def peer(self) -> str | None:
        """Return the address of the connection's other end, or None."""
        ...

    @property
    def disconnected(self) -> bool:
        """Return whether the client has closed its connection. False while this server itself gives the request up."""
        ...


class AsgiClient(msgspec.Struct):
    """A Client behind an ASGI server. calls/disconnects.py waits for its disconnection by `receive`.

    takes_chunks: whether it knows bodies whose length is not told before; HTTP/1.0 has none.
    """

    headers: HeaderList
    peer: str | None
    receive: Receive | None = None
    disconnected: bool = False
    takes_chunks: bool = True


class Request(msgspec.Struct, gc=False):
    """pays: it came with an x402 payment, of either version. key, max_credits, consistency: its Idempotency-Key,
    X-Max-Credits and X-Consistency, unchecked; None: it has none."""

    method: str
    path: bytes  # The client's exact bytes without the query; paths are compared as bytes and never decoded.
    query: bytes
    headers: HeaderList
    body: bytes
    id: str
    client: Client
    pays: bool = False
    key: bytes | None = None
    max_credits: bytes | None = None
    consistency: bytes | None = None


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The account whose credential, or whose payment, a request carries.

    proof: its owner still has to confirm that a key or a session is alive, and that a nonce is new.
    credits_max: the most that the calls of this request may cost together; None: only the balance limits them.
    headers: for the answer, whatever it is: the receipt of a payment.
    """

    proof: Proof
    credits_max: int | None = None
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True)
class RefusedCaller(Refusal):
    """A refusal with more to tell than the table has.

    headers: for the answer. offers_payment: whether a 402 may ask for an x402 payment. figures, credits_remaining: of
    a caller that is over its limit of refused calls; None: not known. told_to_wait: the answer is held back
    (calls/delayed_refusals.py).
    """

    headers: Sequence[Header] = ()
    offers_payment: bool = True
    figures: Figures | None = None
    credits_remaining: int | None = None
    told_to_wait: bool = False


class ClientLeftError(Exception):
    """The client closed the connection before its request was complete, so there is nobody to answer."""


def raw_path(scope: Scope) -> bytes:
    """The path in the client's own bytes. Servers that keep none give it decoded, and then escapes never match."""
    path: bytes | None = scope.get("raw_path")
    return scope["path"].encode() if path is None else path.partition(b"?")[0]


class HeaderFacts(msgspec.Struct):
    """Result of one pass over the headers. serve_id: X-Request-Id, used only from a trusted layer."""

    browser: bool = False  # True: it has an Origin header.
    fault: Refusal | None = None  # Fault in the body's framing.
    serve_id: bytes = b""
    pays: bool = False  # True: it has an x402 payment, of either version.
    key: bytes | None = None  # Its Idempotency-Key. A repeated header is empty, thus invalid.
    max_credits: bytes | None = None  # Its X-Max-Credits, likewise.
    consistency: bytes | None = None  # Its X-Consistency, likewise.


def read_headers(headers: list[tuple[bytes, bytes]]) -> HeaderFacts:
    """Read the headers in one pass, for every call."""
    lengths = 0
    chunked = compressed = False
    facts = HeaderFacts()
    for name, value in headers:
        if name in WATCHED:
            if name == b"content-length":
                lengths += 1
            elif name == b"origin":
                facts.browser = True
            elif name == b"x-request-id":
                facts.serve_id = value
            elif name == b"transfer-encoding":
                chunked = True
            elif name == _KEY:
                facts.key = value if facts.key is None else b""
            elif name == _MAX_CREDITS:
                facts.max_credits = value if facts.max_credits is None else b""
            elif name == CONSISTENCY:
                facts.consistency = value if facts.consistency is None else b""
            elif name in _PAYMENTS:
                facts.pays = True
            else:
                compressed = compressed or value.strip().lower() not in (b"", b"identity")
    if lengths + chunked > 1:
        facts.fault = _AMBIGUOUS
    elif compressed:
        facts.fault = _COMPRESSED
    return facts


async def read_body(receive: Receive, bytes_max: int) -> bytes | Refusal:
    """Read the whole body; stop as soon as it is longer than bytes_max. Raises ClientLeftError."""
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


def origin_of(headers: HeaderList) -> str | None:
    """The origin of the page that sent a request; None: no browser did. Two lines of it are one list, which is nobody's
    origin: no foreign one is hidden behind another."""
    origins = [value for name, value in headers if name == b"origin"]
    return b", ".join(origins).decode("latin-1") if origins else None


def peer_of(scope: Scope) -> str | None:
    """Return the address of the peer that sent this request."""
    return scope["client"][0] if scope.get("client") else None


def carries_credentials(request: Request) -> bool:
    """Return whether the request carries a credential, a payment or a sign-in, valid or not."""
    return any(name in CREDENTIALS for name, _ in request.headers) or bool(url_keys(request.query))


async def answer_other(scope: Scope, receive: Receive, send: Send) -> None:
    """Handle ASGI's life cycle, and refuse WebSockets."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "not offered"})
