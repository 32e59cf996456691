"""Loads one address with billed calls: with wrk where the machine has it, else with a Python generator.

`timed` and `counted` start the generator as a process: wrk, or `python -m bench.load URL --connections N (--seconds S |
--calls N)`. Unlike wrk, the Python generator waits for every call in flight, so its count is exact. BENCH_API_KEY (one,
or several with commas between them, which connections or calls have in turn), BENCH_PATH and BENCH_BODY in the
environment say what is sent.
"""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import urlsplit

import httptools
import orjson
import typer
import uvloop

from bench.figures import Load, percentile

BODY = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
_LUA = Path(__file__).with_name("calls.lua")
_MARK = "figures "
_GRACE_SECONDS = 60


class LoadFailed(Exception):
    """The generator failed; the text is its own output."""


def tool() -> str:
    """Return the name of the generator that this machine uses for timed steps."""
    return "wrk" if shutil.which("wrk") else "python"


def timed(url: str, api_key: str, connections: int, seconds: float, request: Mapping[str, str] | None = None) -> Load:
    """Load for this many seconds. wrk breaks off calls in flight at the end and does not count them.

    request: BENCH_PATH and BENCH_BODY, when another request than getSlot is to be sent.
    """
    if tool() == "python":
        command = _generator(url, connections, "--seconds", str(seconds))
    else:
        # One thread sends 100,000 requests a second; a second one would take a core from the measured system.
        seconds = max(1, round(seconds))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(_LUA), url]
    return _run(command, api_key, connections, seconds, tool(), request or {})


def counted(url: str, api_key: str, connections: int, calls: int) -> Load:
    """Send exactly this many calls, and wait for each answer."""
    return _run(_generator(url, connections, "--calls", str(calls)), api_key, connections, 600, "python", {})


def _generator(url: str, connections: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "bench.load", url, "--connections", str(connections), *more]


def _run(
    command: list[str], api_key: str, connections: int, seconds: float, name: str, request: Mapping[str, str]
) -> Load:
    done = subprocess.run(
        command,
        env={**os.environ, "BENCH_API_KEY": api_key, **request},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=seconds + _GRACE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise LoadFailed(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}")
    return parse(done.stdout, name, connections)


def parse(output: str, name: str, connections: int) -> Load:
    """Read the line of figures that both generators print. Raises LoadFailed when there is none."""
    for line in output.splitlines():
        if line.startswith(_MARK):
            figures = orjson.loads(line.removeprefix(_MARK))
            broken = sum(figures.get(kind, 0) for kind in ("connect", "read", "write", "timeout", "lost"))
            return Load(
                tool=name,
                connections=connections,
                seconds=figures["duration_us"] / 1e6,
                answered=figures["requests"] - figures["refused"],
                errors=figures["refused"] + broken,
                latency_p50_ms=figures["p50_us"] / 1e3,
                latency_p99_ms=figures["p99_us"] / 1e3,
            )
    raise LoadFailed(f"{name} printed no figures: {output.strip()[-400:]}")


@dataclass(slots=True)
class Tally:
    """The counts of a run. calls_left None: until the deadline."""

    calls_left: int | None
    deadline: float
    latencies_us: "array[float]" = field(default_factory=lambda: array("d"))
    answered: int = 0  # HTTP 2xx with a JSON-RPC result.
    refused: int = 0  # Any other answer.
    lost: int = 0  # Sent, but the connection broke before the answer.

    def take(self) -> bool:
        """Return whether to send another call, and count it."""
        if self.calls_left is None:
            return time.perf_counter() < self.deadline
        if self.calls_left == 0:
            return False
        self.calls_left -= 1
        return True


def request_bytes(url: str, api_key: str = "", path: str = "/", body: str = BODY) -> bytes:
    credential = f"X-Api-Key: {api_key}\r\n" if api_key else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n{credential}"
        f"Content-Length: {len(body.encode())}\r\n\r\n{body}"
    ).encode()


class Client(asyncio.Protocol):
    """One connection with one call in flight; `ended` is done when no call is left or the connection broke."""

    def __init__(self, tally: Tally, request: bytes) -> None:
        self._tally, self._request = tally, request
        self.ended = asyncio.get_running_loop().create_future()
        self._sent_at: float | None = None
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has another base class.
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
        self._parts = []

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        tally = self._tally
        assert self._sent_at is not None
        tally.latencies_us.append((time.perf_counter() - self._sent_at) * 1e6)
        self._sent_at = None
        if 200 <= self._parser.get_status_code() < 300 and b'"result"' in b"".join(self._parts):
            tally.answered += 1
        else:
            tally.refused += 1
        self._send()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._sent_at is not None:
            self._tally.lost += 1
        if not self.ended.done():
            self.ended.set_result(None)


async def _connection(tally: Tally, host: str, port: int, request: bytes, tls: ssl.SSLContext | None) -> None:
    """Load one connection, and connect again when it breaks."""
    loop = asyncio.get_running_loop()
    while tally.calls_left is None or tally.calls_left > 0:
        _, client = await loop.create_connection(lambda: Client(tally, request), host, port, ssl=tls)
        await client.ended
        if tally.calls_left is None and time.perf_counter() >= tally.deadline:
            return


async def generate(
    url: str, requests: bytes | Sequence[bytes], connections: int, seconds: float, calls: int | None
) -> Tally:
    """Load a URL until the time is over, or until exactly this many calls have been answered.

    requests: one, or several that the connections have in turn.
    """
    each = [requests] if isinstance(requests, bytes) else requests
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, url
    tally, tls = Tally(calls, time.perf_counter() + seconds), None
    if parts.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    connecting = (
        _connection(tally, parts.hostname, parts.port, each[number % len(each)], tls) for number in range(connections)
    )
    await asyncio.gather(*connecting)
    return tally


def main(
    url: str,
    connections: Annotated[int, typer.Option(min=1)] = 64,
    seconds: Annotated[float, typer.Option(min=0)] = 8.0,
    calls: Annotated[int | None, typer.Option(min=1, help="Exactly this many, whatever time it takes.")] = None,
) -> None:
    """Send billed calls, and print the counts of their answers as JSON."""
    given = os.environ
    path, body = given.get("BENCH_PATH", urlsplit(url).path or "/"), given.get("BENCH_BODY", BODY)
    requests = [request_bytes(url, key, path, body) for key in given["BENCH_API_KEY"].split(",")]
    began = time.perf_counter()
    tally = uvloop.run(generate(url, requests, connections, seconds, calls))
    figures = {
        "requests": tally.answered + tally.refused,
        "duration_us": int((time.perf_counter() - began) * 1e6),
        "p50_us": percentile(tally.latencies_us, 50),
        "p99_us": percentile(tally.latencies_us, 99),
        "refused": tally.refused,
        "lost": tally.lost,
    }
    sys.stdout.write(f"{_MARK}{orjson.dumps(figures).decode()}\n")


if __name__ == "__main__":
    typer.run(main)
