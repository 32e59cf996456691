"""The command line and the steps of the measurement, on a run as short as it can be."""

import io
import time
from pathlib import Path

import orjson
import pytest
import typer
from rich.console import Console

from bench import devnode
from bench.devnode import Bench, LoadFailed, Plan, Slots, _steps, client, seen_by
from bench.devnode_figures import BASELINE, DEVNODE, MEMORY, SENDS, Figures, Load, jitter_of


def test_steps_are_checked_before_anything_starts() -> None:
    """A mistyped name is told at once."""
    assert _steps("sends, tpu") == ("sends", "tpu")
    for mistake in ("send", "", "reads,x"):
        with pytest.raises(typer.BadParameter):
            _steps(mistake)


def test_a_client_that_fails_is_heard() -> None:
    """Its own words, not a missing figure."""
    with client("reads", "http://127.0.0.1:9") as process, pytest.raises(LoadFailed, match="client ended with 1"):
        seen_by(process)


def test_a_short_run_measures_and_tells_everything(tmp_path: Path) -> None:
    """Rates beside the baseline, memory and disk; as tables and as one file."""
    shown_on = io.StringIO()
    console = Console(width=160, file=shown_on)
    plan = Plan((SENDS, MEMORY), 0.5, 8, 2.0, 1_000)
    bench = Bench(plan, console)
    bench.run()
    figures = bench.figures
    assert [(row.system, row.load.kind) for row in figures.rows] == [
        (BASELINE, SENDS),
        (DEVNODE, SENDS),
    ]
    assert all(row.load.answered and not row.load.errors and row.cpu_seconds for row in figures.rows)
    assert figures.rows[-1].load.landed == figures.rows[-1].load.answered
    assert figures.memory is not None and figures.memory.load.landed == 1_000 and figures.memory.disk_bytes > 0
    devnode.show(console, figures)
    devnode.write(tmp_path / "results" / "devnode.json", plan, figures, 3.0)
    for shown in ("sendTransaction", "baseline", "memory over 1,000", "Targets"):
        assert shown in shown_on.getvalue(), shown
    found = orjson.loads((tmp_path / "results" / "devnode.json").read_bytes())
    assert len(found["rows"]) == 2 and found["settings"]["busy_percent_before"] == 3.0
    assert {target["target"] for target in found["targets"]} and found["machine"]["cores"]


def test_slots_are_heard_as_the_node_opens_them() -> None:
    """In its own milliseconds, each once; nothing is listened to after the block."""
    with devnode.devnode("--slot-ms", "20") as node, Slots(node.ws_url) as slots:
        while len(slots.opened_ms) < 10:
            time.sleep(0.01)
    assert slots.opened_ms == sorted(slots.opened_ms)
    found = jitter_of(Load(SENDS, 1, 1.0, 1, 0, 1.0, 1.0), slots.opened_ms, 20)
    shown_on = io.StringIO()
    devnode.show(Console(width=160, file=shown_on), Figures(jitter=found))
    assert f"{found.slots} slots of" in shown_on.getvalue()


def test_what_is_skipped_says_why() -> None:
    shown_on = io.StringIO()
    devnode.show(Console(width=160, file=shown_on), Figures(skipped=("tpu: this node has no TPU door",)))
    assert "skipped" in shown_on.getvalue() and "no TPU door" in shown_on.getvalue()
