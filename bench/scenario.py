"""What all scenarios share: options, tables, targets, the description of the machine, results file and exit code.

A scenario returns its figures, which are written as JSON. It raises Wrong when an answer or a charge is wrong, never
because a machine is slow. Not here: the systems under test (systems.py), the load (load.py).
"""

import functools
import inspect
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import psutil
import typer
from rich.console import Console
from rich.table import Table

from bench.children import ChildFailed
from bench.load import LoadFailed
from bench.product import ProductFailed

RESULTS = Path(__file__).with_name("results")
_ADDITIONS = 3_000_000
_BUSY_PERCENT_MAX = 10.0

Seconds = Annotated[float, typer.Option(min=0.5, help="Length of a step.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often the alternating steps are repeated.")]
Connections = Annotated[int, typer.Option(min=1, help="Connections, with one call in flight each.")]

console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)  # A file has no width.


class Wrong(Exception):
    """A measured answer, charge or order is wrong; the text names it. figures: written all the same."""

    def __init__(self, text: str, figures: Any = None) -> None:
        super().__init__(text)
        self.figures = figures


@dataclass(frozen=True, slots=True)
class Target:
    """measured, met None: not measured in this run. A missed target is shown, not failed, because machines differ."""

    name: str
    wanted: str
    measured: str | None
    met: bool | None


def at_most(name: str, most: float, measured: float | None, shape: str = "{:,.0f}") -> Target:
    if measured is None:
        return Target(name, f"<= {most:,g}", None, None)
    return Target(name, f"<= {most:,g}", shape.format(measured), measured <= most)


def at_least(name: str, least: float, measured: float | None, shape: str = "{:,.0f}") -> Target:
    if measured is None:
        return Target(name, f">= {least:,g}", None, None)
    return Target(name, f">= {least:,g}", shape.format(measured), measured >= least)


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose first column is text and whose other columns are figures. None is shown as nothing."""
    table = Table(title=title)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(
            *("" if cell is None else f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row)
        )
    console.print(table)


def show_figures(title: str, figures: dict[str, Any]) -> None:
    show(title, ("figure", "value"), figures.items())


def show_targets(targets: Iterable[Target]) -> None:
    words = {True: "[green]yes[/green]", False: "[red]NO[/red]", None: "[dim]-[/dim]"}
    rows = ((one.name, one.wanted, one.measured or "not measured", words[one.met]) for one in targets)
    show("Targets", ("target", "wanted", "measured", "met"), rows)


def chosen(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Read the value of an option such as --only. Raises BadParameter for a name that is not among these."""
    known, found = list(names), tuple(name.strip() for name in text.split(",") if name.strip())
    if not found or not set(found) <= set(known):
        raise typer.BadParameter(f"wanted some of {', '.join(known)}")
    return found


def counts(text: str) -> tuple[int, ...]:
    """Read numbers above zero, such as "1,64", in ascending order. Raises BadParameter."""
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise typer.BadParameter("wanted numbers such as 1,64") from None
    if found[0] < 1:
        raise typer.BadParameter("each number is at least 1")
    return found


def machine() -> dict[str, Any]:
    """Describe this machine at this moment. additions_ms: processor time of a fixed loop, which tells its speed."""
    began, total = time.process_time(), 0
    for number in range(_ADDITIONS):
        total += number
    additions_ms = round((time.process_time() - began) * 1e3)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "busy_percent_before": psutil.cpu_percent(interval=1),
        "additions_ms": additions_ms,
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str))


def run(name: str, measure: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Run a scenario with these command line arguments, and end this process."""
    app = typer.Typer(add_completion=False)
    app.command()(recorded(name, measure))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # As an interrupt, so that all processes are stopped.
    app(args=list(arguments), prog_name=f"python -m bench {name}")


def recorded(name: str, measure: Callable[..., Any]) -> Callable[..., None]:
    """Return the scenario as a command with one more option: where its figures are written."""

    @functools.wraps(measure)
    def command(results: Path, **options: Any) -> None:
        host, failure = machine(), ""
        console.print(
            f"{host['date']}: {host['cores']} cores, {host['busy_percent_before']:.0f} % busy; "
            f"{_ADDITIONS:,} additions take {host['additions_ms']} ms"
        )
        if host["busy_percent_before"] > _BUSY_PERCENT_MAX:
            console.print("[yellow]Other work takes this machine: the figures will be worse than it can do.[/yellow]")
        try:
            figures = measure(**options)
        except (ProductFailed, LoadFailed, ChildFailed, ChildProcessError) as error:
            console.print(f"Broke: {error}", markup=False)
            raise typer.Exit(1) from None
        except Wrong as wrong:
            figures, failure = wrong.figures, str(wrong)
        write(results, {"scenario": name, "machine": host, "options": options, "figures": figures})
        console.print(f"figures: {results}   how to read them: bench/README.md")
        if failure:
            console.print(f"Wrong: {failure}", markup=False)
            raise typer.Exit(1)

    signature = inspect.signature(measure, eval_str=True)
    option = inspect.Parameter(
        "results",
        inspect.Parameter.KEYWORD_ONLY,
        default=RESULTS / f"{name}.json",
        annotation=Annotated[Path, typer.Option(help="Where the figures are written as JSON.")],
    )
    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    command.__annotations__ = {**measure.__annotations__, "results": option.annotation}
    return command
