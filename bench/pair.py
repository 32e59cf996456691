"""Measures billed calls of this source tree beside those of another commit, alternating.

The other commit is a git worktree in a temporary folder, and runs in this virtual environment. Both products run at the
same time before one node with constant answers; each round loads both, in turn the one and the other first, so that a
machine that changes its speed changes both. A ratio is of two steps of one round. Two products of one commit may differ
by a few parts in a hundred, for as long as they live: more than one pair is started for a difference as small as that.
Where the machine changes its speed within seconds, --together loads both at the same moment, so that they share
whatever it gives: the ratio of CPU time is then the one to read, and calls/s are of half a machine each. Everything is
removed at the end.
"""

import statistics
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import scenario, systems
from bench.calls import Exactness, Row, counted, step
from bench.product import ROOT
from bench.scenario import console
from bench.systems import System

THIS, OTHER = "this tree", "other commit"
_BARRIER_SECONDS_MAX = 60


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


def compared(pairs: list[dict[str, list[Row]]]) -> dict[str, Any]:
    """Compare the steps of both at one number of connections, of each pair of products; equal places in the lists are
    of one round.

    ratio: this tree by the other commit, the median over the rounds of a pair, and of these over the pairs; scatter:
    half of the distance between quartiles, of the pairs where there are several, else of the rounds.
    """
    found: dict[str, Any] = {}
    for name in (THIS, OTHER):
        steps = [row for pair in pairs for row in pair[name]]
        found[f"{name}, calls/s"] = statistics.median(row.load.per_second for row in steps)
        found[f"{name}, CPU µs a call"] = statistics.median(row.cpu_us_per_call for row in steps)
        found[f"{name}, errors"] = sum(row.load.errors for row in steps)
    figures: dict[str, Callable[[Row], float]] = {
        "calls/s": lambda row: row.load.per_second,
        "CPU": lambda row: row.cpu_us_per_call,
    }
    for name, figure in figures.items():
        rounds = [
            [figure(ours) / figure(theirs) for ours, theirs in zip(pair[THIS], pair[OTHER], strict=True)]
            for pair in pairs
        ]
        medians = [statistics.median(ratios) for ratios in rounds]
        found[f"ratio of {name}"] = statistics.median(medians)
        found[f"scatter of {name}"] = scatter(medians if len(pairs) > 1 else rounds[0])
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
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of products, in turn the one and the other first.")] = 1,
    together: Annotated[
        bool, typer.Option(help="Load both at the same time, in place of one after the other.")
    ] = False,
) -> dict[str, Any]:
    """Compare billed calls of this tree, as its files are now, with another commit; a pair takes about four minutes."""
    numbers, other = scenario.counts(connections), _git(ROOT, "rev-parse", "--short", f"{with_}^{{commit}}")
    rows: dict[int, list[dict[str, list[Row]]]] = {number: [] for number in numbers}
    exact: list[Exactness] = []
    with worktree(other) as tree, systems.upstream() as node:
        for pair in range(pairs):
            with _both(node.url, tree, pair % 2 == 1) as both:
                for count in numbers:
                    rows[count].append({THIS: [], OTHER: []})
                for number in range(rounds):
                    for count in numbers:
                        for row in loaded(both if number % 2 else both[::-1], count, seconds, together):
                            rows[count][-1][row.system].append(row)
                exact += [counted(system, counted_calls) for system in both]
    found = {count: compared(rows[count]) for count in numbers}
    names = list(next(iter(found.values())))
    table = ((name, *(f"{found[count][name]:,.{3 if 'of' in name else 0}f}" for count in numbers)) for name in names)
    way = "both at once, " if together else ""
    title = f"{THIS} beside {other}, {way}medians of {pairs} x {rounds} rounds of {seconds:g} s"
    scenario.show(title, ("connections", *map(str, numbers)), table)
    for run in exact:
        audit = "balances" if run.audit_balances else "DOES NOT BALANCE"
        console.print(f"{run.system}: {run.answered:,} counted calls, credits off by {run.off_by}, the audit {audit}")
    off_by = {name: sum(abs(run.off_by) for run in exact if run.system == name) for name in (THIS, OTHER)}
    figures = {"other": other, "connections": found, "credits_off_by": off_by}
    if any(off_by.values()) or not all(run.audit_balances for run in exact):
        raise scenario.Wrong("credits are off, or an audit does not balance", figures)
    return figures


def loaded(both: list[System], connections: int, seconds: float, together: bool) -> list[Row]:
    """Load each of these systems once: one after the other, or all at once."""
    if not together:
        return [step(system, connections, seconds, 0.5) for system in both]
    ready = threading.Barrier(len(both), timeout=_BARRIER_SECONDS_MAX).wait  # A load may fail before it is ready.
    with ThreadPoolExecutor(len(both)) as threads:
        return list(threads.map(lambda system: step(system, connections, seconds, 0.5, ready), both))


@contextmanager
def _both(node_url: str, tree: Path, other_first: bool) -> Iterator[list[System]]:
    """Start this tree's product and the other one's; which is started first may matter for as long as they live."""
    roots = {THIS: ROOT, OTHER: tree}
    with ExitStack() as started:
        made = {
            name: started.enter_context(systems.gateway(node_url, root=roots[name]))
            for name in (reversed(roots) if other_first else roots)
        }
        yield [replace(made[name], name=name) for name in roots]
