"""`python -m bench.blocks`: measures the latency that the gateway adds to large answers, cached and not cached.

Blocks of 1 MB and 10 MB are requested from an embedded chain directly and through the product, one call at a time over
one connection. First each call has other parameters for the same block, so that no answer comes from the cache. Then
all calls are equal and come from the cache. The same is measured with a node that has its answers ready in memory, so
that only the transport counts. Last, many clients request one block at once, counted by their X-Cache header.
Everything runs on this machine over loopback. The exit code is 0 unless a step failed.
"""

import http.client
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table

from bench import big_blocks, systems
from bench.product import ProductFailed
from bench.systems import System

RESULTS = Path(__file__).with_name("results") / "blocks.json"
SIZES = (1_000_000, 10_000_000)
RATIO_MAX = 1.5
_WARM_UP_CALLS = 3
_TIMEOUT_SECONDS = 60
_VERSIONS = 256

Ask = Callable[[int], list[Any]]  # The parameters of a call, by its number.


@dataclass(frozen=True, slots=True)
class Row:
    """Median durations of calls in milliseconds, from the request's first byte to the answer's last."""

    node: str
    size_bytes: int
    direct_ms: float
    gateway_ms: float
    kept_ms: float

    @property
    def ratio(self) -> float:
        return self.gateway_ms / self.direct_ms


class Caller:
    """A client with one keep-alive connection."""

    def __init__(self, url: str, api_key: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
        self._headers = {"content-type": "application/json", "x-api-key": api_key}

    def block(self, params: list[Any]) -> tuple[float, int, str]:
        """Request a block, and return (milliseconds, bytes of the body, X-Cache). Raises ValueError for an error."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": params})
        began = time.perf_counter()
        self._connection.request("POST", "/", body, self._headers)
        answer = self._connection.getresponse()
        received = answer.read()
        took_ms = (time.perf_counter() - began) * 1000
        if answer.status != 200 or b'"blockhash"' not in received:
            raise ValueError(f"HTTP {answer.status}: {received[:200]!r}")
        return took_ms, len(received), answer.headers.get("x-cache", "")

    def close(self) -> None:
        self._connection.close()


def median_ms(url: str, api_key: str, calls: int, ask: Ask) -> tuple[float, int]:
    """Measure several calls, and return (median, bytes of one body)."""
    caller = Caller(url, api_key)
    try:
        seen = [caller.block(ask(number)) for number in range(calls + _WARM_UP_CALLS)][_WARM_UP_CALLS:]
        return statistics.median(took_ms for took_ms, _, _ in seen), seen[-1][1]
    finally:
        caller.close()


def row(node: str, direct_url: str, gateway: System, calls: int, ask: Ask) -> Row:
    direct_ms, size_bytes = median_ms(direct_url, "", calls, ask)
    gateway_ms, _ = median_ms(gateway.url, gateway.api_key, calls, ask)
    kept_ms, _ = median_ms(gateway.url, gateway.api_key, calls, lambda _: ask(0))
    return Row(node, size_bytes, direct_ms, gateway_ms, kept_ms)


def of_chain(slot: int) -> Ask:
    """Request a block of the chain. Each version has other parameters and the same answer."""
    return lambda number: [slot, {"maxSupportedTransactionVersion": number % _VERSIONS}]


def of_memory(size: int) -> Ask:
    """Request a block of bench.constant, which has as many bytes as its slot's number says."""
    return lambda number: [size + number]


def at_once(gateway: System, callers: int, params: list[Any]) -> Counter[str]:
    """Let many clients request one block at once, and count them by X-Cache."""
    lines = [Caller(gateway.url, gateway.api_key) for _ in range(callers)]
    try:
        with ThreadPoolExecutor(callers) as pool:
            return Counter(mark for _, _, mark in pool.map(lambda line: line.block(params), lines))
    finally:
        for line in lines:
            line.close()


def show(console: Console, rows: list[Row], marks: Counter[str]) -> None:
    table = Table("node", "body", "direct ms", "gateway ms", "ratio", f"target {RATIO_MAX}", "kept ms")
    for one in rows:
        met = "[green]met[/green]" if one.ratio <= RATIO_MAX else "[red]missed[/red]"
        times = (f"{one.direct_ms:.1f}", f"{one.gateway_ms:.1f}", f"{one.ratio:.2f}")
        table.add_row(one.node, f"{one.size_bytes / 1e6:.1f} MB", *times, met, f"{one.kept_ms:.1f}")
    console.print(table)
    console.print(f"{marks.total()} callers of one block at once: {dict(marks)} (miss: a request to the node)")


def main(
    calls: Annotated[int, typer.Option(min=3, max=_VERSIONS - _WARM_UP_CALLS, help="Timed calls of each kind.")] = 20,
    callers: Annotated[int, typer.Option(min=1, help="Callers of one block at once.")] = 64,
    results: Annotated[Path, typer.Option(help="Where the figures are written as JSON.")] = RESULTS,
) -> None:
    """Measure getBlock bodies of 1 MB and 10 MB through the gateway against the node asked directly."""
    console = Console(highlight=False)
    rows: list[Row] = []
    try:
        with big_blocks.filled(*SIZES) as chain, systems.gateway(chain.url) as gateway:
            rows += [row("chain", chain.url, gateway, calls, of_chain(chain.slots[size])) for size in SIZES]
            marks = at_once(gateway, callers, [chain.slots[SIZES[0]], {"maxSupportedTransactionVersion": 255}])
        with systems.upstream() as constant, systems.gateway(constant.url) as gateway:
            rows += [row("memory", constant.url, gateway, calls, of_memory(size)) for size in SIZES]
    except (ProductFailed, ChildProcessError, ValueError, OSError) as error:
        console.print(f"[red]Broke:[/red] {error}")
        sys.exit(1)
    show(console, rows, marks)
    results.parent.mkdir(exist_ok=True)
    written = {"rows": [asdict(one) | {"ratio": one.ratio} for one in rows], "at_once": dict(marks)}
    results.write_text(json.dumps(written, indent=2), encoding="utf-8")
    console.print(f"figures: {results}")


if __name__ == "__main__":
    typer.run(main)
