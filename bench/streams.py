"""Measures WebSockets: sharing, idle memory, and notifications that are fanned out to many clients.

The replica's side runs in a process of its own: the real HTTP server and door, the real hub, its link and meters; its
accounts are kept in memory, so that only streams are measured. The clients are in this process: on two cores, one each.
With --product it is the whole product: the clients reach a replica over HAProxy, with --tls over the edge too, and hub,
accounts and a node whose notifications are ordered here are processes of their own.
"""

import asyncio
import base64
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import orjson
import psutil
import typer
import uvloop

from bench import scenario
from bench.figures import in_ms
from bench.product import ROOT
from bench.systems import started

ACCOUNT = "So11111111111111111111111111111111111111112"
_CLIENTS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured side, and the socket over which it receives orders."""

    line: socket.socket
    pid: int
    port: int
    api_key: str
    others: dict[str, int] = field(default_factory=dict)  # Further processes whose use of processor time is shown.
    trusted: ssl.SSLContext | None = None  # Set for an address that uses TLS.

    def say(self, text: bytes) -> None:
        self.line.sendall(text)

    def hear(self) -> str:
        return self.line.recv(100).decode()


class Goal:
    """The number of notifications that all clients together still wait for."""

    def __init__(self) -> None:
        self.left = 0
        self.reached = asyncio.Event()

    def came(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.reached.set()


@dataclass
class Reader(asyncio.Protocol):
    """One client, which reads frames of notifications and records the delay of each."""

    path: str
    key: str
    delays: list[float]
    opened: asyncio.Future[None]
    subscribe: bytes | None
    goal: Goal
    _rest: bytes = b""
    _is_open: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        nonce = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET {self.path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {nonce}\r\nSec-WebSocket-Version: 13\r\nX-Api-Key: {self.key}\r\n\r\n"
        )
        self.transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        rest = self._rest + data
        if not self._is_open:
            head, found, rest = rest.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head[:300]
            self._is_open = True
            if self.subscribe is None:
                self.opened.set_result(None)
            else:
                self.transport.write(_masked(self.subscribe))
        self._rest = self._frames(rest, now)

    def _frames(self, rest: bytes, now: float) -> bytes:
        while len(rest) >= 4:
            size, start = rest[1], 2
            if size == 126:
                size, start = int.from_bytes(rest[2:4], "big"), 4
            if len(rest) < start + size:
                break
            if rest[0] == 0x81:
                self._take(rest[start : start + size], now)
            elif rest[0] == 0x89:
                self.transport.write(b"\x8a\x80\0\0\0\0")
            rest = rest[start + size :]
        return rest

    def _take(self, text: bytes, now: float) -> None:
        at = text.find(b'"lamports":')
        if at < 0:
            if not self.opened.done():
                self.opened.set_result(None)
            return
        end = text.find(b",", at)
        self.delays.append(now - int(text[at + 11 : end]) / 1e6)
        self.goal.came()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionResetError())


def _masked(text: bytes) -> bytes:
    return b"\x81\xfe" + len(text).to_bytes(2, "big") + b"\0\0\0\0" + text


async def connect(count: int, measured: Measured, goal: Goal, subscribe: bool) -> list[Reader]:
    loop = asyncio.get_running_loop()
    call = {"jsonrpc": "2.0", "id": 1, "method": "accountSubscribe", "params": [ACCOUNT, {"encoding": "base64"}]}
    # Long enough for the longer form of a frame's length, which `_masked` writes.
    text = orjson.dumps(call | {"padding": "x" * 64}) if subscribe else None
    readers: list[Reader] = []
    while len(readers) < count:
        part = []
        for _ in range(min(_CLIENTS_AT_ONCE, count - len(readers))):
            reader = Reader("/ws", measured.api_key, [], loop.create_future(), text, goal)
            await loop.create_connection(lambda made=reader: made, "127.0.0.1", measured.port, ssl=measured.trusted)
            part.append(reader)
        await asyncio.gather(*(reader.opened for reader in part))
        readers += part
    return readers


async def fan_out(measured: Measured, readers: list[Reader], per_second: int, seconds: float) -> dict[str, float]:
    """Send this many notifications a second to all clients together."""
    for reader in readers:
        reader.delays.clear()
    goal = readers[0].goal
    goal.left = wanted = int(per_second * seconds / len(readers)) * len(readers)
    goal.reached.clear()
    processes = {name: psutil.Process(pid) for name, pid in {"cpu": measured.pid, **measured.others}.items()}
    before, began = {name: sum(one.cpu_times()[:2]) for name, one in processes.items()}, time.monotonic()
    measured.say(b"%d %d %f\n" % (per_second, len(readers), seconds))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds * 3 + 5):
            await goal.reached.wait()
    took = time.monotonic() - began
    delays = [delay for reader in readers for delay in reader.delays]
    return {
        "wanted": wanted,
        "delivered": len(delays),
        "per second": len(delays) / took,
        **in_ms(delays),
        **{name: (sum(one.cpu_times()[:2]) - before[name]) / took for name, one in processes.items()},
    }


@contextlib.contextmanager
def _program(module: str) -> Iterator[tuple[socket.socket, int, dict[str, Any]]]:
    """Run a program of tests/streams; gives the socket for its orders, its process id, and what it said first."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", f"tests.streams.{module}", str(theirs.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=(theirs.fileno(),))
    theirs.close()
    with ours:
        try:
            yield ours, process.pid, orjson.loads(ours.makefile("rb").readline())
        finally:
            process.terminate()
            process.wait(20)


