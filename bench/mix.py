"""Measures a day's mix of calls: the product beside the node asked directly and beside a hand-written gateway.

The calls, their shares and the checks of their answers are in mix_questions.py. All systems run at the same time before
one node and are asked in turn, at several numbers of connections and at a fixed rate; once with a node that has its
answers ready (mix_node.py), once with an embedded chain. The product's cache is off, so that all systems ask the node
the same. An answer that is not the call's own, or a credit too much or too few, ends the run with 1.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import typer

from actors.gateway.calls.admission import PLANS
from bench import scenario, systems
from bench.baseline import PRICES
from bench.blocks import SIZES, filled
from bench.links import copied_bytes, copied_since
from bench.mix_load import Mix, MixLoad, Seen, Step
from bench.mix_questions import WRONG
from bench.processes import cpu_seconds, cpu_spent, tree
from bench.scenario import Wrong, console
from bench.systems import GATEWAY, System

READY, CHAIN = "ready", "devnode"
DIRECT = "direct"
_NO_CACHE = {"LEDGER_UPSTREAM__CACHE_BYTES_MAX": "0"}
_CONNECTIONS_OF_RATE = 256


@dataclass(frozen=True, slots=True)
class Row:
    """One step. off_by: credits debited beyond the prices of the answers; None: the system has no accounts."""

    node: str
    system: str
    connections: int
    rate: float | None
    seen: Seen
    cpu_us_per_call: float
    copied_kb_per_call: float
    off_by: int | None

    def cells(self) -> tuple[object, ...]:
        seen, calls = self.seen, max(1, self.seen.calls)
        load = f"{self.connections}" if self.rate is None else f"{self.rate:g}/s"
        times = (seen.p50_ms, seen.p99_ms, seen.p999_ms, f"{self.cpu_us_per_call:,.0f}")
        sizes = (f"{seen.bytes / calls / 1e3:,.0f}", f"{self.copied_kb_per_call:,.0f}")
        faults = sum(seen.faults.values())
        return (
            f"{self.node}, {self.system}",
            load,
            f"{calls / seen.seconds:,.0f}",
            *times,
            *sizes,
            faults,
            self.off_by,
        )


HEADINGS = (
    *("node, system", "conns or rate", "calls/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs a call"),
    *("kB an answer", "kB copied a call", "errors", "credits off by"),
)


def credits_of(answered: dict[str, int], prices: str) -> int:
    """Return the price of these answers. prices: of the system that gave them."""
    total = 0
    for name, count in answered.items():
        method, _, hit = name.partition(" ")
        plan = PLANS[method]
        price = plan.ceiling if prices == GATEWAY else PRICES[method]
        total += count * (plan.cached_ceiling if hit and plan.cached_ceiling else price)
    return total


def measured(load: MixLoad, node: str, system: System, connections: int, seconds: float, rate: float | None) -> Row:
    """Run one step on one system, and measure it from outside."""
    load.leave()
    before = systems.settled_balance(system)
    pids = {process.pid for root in system.pids() for process in tree(root)}
    cpu_before, copied_before = cpu_seconds(system.pids()), copied_bytes(pids)
    seen = load.step(Step(system.url, system.api_key, connections, seconds, rate))
    spent = sum(cpu_spent(cpu_before, cpu_seconds(system.pids()), {}).values())
    copied = copied_since(copied_before, copied_bytes(pids))
    after = systems.settled_balance(system)
    off_by = None if before is None or after is None else before - after - credits_of(seen.answered, system.name)
    calls = max(1, seen.calls)
    row = Row(node, system.name, connections, rate, seen, spent * 1e6 / calls, copied / calls / 1e3, off_by)
    console.print(f"  {' | '.join(map(str, row.cells()))} {seen.faults or ''}", markup=False)
    return row


@contextmanager
def _beside(node: System, baseline_workers: int, cache: bool) -> Iterator[list[System]]:
    with (
        systems.baseline(node.url, baseline_workers) as baseline,
        systems.gateway(node.url, {} if cache else _NO_CACHE) as gateway,
    ):
        yield [System(DIRECT, node.url, "", node.pids), baseline, gateway]


def steps(
    load: MixLoad, name: str, each: Sequence[System], numbers: Sequence[int], rate: float, seconds: float, rounds: int
) -> list[Row]:
    for system in each:  # Opens connections, and lets the node make its answers.
        load.step(Step(system.url, system.api_key, 8, seconds))
    loads: list[tuple[int, float | None]] = [(number, None) for number in numbers]
    if rate:
        loads.append((_CONNECTIONS_OF_RATE, rate))
    rows = []
    for turn in range(rounds):
        for connections, at_rate in loads:
            for system in each if turn % 2 == 0 else reversed(each):
                rows.append(measured(load, name, system, connections, seconds, at_rate))
    return rows


def main(
    only: Annotated[str, typer.Option(help=f"Some of {READY}, {CHAIN}.")] = f"{READY},{CHAIN}",
    connections: Annotated[str, typer.Option(help="Connection counts, one step each.")] = "1,8,64,256",
    rate: Annotated[float, typer.Option(min=0, help="Calls a second of the step at a fixed rate; 0: none.")] = 100.0,
    chain_rate: Annotated[float, typer.Option(min=0, help="The same before the embedded chain.")] = 20.0,
    seconds: scenario.Seconds = 8.0,
    rounds: scenario.Rounds = 1,
    questions: Annotated[int, typer.Option(min=100, help="Different questions before they come again.")] = 2_100,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="The product's cache, as it is by default.")
    ] = False,
    baseline_workers: Annotated[int, typer.Option(min=1, help="Worker processes of the hand-written gateway.")] = 2,
) -> dict[str, Any]:
    """Measure a day's mix of calls on this machine; takes about six minutes."""
    wanted, numbers, rows, audits = scenario.chosen(only, (READY, CHAIN)), scenario.counts(connections), list[Row](), []
    if READY in wanted:
        with (
            MixLoad(Mix(questions)) as load,
            systems.upstream("bench.mix_node") as node,
            _beside(node, baseline_workers, cache) as each,
        ):
            rows += steps(load, READY, each, numbers, rate, seconds, rounds)
            audits.append(_audit(each[-1]))
    if CHAIN in wanted:
        with ExitStack() as stack:
            chain, slots = stack.enter_context(filled(*SIZES))
            mix = Mix(questions, chain.url, [slots[size] for size in SIZES])
            load = stack.enter_context(MixLoad(mix))
            node = System(CHAIN, chain.url, "", lambda: (chain.pid,))
            each = stack.enter_context(_beside(node, baseline_workers, cache))
            rows += steps(load, CHAIN, each, numbers, chain_rate, seconds, rounds)
            audits.append(_audit(each[-1]))
    scenario.show("A day's mix, answers of 100 bytes to 10 MB", HEADINGS, (row.cells() for row in rows))
    figures = {"rows": [asdict(row) | {"seen": msgspec.to_builtins(row.seen)} for row in rows]}
    wrong = [f"{row.node}, {row.system}: {fault}" for row in rows for fault in faults_of(row)]
    if wrong or not all(audits):
        raise Wrong("; ".join(wrong) or "an audit does not balance", figures)
    return figures


def faults_of(row: Row) -> list[str]:
    """Return wrong results, not slow ones: answers that are not the calls' own, and wrong charges."""
    found = [f"{count} x {fault}" for fault, count in row.seen.faults.items() if fault.endswith(WRONG)]
    return found + ([f"credits off by {row.off_by}"] if row.off_by else [])


def _audit(gateway: System) -> bool:
    assert gateway.product is not None
    done = gateway.product.audit()
    if done.returncode != 0:
        console.print(done.stdout + done.stderr, markup=False)
    return done.returncode == 0


if __name__ == "__main__":
    scenario.run("mix", main, sys.argv[1:])
