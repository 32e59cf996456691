"""Measures billed calls of this source tree beside those of another commit, alternating.

The other commit is a git worktree in a temporary folder, and runs in this virtual environment. Both products run at the
same time before one node with constant answers; each round loads both, in turn the one and the other first, so that a
machine that changes its speed changes both. A ratio is of two steps of one round. Everything is removed at the end.
"""

import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import scenario, systems
from bench.calls import Row, counted, step
from bench.product import ROOT
from bench.scenario import console

THIS, OTHER = "this tree", "other commit"


@contextmanager
def worktree(revision: str, repository: Path = ROOT) -> Iterator[Path]:
    """Check a commit out into a temporary folder, for as long as the block runs. Raises ChildProcessError."""
    with systems.temporary_folder() as folder:
        tree = folder / "tree"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(tree), revision)
        try:
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChildProcessError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def compared(rows: dict[str, list[Row]]) -> dict[str, Any]:
    """Compare the steps of both at one number of connections; equal places in the lists are of one round.

    ratio: this tree by the other commit, the median over the rounds; scatter: half of the distance between quartiles.
    """
    found: dict[str, Any] = {}
    for name in (THIS, OTHER):
        steps = rows[name]
        found[f"{name}, calls/s"] = statistics.median(row.load.per_second for row in steps)
        found[f"{name}, CPU µs a call"] = statistics.median(row.cpu_us_per_call for row in steps)
        found[f"{name}, errors"] = sum(row.load.errors for row in steps)
    pairs = list(zip(rows[THIS], rows[OTHER], strict=True))
    ratios = {
        "calls/s": [ours.load.per_second / theirs.load.per_second for ours, theirs in pairs],
        "CPU": [ours.cpu_us_per_call / theirs.cpu_us_per_call for ours, theirs in pairs],
    }
    for name, values in ratios.items():
        found[f"ratio of {name}"], found[f"scatter of {name}"] = statistics.median(values), scatter(values)
    return found


def scatter(values: list[float]) -> float:
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return (third - first) / 2


def main(
    with_: Annotated[str, typer.Option("--with", help="The commit to compare with: a hash, a branch, HEAD~1.")],
    connections: Annotated[str, typer.Option(help="Connection counts, one step each.")] = "1,8,64,128",
    seconds: scenario.Seconds = 3.0,
    rounds: scenario.Rounds = 5,
    counted_calls: Annotated[int, typer.Option(min=1, help="Calls of the run that is counted exactly.")] = 5_000,
) -> dict[str, Any]:
    """Compare billed calls of this tree, as its files are now, with another commit; takes about four minutes."""
    numbers, other = scenario.counts(connections), _git(ROOT, "rev-parse", "--short", f"{with_}^{{commit}}")
    rows: dict[int, dict[str, list[Row]]] = {number: defaultdict(list) for number in numbers}
    with (
        worktree(other) as tree,
        systems.upstream() as node,
        systems.gateway(node.url) as ours,
        systems.gateway(node.url, root=tree) as theirs,
    ):
        both = [replace(ours, name=THIS), replace(theirs, name=OTHER)]
        for number in range(rounds):
            for count in numbers:
                for system in both if number % 2 else reversed(both):
                    rows[count][system.name].append(step(system, count, seconds, 0.5))
        exact = {system.name: counted(system, counted_calls) for system in both}
    found = {count: compared(rows[count]) for count in numbers}
    names = list(next(iter(found.values())))
    table = ((name, *(f"{found[count][name]:,.{3 if 'of' in name else 0}f}" for count in numbers)) for name in names)
    title = f"{THIS} beside {other}, medians of {rounds} rounds of {seconds:g} s"
    scenario.show(title, ("connections", *map(str, numbers)), table)
    for name, run in exact.items():
        audit = "balances" if run.audit_balances else "DOES NOT BALANCE"
        console.print(f"{name}: {run.answered:,} counted calls, credits off by {run.off_by}, the audit {audit}")
    off_by = {name: run.off_by for name, run in exact.items()}
    figures = {"other": other, "connections": found, "credits_off_by": off_by}
    if any(off_by.values()) or not all(run.audit_balances for run in exact.values()):
        raise scenario.Wrong("credits are off, or an audit does not balance", figures)
    return figures