@contextlib.contextmanager
def one_process() -> Iterator[Measured]:
    """Run the replica's side of WebSockets in one process."""
    with _program("measured_side") as (line, pid, first):
        yield Measured(line, pid, **first)


@contextlib.contextmanager
def whole_product(is_tls: bool) -> Iterator[Measured]:
    """Run the product in front of a node that sends notifications when it is told to. pid: of the one replica."""
    with _program("telling_node") as (line, _, ports), started(_settings(ports, is_tls)) as product:
        marks = {"front cpu": "haproxy.cfg", "hub cpu": "StreamHubActor", "edge cpu": "edge.cfg"}
        others = {name: product.running(mark)[0] for name, mark in marks.items() if is_tls or name != "edge cpu"}
        trusted = ssl.create_default_context(cafile=product.ready["tls_ca_file"]) if is_tls else None
        if trusted is not None:
            trusted.check_hostname = False
        port = product.ports.tls if is_tls else product.ports.http
        yield Measured(line, product.running("ray::ServeReplica")[0], port, product.api_key, others, trusted)


def _settings(ports: dict[str, int], is_tls: bool) -> dict[str, str]:
    return {
        "LEDGER_UPSTREAM__NODE_URL": f"http://127.0.0.1:{ports['http_port']}",
        "LEDGER_UPSTREAM__NODE_WS_URL": f"ws://127.0.0.1:{ports['ws_port']}",
        "LEDGER_PAYMENTS__NETWORK": "devnet",  # Play money, so that the run makes its wallets.
        "LEDGER_GATEWAY__REPLICAS": "1",
        "LEDGER_ACCOUNTS__REQUESTS_PER_SECOND": "1000000",
        "LEDGER_ACCOUNTS__CONCURRENCY": "100000",
        "LEDGER_SERVE__TLS": str(is_tls).lower(),
        "LEDGER_TELEMETRY__LOG_LEVEL": "WARNING",
    }


async def measure(
    clients: int,
    idle: int,
    rates: Sequence[int],
    seconds: float,
    start: Callable[[], contextlib.AbstractContextManager[Measured]] = one_process,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with start() as measured:
        memory = psutil.Process(measured.pid).memory_full_info().pss
        waiting = await connect(idle, measured, Goal(), subscribe=False)
        grown = psutil.Process(measured.pid).memory_full_info().pss
        found[f"MB with {idle} idle sockets"] = grown / 1e6
        found["MB of it for the sockets"] = (grown - memory) / 1e6
        for reader in waiting:
            reader.transport.abort()
        readers = await connect(clients, measured, Goal(), subscribe=True)
        measured.say(b"count\n")
        found[f"subscriptions at the node for {clients} clients"] = int(measured.hear())
        for rate in rates:
            step = await fan_out(measured, readers, rate, seconds)
            found |= {f"{rate:,}/s: {name}": round(value, 2) for name, value in step.items()}
    return found


def main(
    clients: Annotated[int, typer.Option(min=1, help="Clients of one account.")] = 1_000,
    idle: Annotated[int, typer.Option(min=1, help="Sockets that send nothing.")] = 2_000,
    rates: Annotated[str, typer.Option(help="Notifications a second, of all clients together.")] = "10000,20000",
    seconds: scenario.Seconds = 10.0,
    product: Annotated[bool, typer.Option("--product", help="Through the whole product.")] = False,
    tls: Annotated[bool, typer.Option("--tls", help="With --product: over TLS.")] = False,
) -> dict[str, Any]:
    """Measure sharing, idle memory and fan-out of WebSocket subscriptions; takes a minute."""
    start = partial(whole_product, tls) if product else one_process
    found: dict[str, Any] = uvloop.run(measure(clients, idle, scenario.counts(rates), seconds, start))
    scenario.show_figures("WebSocket subscriptions", found)
    return found
