"""Sends requests to one node over aiohttp's public ClientSession, one connection for each request.

Implements: hostile inputs 15 and 47 where aiohttp is not as kept_connections.py knows it. The shell: no rule about
what an answer means (replies.py).

No connection is kept: the public interface does not tell that a node sent bytes that nobody asked for, and such bytes
would be the next call's answer. Two things are noticed later than on kept connections, when the call's time is up: a
body that turns out malformed, and a node that keeps sending "100 Continue".
"""

import aiohttp
from yarl import URL

from actors.upstream import replies
from actors.upstream.address import NodeAddress
from actors.upstream.connections import CONNECTING, ReadAnswer
from actors.upstream.replies import NodeAnswer


class SingleConnections:
    """connections.Connections without anything of aiohttp that is not public."""

    def __init__(self, address: NodeAddress, connections_max: int) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections_max, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=address.headers,
            auto_decompress=False,
            timeout=CONNECTING,
        )
        self._url = URL(address.url, encoded=True)
        self._responses: set[aiohttp.ClientResponse] = set()  # Those that are being read.

    async def exchange(self, body: bytes, request_id: bytes, read: ReadAnswer) -> NodeAnswer | None:
        if self._session.closed:
            return replies.UNREACHABLE
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as response:
                return await self._read(response, request_id, read)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return replies.NOT_SENT
        except aiohttp.ClientResponseError:
            return replies.GARBAGE  # Its head is not HTTP.
        except (aiohttp.ClientError, OSError):
            return None

    async def close(self) -> None:
        for response in self._responses:
            response.close()  # Closing the session alone would let their readers wait until their time is up.
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
