"""`python -m bench.mcp`: measures what a call costs as an MCP tool, against the same call as JSON-RPC.

One product over a constant upstream, 64 connections, steps in turn, so that a machine that slows down slows both. The
figure is the processor time of all the product's processes for each answered call. The exit code is 1 when the ratio is
above the target, 2 when a call failed.
"""

import signal
import statistics
import sys
from collections.abc import Mapping
from typing import Annotated

import orjson
import typer

from bench import load, systems
from bench.processes import cpu_seconds, cpu_spent
from bench.product import ProductFailed
from bench.systems import System

RATIO_MAX = 1.3
KINDS: Mapping[str, Mapping[str, str]] = {
    "JSON-RPC": {"BENCH_PATH": "/", "BENCH_BODY": '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'},
    "MCP": {
        "BENCH_PATH": "/mcp",
        "BENCH_BODY": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getSlot","arguments":{}}}',
    },
}


def step(system: System, connections: int, seconds: float, kind: str) -> tuple[float, int, int]:
    """Return the microseconds of processor time of one call, the answers and the errors."""
    before = cpu_seconds(system.pids())
    seen = load.timed(system.url, system.api_key, connections, seconds, KINDS[kind])
    spent = sum(cpu_spent(before, cpu_seconds(system.pids()), {}).values())
    return spent * 1e6 / max(1, seen.answered), seen.answered, seen.errors


def main(
    connections: Annotated[int, typer.Option(min=1)] = 64,
    seconds: Annotated[float, typer.Option(min=1, help="Length of a step.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="Steps of each kind.")] = 5,
) -> None:
    """Measure both kinds of call on this machine; takes about a minute and a half."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    errors = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # As an interrupt, so that all processes are stopped.
    try:
        with systems.upstream() as constant, systems.gateway(constant.url) as system:
            for kind in KINDS:
                load.timed(system.url, system.api_key, connections, 2, KINDS[kind])
            for _ in range(rounds):
                for kind in KINDS:
                    micros, answered, failed = step(system, connections, seconds, kind)
                    found[kind].append(micros)
                    errors += failed
                    sys.stdout.write(f"{kind}: {answered / seconds:,.0f} calls/s, {micros:.1f} us of CPU a call\n")
    except (ProductFailed, load.LoadFailed, ChildProcessError) as error:
        sys.stdout.write(f"broke: {error}\n")
        raise typer.Exit(2) from None
    medians = {kind: statistics.median(values) for kind, values in found.items()}
    ratio = medians["MCP"] / medians["JSON-RPC"]
    figures = {"median_us": medians, "ratio": round(ratio, 3), "ratio_max": RATIO_MAX, "errors": errors}
    sys.stdout.write(f"figures {orjson.dumps(figures).decode()}\n")
    if errors:
        raise typer.Exit(2)
    if ratio > RATIO_MAX:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
