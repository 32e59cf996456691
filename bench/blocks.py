"""`python -m bench.blocks`: what the gateway adds to large answers, and what identical ones cost.

Bodies of getBlock of 1 MB and 10 MB, one call at a time over one connection, at the node directly and through the
product; every call asks for another block, so nothing is found kept. Then the same block again and again, which is.
Then many callers of one block at once, with the requests that reach the node counted by their X-Cache.
Everything runs on this machine and talks to loopback only. The exit code is 0 unless something broke.
"""

import http.client
import json
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table

from bench import systems
from bench.product import ProductFailed
from bench.systems import System

RESULTS = Path(__file__).with_name("results") / "blocks.json"
SIZES = (1_000_000, 10_000_000)
RATIO_MAX = 1.5
_WARM_UP_CALLS = 3
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of whole calls, from the request's first byte to the answer's last, in milliseconds."""

    size_bytes: int
    direct_ms: float
    gateway_ms: float
    kept_ms: float

    @property
    def ratio(self) -> float:
        return self.gateway_ms / self.direct_ms


class Caller:
    """One keep-alive connection."""

    def __init__(self, system: System) -> None:
        parts = urlsplit(system.url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
        self._headers = {"content-type": "application/json", "x-api-key": system.api_key}

    def block(self, slot: int) -> tuple[float, str]:
        """(milliseconds, X-Cache). Raises ValueError for anything but a whole block of this size."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": [slot]})
        began = time.perf_counter()
        self._connection.request("POST", "/", body, self._headers)
        answer = self._connection.getresponse()
        received = answer.read()
        took_ms = (time.perf_counter() - began) * 1000
        if answer.status != 200 or len(received) != slot:
            raise ValueError(f"HTTP {answer.status}, {len(received)} bytes where {slot} were expected")
        return took_ms, answer.headers.get("x-cache", "")

    def close(self) -> None:
        self._connection.close()


def median_ms(system: System, first_slot: int, calls: int, step: int) -> float:
    """step 0: the same block each time."""
    caller = Caller(system)
    try:
        slots = [first_slot + number * step for number in range(calls + _WARM_UP_CALLS)]
        return statistics.median([caller.block(slot)[0] for slot in slots][_WARM_UP_CALLS:])
    finally:
        caller.close()


def row(direct: System, gateway: System, size: int, calls: int) -> Row:
    # Other slots at the gateway than a run before it used; 500 blocks differ by 500 bytes.
    return Row(
        size,
        median_ms(direct, size, calls, 1),
        median_ms(gateway, size, calls, 1),
        median_ms(gateway, size, calls, 0),
    )


def at_once(gateway: System, callers: int, slot: int) -> Counter[str]:
    """How many of so many callers of one block at once were a request of their own, by X-Cache."""
    lines = [Caller(gateway) for _ in range(callers)]
    try:
        with ThreadPoolExecutor(callers) as pool:
            return Counter(mark for _, mark in pool.map(lambda line: line.block(slot), lines))
    finally:
        for line in lines:
            line.close()


def show(console: Console, rows: list[Row], marks: Counter[str], slot: int) -> None:
    table = Table("body", "direct ms", "gateway ms", "ratio", f"target {RATIO_MAX}", "kept ms")
    for one in rows:
        met = "[green]met[/green]" if one.ratio <= RATIO_MAX else "[red]missed[/red]"
        table.add_row(
            f"{one.size_bytes / 1_000_000:g} MB",
            f"{one.direct_ms:.2f}",
            f"{one.gateway_ms:.2f}",
            f"{one.ratio:.2f}",
            met,
            f"{one.kept_ms:.2f}",
        )
    console.print(table)
    total = marks.total()
    console.print(
        f"{total} callers at once of one block of {slot:,} bytes: {dict(marks)} (miss: a request to the node)"
    )


def main(
    calls: Annotated[int, typer.Option(min=3, help="Timed calls of each kind and size.")] = 30,
    callers: Annotated[int, typer.Option(min=1, help="Callers of one block at once.")] = 64,
    results: Annotated[Path, typer.Option(help="Where the figures are written as JSON.")] = RESULTS,
) -> None:
    """Measure getBlock bodies of 1 MB and 10 MB through the gateway against the node asked directly."""
    console = Console(highlight=False)
    try:
        with systems.upstream() as direct, systems.gateway(direct.url) as gateway:
            rows = [row(direct, gateway, size, calls) for size in SIZES]
            slot = SIZES[0] + 100_000
            marks = at_once(gateway, callers, slot)
    except (ProductFailed, ChildProcessError, ValueError, OSError) as error:
        console.print(f"[red]Broke:[/red] {error}")
        sys.exit(1)
    show(console, rows, marks, slot)
    results.parent.mkdir(exist_ok=True)
    written = {"rows": [asdict(one) | {"ratio": one.ratio} for one in rows], "at_once": dict(marks)}
    results.write_text(json.dumps(written, indent=2), encoding="utf-8")
    console.print(f"figures: {results}")


if __name__ == "__main__":
    typer.run(main)
