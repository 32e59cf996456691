"""`python -m bench.edge`: measures calls over HTTPS beside the same calls over plain HTTP, in turns, on one product.

The edge is a second HAProxy before the front, so a call over TLS passes two. Both kinds keep their connections.
"""

import statistics
import sys
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import load, systems
from bench.figures import Load
from bench.processes import cpu_seconds, cpu_spent
from bench.product import Product

_PARTS = {"edge": "edge.cfg", "front": "haproxy.cfg", "replica": "ray::ServeReplica"}
_WARM_UP_SECONDS = 2.0


def _step(system: systems.System, url: str, connections: int, seconds: float) -> tuple[Load, dict[str, float]]:
    """Return the load that was answered, and the microseconds of processor time a call, by part of the product."""
    assert system.product is not None
    names = {name: pid for name, mark in _PARTS.items() for pid in system.product.running(mark)[:1]}
    load.timed(url, system.api_key, connections, _WARM_UP_SECONDS)
    before = cpu_seconds(system.pids())
    seen = load.timed(url, system.api_key, connections, seconds)
    spent = cpu_spent(before, cpu_seconds(system.pids()), names)
    return seen, {name: spent.get(name, 0.0) * 1e6 / max(1, seen.answered) for name in (*_PARTS, "other")}


def measure(connections: int, seconds: float, rounds: int) -> Table:
    more = {"LEDGER_SERVE__TLS": "true", "LEDGER_TELEMETRY__LOG_LEVEL": "WARNING"}
    found: dict[str, list[tuple[Load, dict[str, float]]]] = {"plain": [], "TLS": []}
    with systems.upstream() as node, systems.gateway(node.url, more) as system:
        product = system.product
        assert isinstance(product, Product)
        urls = {"plain": f"{product.http_url}/", "TLS": f"{product.ready['https_url']}/"}
        for _ in range(rounds):
            for name, url in urls.items():
                found[name].append(_step(system, url, connections, seconds))
                time.sleep(1)
    table = Table("over", "calls/s", "p50 ms", "p99 ms", "errors", *(f"{name} µs/call" for name in (*_PARTS, "other")))
    for name, steps in found.items():
        loads = [seen for seen, _ in steps]
        figures = [
            f"{statistics.median(one.per_second for one in loads):,.0f}",
            f"{statistics.median(one.latency_p50_ms for one in loads):.2f}",
            f"{statistics.median(one.latency_p99_ms for one in loads):.2f}",
            str(sum(one.errors for one in loads)),
            *(f"{statistics.median(spent[part] for _, spent in steps):.0f}" for part in (*_PARTS, "other")),
        ]
        table.add_row(name, *figures)
    medians = {name: statistics.median(seen.per_second for seen, _ in steps) for name, steps in found.items()}
    table.caption = f"{connections} connections; TLS is {medians['TLS'] / medians['plain']:.2f} of plain"
    return table


def main(
    connections: Annotated[int, typer.Option(min=1, help="Connections of the load.")] = 64,
    seconds: Annotated[float, typer.Option(min=1, help="Length of a step.")] = 8.0,
    rounds: Annotated[int, typer.Option(min=1, help="Steps of each kind; medians are shown.")] = 3,
) -> None:
    """Compare calls over TLS with plain ones."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    console.print(measure(connections, seconds, rounds))


if __name__ == "__main__":
    typer.run(main)
