"""Connections to one node: the port, the node's address, and the plain way of one connection for each request.

Implements: threats 15 and 47 where aiohttp is not the version that kept_connections.py knows.
The shell: client.py and replies.py decide what an answer means.

`SingleConnections` keeps no connection, because aiohttp's public interface does not report bytes that a node sends
unasked, and such bytes would become the answer of the next call. It notices two faults only at the call's timeout:
a malformed body, and a node that keeps sending "100 Continue".
"""

import base64
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

import aiohttp
from yarl import URL

from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from actors.upstream.socket_bodies import SocketBody

CONNECTING = aiohttp.ClientTimeout(total=None, sock_connect=2.0)  # A dead node is noticed before the method's timeout.


BodyReader: TypeAlias = aiohttp.StreamReader | SocketBody  # Where the body of an answer is read from.


class UnsupportedAiohttp(Exception):
    """aiohttp does not do what kept_connections.py relies on. No byte of the request was sent."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """target: path and query as in the URL. url: the URL without user and password, which are in `headers` instead."""

    url: str
    target: str
    headers: dict[str, str]

    def request_head(self) -> bytes:
        """Build an HTTP/1.1 request up to the length of its body. It is constant, so it is built once for each node."""
        lines = [f"POST {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("ascii")


def node_address(url: str) -> NodeAddress:
    """Parse a node's URL. Raises ValueError for a URL that names no HTTP server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the node's URL must start with http:// or https://, not {parts.scheme or 'nothing'}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{parts.port}" if parts.port else host
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if " " in place + target or not (place + target).isascii():
        raise ValueError("the node's URL contains a space, or a character that is not ASCII")
    json = "application/json"
    headers = {"Host": place, "Content-Type": json, "Accept": json, "Accept-Encoding": "identity"}
    headers["User-Agent"] = "ledger-gateway"
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return NodeAddress(f"{parts.scheme}://{place}{target}", target, headers)


class ReadAnswer(Protocol):
    """Reads the body that follows a response's head, and returns the answer."""

    async def __call__(
        self, request_id: bytes, status: int, headers: Any, is_chunked: bool, payload: BodyReader
    ) -> NodeAnswer: ...


class Connections(Protocol):
    """Connections to one node, for one event loop."""

    async def exchange(
        self, body: bytes, request_id: bytes, read: ReadAnswer, further: bytes = b""
    ) -> NodeAnswer | None:
        """Send one request, and read its answer with `read`. None: the connection closed before an answer began.

        further: headers beside the constant ones, each a line with its end.

        NOT_SENT: no byte was sent. A connection is not used again when its answer was incomplete, carried another id,
        or was followed by unasked bytes. Raises UnsupportedAiohttp; every other failure is a kind of answer.
        """

    async def close(self) -> None:
        """Close all connections; exchanges in flight end as UNREACHABLE."""


class SingleConnections:
    """Connections over aiohttp's public ClientSession alone, one for each request."""

    def __init__(self, address: NodeAddress, connections_max: int) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections_max, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=address.headers,
            auto_decompress=False,
            timeout=CONNECTING,
        )
        self._url = URL(address.url, encoded=True)
        self._responses: set[aiohttp.ClientResponse] = set()  # The responses being read.

    async def exchange(
        self, body: bytes, request_id: bytes, read: ReadAnswer, further: bytes = b""
    ) -> NodeAnswer | None:
        headers = dict(line.split(": ", 1) for line in further.decode("ascii").splitlines())
        if self._session.closed:
            return replies.UNREACHABLE
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as response:
                return await self._read(response, request_id, read)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return replies.NOT_SENT
        except aiohttp.ClientResponseError:
            return replies.GARBAGE  # The head of the response is not HTTP.
        except (aiohttp.ClientError, OSError):
            return None

    async def close(self) -> None:
        for response in self._responses:
            response.close()  # Closing the session alone leaves their readers waiting until the timeout.
        await self._session.close()

    async def _read(self, response: aiohttp.ClientResponse, request_id: bytes, read: ReadAnswer) -> NodeAnswer:
        codings = ",".join(response.headers.getall("Transfer-Encoding", ()))
        is_chunked = codings.rpartition(",")[2].strip().lower() == "chunked"
        self._responses.add(response)
        try:
            return await read(request_id, response.status, response.headers, is_chunked, response.content)
        except (aiohttp.ClientError, OSError):
            return replies.UNREACHABLE  # The connection ended in the middle of the answer.
        finally:
            self._responses.discard(response)
