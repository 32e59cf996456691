"""Measures the same call in two ways on one product, alternating: over HTTPS and plain, as an MCP tool and as JSON-RPC.

The steps alternate so that a machine that slows down slows both. The figure is the processor time of the product's
processes for each answered call. `edge`: a call over TLS passes a second HAProxy. Connections are kept in both.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from bench import load, scenario, systems
from bench.figures import Load
from bench.processes import cpu_seconds, cpu_spent
from bench.systems import System

MCP_RATIO_MAX = 1.3
MCP_REQUESTS: Mapping[str, Mapping[str, str]] = {
    "JSON-RPC": {"BENCH_PATH": "/", "BENCH_BODY": load.BODY},
    "MCP": {
        "BENCH_PATH": "/mcp",
        "BENCH_BODY": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getSlot","arguments":{}}}',
    },
}
_PARTS = {"edge": "edge.cfg", "front": "haproxy.cfg", "replica": "ray::ServeReplica"}
_WARM_UP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    load: Load
    cpu_us_by_part: dict[str, float]  # For each call.

    @property
    def cpu_us(self) -> float:
        return sum(self.cpu_us_by_part.values())


def step(system: System, send: Callable[[], Load]) -> Step:
    """Send, and return the microseconds of processor time a call by part of the product; the rest is "other"."""
    running = system.product.running if system.product else lambda _mark: []
    names = {name: pid for name, mark in _PARTS.items() for pid in running(mark)[:1]}
    before = cpu_seconds(system.pids())
    seen = send()
    spent = cpu_spent(before, cpu_seconds(system.pids()), names)
    return Step(seen, {name: seconds * 1e6 / max(1, seen.answered) for name, seconds in spent.items()})


def alternate(system: System, rounds: int, kinds: Mapping[str, Callable[[float], Load]], seconds: float) -> Any:
    """Measure all kinds in each round; show and return medians by kind. kinds: each loads for so many seconds."""
    steps: dict[str, list[Step]] = {name: [] for name in kinds}
    for send in kinds.values():
        send(_WARM_UP_SECONDS)
    for _ in range(rounds):
        for name, send in kinds.items():
            steps[name].append(step(system, lambda send=send: send(seconds)))  # type: ignore[misc]
    found = {}
    for name, those in steps.items():
        figures = {
            "calls/s": statistics.median(one.load.per_second for one in those),
            "p50 ms": statistics.median(one.load.latency_p50_ms for one in those),
            "p99 ms": statistics.median(one.load.latency_p99_ms for one in those),
            "errors": sum(one.load.errors for one in those),
            "CPU µs": statistics.median(one.cpu_us for one in those),
        }
        for part in (*_PARTS, "other"):
            figures[f"{part} µs"] = statistics.median(one.cpu_us_by_part.get(part, 0.0) for one in those)
        found[name] = figures
    headings = tuple(next(iter(found.values())))
    scenario.show("medians", ("calls", *headings), ((name, *figures.values()) for name, figures in found.items()))
    return found


def edge(connections: scenario.Connections = 64, seconds: scenario.Seconds = 8.0, rounds: scenario.Rounds = 3) -> Any:
    """Compare calls over TLS with plain ones; takes about a minute."""
    more = {"LEDGER_SERVE__TLS": "true", "LEDGER_TELEMETRY__LOG_LEVEL": "WARNING"}
    with systems.upstream() as node, systems.gateway(node.url, more) as system:
        assert system.product is not None
        urls = {"plain": f"{system.product.http_url}/", "TLS": f"{system.product.ready['https_url']}/"}

        def sender(url: str) -> Callable[[float], Load]:
            return lambda length: load.timed(url, system.api_key, connections, length)

        found = alternate(system, rounds, {name: sender(url) for name, url in urls.items()}, seconds)
    share = found["TLS"]["calls/s"] / found["plain"]["calls/s"]
    scenario.console.print(f"{connections} connections; TLS is {share:.2f} of plain")
    return found | {"share": share}


def mcp(
    connections: scenario.Connections = 64,
    seconds: scenario.Seconds = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="Steps of each kind.")] = 5,
) -> Any:
    """Compare a call as an MCP tool with the same call as JSON-RPC; takes about a minute and a half."""
    with systems.upstream() as node, systems.gateway(node.url) as system:

        def sender(request: Mapping[str, str]) -> Callable[[float], Load]:
            return lambda length: load.timed(system.url, system.api_key, connections, length, request)

        found = alternate(system, rounds, {name: sender(one) for name, one in MCP_REQUESTS.items()}, seconds)
    ratio = found["MCP"]["CPU µs"] / found["JSON-RPC"]["CPU µs"]
    scenario.show_targets([scenario.at_most("CPU of a tool by that of the call", MCP_RATIO_MAX, ratio, "{:.2f}")])
    figures = found | {"ratio": ratio}
    if any(kind["errors"] for kind in found.values()):
        raise scenario.Wrong("a call failed", figures)
    return figures
