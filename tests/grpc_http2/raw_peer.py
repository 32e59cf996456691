"""A client of HTTP/2 on a real socket that does what well-behaved clients do not, by h2 and by raw bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings

from tests.grpc_http2.servers import Methods, serving, until

WAIT_SECONDS = 20.0


class RawPeer:
    """events: what the server has said. It grants no window by itself, so a test decides what may come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.events: list[Any] = []
        self.has_ended = False

    @classmethod
    async def connect(cls, port: int, window_bytes: int = 65_535) -> "RawPeer":
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.http.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window_bytes}
        )
        peer.http.initiate_connection()
        peer.flush()
        return peer

    def flush(self, *raw: bytes) -> None:
        self.writer.write(self.http.data_to_send() + b"".join(raw))

    def call(self, stream: int, path: str, *more: tuple[str, str], ends: bool = False, **instead: str) -> None:
        told = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "x", "te": "trailers"}
        told |= {"content-type": "application/grpc"} | {
            name.replace("_", "-"): value for name, value in instead.items()
        }
        if "method" in told:
            told[":method"] = told.pop("method")
        self.http.send_headers(stream, [*told.items(), *more], end_stream=ends)
        self.flush()

    async def until(self, kind: type, count: int = 1) -> list[Any]:
        """Read until the server has said so many things of a kind, or has closed."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(found := [one for one in self.events if isinstance(one, kind)]) < count and not self.has_ended:
                data = await self._reader.read(1 << 16)
                self.has_ended = not data
                self.events += self.http.receive_data(data) if data else []
                self.flush()
        return found

    async def status(self, stream: int) -> tuple[int, str]:
        """Return the status of a call, from its trailers."""
        while True:
            told = [one for one in self.events if getattr(one, "stream_id", None) == stream]
            found = dict(pair for one in told for pair in getattr(one, "headers", None) or ())
            if "grpc-status" in found:
                return int(found["grpc-status"]), found.get("grpc-message", "")
            assert not self.has_ended, self.events
            await self.until(object, len(self.events) + 1)

    def data(self, stream: int) -> bytes:
        return b"".join(
            one.data for one in self.events if isinstance(one, h2.events.DataReceived) and one.stream_id == stream
        )

    def close(self) -> None:
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def connected(methods: Methods, window_bytes: int = 65_535) -> AsyncIterator[RawPeer]:
    async with serving(methods) as (_, port):
        peer = await RawPeer.connect(port, window_bytes)
        yield peer
        peer.close()
        await until(lambda: not methods.running)
