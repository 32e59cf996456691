"""The protocols between a connection of gRPC and its calls, whichever side they are on, and what both need.

Not here: what they do (connection.py, server_call.py, client_call.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from actors.grpc_http2.frames import LARGE_BYTES, Outgoing

Headers = list[tuple[bytes, bytes]]


class GrpcCall(Protocol):
    """One call, as its connection sees it. window_bytes: what the peer lets us send of it; receivable_bytes: what it
    may send; counted_by_h2: of what it has sent and was not granted again, what h2 has counted."""

    stream: int
    window_bytes: int
    receivable_bytes: int
    counted_by_h2: int
    out: Outgoing

    @property
    def is_half_closed(self) -> bool:
        """Whether the peer has closed its side."""

    @property
    def is_plain(self) -> bool:
        """Whether its data need not pass through h2."""

    def take(self, data: bytes | memoryview, counted: int) -> None:
        """Take data of the peer. counted: how much of the call's window it took."""

    def take_end(self) -> None:
        """Note that the peer has closed its side."""

    def start(self) -> Headers | None:
        """Return the headers that have to go before anything else, once."""

    def trailers(self) -> Headers | None:
        """Return what ends our side, behind all that was written; None: it stays open."""

    def sent(self) -> None:
        """Note that all that was written has gone."""

    def over(self) -> None:
        """Note that nothing more is sent or received."""

    def left(self, text: str) -> None:
        """Note that the peer or the connection has broken the call off."""


OneCall = TypeVar("OneCall", contravariant=True)


class CallLink(Protocol[OneCall]):
    """The connection of a call, as the call sees it."""

    peer: str

    def schedule(self, call: OneCall) -> None:
        """Send what the call has, at the end of this pass of the loop."""

    def send(self, call: OneCall) -> None:
        """Send what the call has, as far as the windows allow."""

    def grant(self, call: OneCall, size: int) -> None:
        """Let the peer send so many bytes more of this call."""

    def reset(self, call: OneCall) -> None:
        """Break the call off, without a status."""

    def spend(self, units: int) -> None:
        """Count work for data that was just taken, in microseconds: a frame may hold thousands of messages."""


async def joined(parts: bytes | Sequence[bytes]) -> bytes:
    """Return one piece of these parts. A thread joins many bytes, and lets the loop go on: 20 MB take 10 ms."""
    if isinstance(parts, bytes):
        return parts
    if sum(map(len, parts)) < LARGE_BYTES:
        return b"".join(parts)
    return await asyncio.to_thread(b"".join, parts)


def peer_name(address: Any) -> str:
    """Return the name that gRPC gives the peer at this address of a socket."""
    if not isinstance(address, tuple):
        return "unix:"
    host, port = address[0], address[1]
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
