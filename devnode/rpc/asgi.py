"""Types of ASGI applications, and HTTP replies as values.

Implements: sending a whole reply. Browsers may call JSON-RPC from any origin, as on a node (`cors`); other routes
give no such permission. Not here: the routes (http.py).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

ANY_ORIGIN = (b"access-control-allow-origin", b"*")
_PREFLIGHT = (
    ANY_ORIGIN,
    (b"access-control-allow-methods", b"POST, GET, OPTIONS"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


Route = Callable[[Scope, bytes], Reply | Awaitable[Reply]]


async def send_reply(send: Send, reply: Reply, cors: bool = False) -> None:
    headers = [
        (b"content-type", reply.content_type),
        (b"content-length", str(len(reply.body)).encode()),
        *reply.headers,
    ]
    if cors:
        headers += _PREFLIGHT if reply.status == 204 else (ANY_ORIGIN,)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
