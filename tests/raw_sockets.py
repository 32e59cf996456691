"""One connection spoken to in bytes, which no library keeps from saying what it should not."""

import asyncio
import contextlib
import socket


class Line:
    """One connection. A server that closes it early costs nothing of what it said before."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()

    async def says(self, *pieces: bytes, pause_seconds: float = 0.005) -> None:
        """One by one: so the server reads them, too."""
        for piece in pieces:
            with contextlib.suppress(ConnectionError):
                await self._loop.sock_sendall(self._socket, piece)
            await asyncio.sleep(pause_seconds)

    async def hears(self, until: bytes = b"") -> bytes:
        """All that comes until the server closes, or has said this."""
        said = b""
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(60):
                while not (until and until in said) and (more := await self._loop.sock_recv(self._socket, 65_536)):
                    said += more
        return said

    def close(self) -> None:
        self._socket.close()
