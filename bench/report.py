"""Shows the figures as tables for a person and writes them as JSON for a program."""

import dataclasses
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from bench.figures import GATEWAY, NOOP, PRICE_CREDITS, Exactness, Row, Verdict, added_ms, ratio, verdicts

_MEGABYTE = 1e6


def show_rows(console: Console, rows: Sequence[Row]) -> None:
    tools = ", ".join(sorted({row.load.tool for row in rows}))
    table = Table(title=f"getSlot, one call a request, load from {tools} on the same machine")
    table.add_column("system")
    for heading in (
        *("conns", "calls/s", "of the no-op", "p50 ms", "p99 ms", "errors"),
        *("CPU s per 1,000", "memory MB", "uncounted credits"),
    ):
        table.add_column(heading, justify="right")
    last = None
    for row in rows:
        if last not in (None, row.system):
            table.add_section()
        last = row.system
        table.add_row(
            row.system,
            str(row.load.connections),
            f"{row.load.per_second:,.0f}",
            _times(ratio(rows, row.load.connections, row.system, NOOP)),
            f"{row.load.latency_p50_ms:.2f}",
            f"{row.load.latency_p99_ms:.2f}",
            f"{row.load.errors:,}",
            f"{row.cpu_seconds_per_1000:.3f}",
            f"{row.memory_bytes_max / _MEGABYTE:,.0f}",
            "" if row.debited_credits is None else f"{row.debited_credits - row.load.answered * PRICE_CREDITS:,}",
        )
    console.print(table)
    if "wrk" in tools:
        console.print(
            "[dim]uncounted credits: wrk hangs up at a step's end with up to one call a connection in flight; they "
            "are answered, charged and not counted by it. The counted runs below are exact.[/dim]"
        )


def _times(found: float | None) -> str:
    return "" if found is None else f"{found:.2f}"


def show_cpu(console: Console, rows: Sequence[Row]) -> None:
    """Show the CPU time of each process for the gateway's calls, at its largest number of connections."""
    row = max((row for row in rows if row.system == GATEWAY), key=lambda row: row.load.connections, default=None)
    if row is None or not row.load.answered:
        return
    table = Table(title=f"CPU microseconds of one call through the gateway, {row.load.connections} connections")
    table.add_column("process")
    table.add_column("µs", justify="right")
    for name, seconds in sorted(row.cpu_seconds_by_name.items(), key=lambda entry: -entry[1]):
        microseconds = seconds * 1e6 / row.load.answered
        if microseconds >= 1:
            table.add_row(name, f"{microseconds:,.0f}")
    console.print(table)


def show_comparisons(console: Console, rows: Sequence[Row]) -> None:
    table = Table("connections", "gateway / baseline, calls/s", "p50 ms added to upstream", title="Comparisons")
    for connections in sorted({row.load.connections for row in rows if row.system == GATEWAY}):
        times, added = ratio(rows, connections), added_ms(rows, connections)
        table.add_row(
            str(connections), "" if times is None else f"{times:.1f}", "" if added is None else f"{added:.2f}"
        )
    if table.row_count:
        console.print(table)


def show_exactness(console: Console, runs: Sequence[Exactness]) -> None:
    if not runs:
        return
    table = Table(title="Counted calls: every answer was waited for")
    for heading in ("system", "answered", "errors", "credits debited", "credits off by", "audit balances"):
        table.add_column(heading, justify="left" if heading == "system" else "right")
    for run in runs:
        audit = {None: "", True: "yes", False: "NO"}[run.audit_balances]
        table.add_row(
            run.system, f"{run.answered:,}", f"{run.errors:,}", f"{run.debited_credits:,}", f"{run.off_by:,}", audit
        )
    console.print(table)


def show_idle(console: Console, idle_bytes: Mapping[str, int] | None) -> None:
    if not idle_bytes:
        return
    table = Table(title="Memory of the whole product, idle (sum of proportional set sizes)")
    table.add_column("process")
    table.add_column("MB", justify="right")
    for name, size in sorted(idle_bytes.items(), key=lambda entry: -entry[1]):
        table.add_row(name, f"{size / _MEGABYTE:,.0f}")
    table.add_section()
    table.add_row("all", f"{sum(idle_bytes.values()) / _MEGABYTE:,.0f}")
    console.print(table)


def show_targets(console: Console, found: Sequence[Verdict]) -> None:
    table = Table("target", "wanted", "measured", "met", title="Targets")
    words = {True: "[green]yes[/green]", False: "[red]NO[/red]", None: "[dim]-[/dim]"}
    for verdict in found:
        table.add_row(verdict.target, verdict.wanted, verdict.measured, words[verdict.met])
    console.print(table)


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}


def write(
    path: Path,
    rows: Sequence[Row],
    exactness: Sequence[Exactness],
    idle_bytes: Mapping[str, int] | None,
    settings: Mapping[str, Any],
) -> None:
    """Write all figures, with a description of the machine, to one file."""
    content = {
        "machine": machine(),
        "settings": settings,
        "rows": [
            {
                **dataclasses.asdict(row),
                "per_second": row.load.per_second,
                "of_the_noop": ratio(rows, row.load.connections, row.system, NOOP),
                "cpu_seconds": row.cpu_seconds,
            }
            for row in rows
        ],
        "exactness": [{**dataclasses.asdict(run), "off_by": run.off_by} for run in exactness],
        "idle_bytes": idle_bytes,
        "targets": [dataclasses.asdict(verdict) for verdict in verdicts(rows, exactness, idle_bytes)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
