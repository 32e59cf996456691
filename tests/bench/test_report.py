"""The tables and the file."""

import io
from pathlib import Path

import orjson
from rich.console import Console

from bench import report
from bench.figures import BASELINE, GATEWAY, Exactness, Load, Row, verdicts

_ROWS = [
    Row(BASELINE, Load("wrk", 64, 2.0, 1_000, 0, 90.0, 400.0), {"other": 2.0}, 150_000_000, 1_064),
    Row(GATEWAY, Load("wrk", 64, 2.0, 6_000, 1, 20.0, 40.0), {"account-shard": 3.0}, 900_000_000, 6_010),
]
_EXACT = [Exactness(GATEWAY, 100, 0, 100, True)]
_IDLE = {"launcher": 200_000_000, "raylet": 50_000_000}


def test_every_table_shows_its_figures() -> None:
    """Calls a second, credits that wrk did not count, the ratio, the sum of idle memory, and NO for a missed target."""
    shown_on = io.StringIO()
    console = Console(width=160, file=shown_on)
    report.show_rows(console, _ROWS)
    report.show_cpu(console, _ROWS)
    report.show_comparisons(console, _ROWS)
    report.show_exactness(console, _EXACT)
    report.show_idle(console, _IDLE)
    report.show_targets(console, verdicts(_ROWS, _EXACT, _IDLE))
    text = shown_on.getvalue()
    for shown in ("3,000", "64", "6.0", "250", "0.500", "launcher", "account-shard", "500", "yes"):
        assert shown in text, shown


def test_the_file_holds_all_that_was_measured(tmp_path: Path) -> None:
    """For machines: rows with their rates, exactness, idle memory, targets and what they were taken on."""
    path = tmp_path / "results" / "calls.json"
    report.write(path, _ROWS, _EXACT, _IDLE, {"seconds": 2.0})
    found = orjson.loads(path.read_bytes())
    assert [row["per_second"] for row in found["rows"]] == [500.0, 3000.0]
    assert found["exactness"][0]["off_by"] == 0
    assert found["idle_bytes"] == _IDLE
    assert len(found["targets"]) == 7
    assert found["machine"]["cores"] >= 1
    assert found["settings"] == {"seconds": 2.0}
