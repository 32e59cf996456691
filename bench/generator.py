"""Generates load from Python, for machines without wrk and for runs in which every call must be counted.

Run: `python -m bench.generator URL --connections N (--seconds S | --calls N)`; the API key comes from BENCH_API_KEY.
Unlike wrk it waits for every call in flight, so its count is exact. Prints one line of JSON.
"""

import asyncio
import os
import sys
import time
from array import array
from dataclasses import dataclass, field
from typing import Annotated, cast
from urllib.parse import urlsplit

import httptools
import orjson
import typer
import uvloop

BODY = b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'


@dataclass(slots=True)
class Tally:
    """The counts of a run. calls_left None: until the deadline."""

    calls_left: int | None
    deadline: float
    latencies_us: "array[float]" = field(default_factory=lambda: array("d"))
    answered: int = 0  # HTTP 2xx with a JSON-RPC result.
    refused: int = 0  # Any other answer.
    lost: int = 0  # Sent, and the connection broke before the answer.

    def take(self) -> bool:
        """Return whether to send another call, and count it."""
        if self.calls_left is None:
            return time.perf_counter() < self.deadline
        if self.calls_left == 0:
            return False
        self.calls_left -= 1
        return True


def request_bytes(url: str, api_key: str) -> bytes:
    parts = urlsplit(url)
    head = (
        f"POST {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"X-Api-Key: {api_key}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    return head.encode() + BODY


class Client(asyncio.Protocol):
    """One connection with one call in flight; `ended` is done when no call is left or the connection broke."""

    def __init__(self, tally: Tally, request: bytes) -> None:
        self._tally, self._request = tally, request
        self.ended = asyncio.get_running_loop().create_future()
        self._sent_at: float | None = None
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has another base class.
        self._parser = httptools.HttpResponseParser(self)
        self._send()

    def _send(self) -> None:
        if not self._tally.take():
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        tally = self._tally
        assert self._sent_at is not None
        tally.latencies_us.append((time.perf_counter() - self._sent_at) * 1e6)
        self._sent_at = None
        if 200 <= self._parser.get_status_code() < 300 and b'"result"' in self._body:
            tally.answered += 1
        else:
            tally.refused += 1
        self._send()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._sent_at is not None:
            self._tally.lost += 1
        if not self.ended.done():
            self.ended.set_result(None)


async def _connection(tally: Tally, host: str, port: int, request: bytes) -> None:
    """Load one connection, and connect again when it breaks."""
    loop = asyncio.get_running_loop()
    while tally.calls_left is None or tally.calls_left > 0:
        _, client = await loop.create_connection(lambda: Client(tally, request), host, port)
        await client.ended
        if tally.calls_left is None and time.perf_counter() >= tally.deadline:
            return


async def generate(url: str, api_key: str, connections: int, seconds: float, calls: int | None) -> Tally:
    """Load a URL until the time is over, or until exactly this many calls have been answered."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, url
    tally = Tally(calls, time.perf_counter() + seconds)
    request = request_bytes(url, api_key)
    await asyncio.gather(*(_connection(tally, parts.hostname, parts.port, request) for _ in range(connections)))
    return tally


def percentile(sorted_values: list[float], percent: int) -> float:
    """Return a percentile by nearest rank; 0 for no values."""
    if not sorted_values:
        return 0.0
    return sorted_values[min(len(sorted_values) - 1, len(sorted_values) * percent // 100)]


def main(
    url: str,
    connections: Annotated[int, typer.Option(min=1)] = 64,
    seconds: Annotated[float, typer.Option(min=0)] = 8.0,
    calls: Annotated[int | None, typer.Option(min=1, help="Exactly so many, whatever time it takes.")] = None,
) -> None:
    """Send billed calls, and print the counts of their answers as JSON."""
    began = time.perf_counter()
    tally = uvloop.run(generate(url, os.environ["BENCH_API_KEY"], connections, seconds, calls))
    took = time.perf_counter() - began
    latencies = sorted(tally.latencies_us)
    figures = {
        "requests": tally.answered + tally.refused,
        "duration_us": int(took * 1e6),
        "p50_us": percentile(latencies, 50),
        "p99_us": percentile(latencies, 99),
        "max_us": latencies[-1] if latencies else 0.0,
        "refused": tally.refused,
        "lost": tally.lost,
    }
    sys.stdout.write(f"figures {orjson.dumps(figures).decode()}\n")


if __name__ == "__main__":
    typer.run(main)
