"""The port between a node's client and its connections: kept_connections.py, or single_connections.py in its place.

No rule about what an answer means may live here or behind it (client.py, replies.py).
"""

from typing import Any, Protocol

import aiohttp

from actors.upstream.replies import NodeAnswer

# A node that is not there is reported as such, long before its method's time is up.
CONNECTING = aiohttp.ClientTimeout(total=None, sock_connect=2.0)


class NotAsKnown(Exception):
    """aiohttp does not do what kept_connections.py relies on; no byte of the request has been sent."""


class ReadAnswer(Protocol):
    """Reads the body that follows a response's head, and says what the answer is."""

    async def __call__(
        self, request_id: bytes, status: int, headers: Any, is_chunked: bool, payload: aiohttp.StreamReader
    ) -> NodeAnswer: ...


class Connections(Protocol):
    """Connections to one node, for one event loop."""

    async def exchange(self, body: bytes, request_id: bytes, read: ReadAnswer) -> NodeAnswer | None:
        """Send one request, and have its answer read. None: the connection was closed before an answer began.

        NOT_SENT: not one byte has left. No other request goes over a connection whose answer was not whole, or not
        under our id, or that carried a byte that nobody asked for. Raises NotAsKnown; everything else is an answer.
        """

    async def close(self) -> None:
        """Close all connections; exchanges in flight end as UNREACHABLE."""
