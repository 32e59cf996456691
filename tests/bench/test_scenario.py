"""The runner: names, options, the results file, and the exit code."""

from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner

from bench import scenario
from bench.__main__ import SCENARIOS, main

ROOT = Path(__file__).parents[2]


def run(measure: Any, *arguments: str) -> Any:
    app = typer.Typer()
    app.command()(scenario.recorded("some", measure))
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_its_function_and_its_row_on_the_page(name: str) -> None:
    module, function, _ = SCENARIOS[name]
    measure = getattr(import_module(f"bench.{module}"), function)
    shown = run(measure, "--help")
    assert shown.exit_code == 0 and "--results" in shown.output, shown.output
    page = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page, f"bench/README.md has no row of {name}"


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="no scenario 'cals'"):
        main(["cals"])
    main(["--list"])
    assert "calls" in capsys.readouterr().out


def test_figures_are_written_with_options_and_machine(tmp_path: Path) -> None:
    def measure(rounds: scenario.Rounds = 2) -> dict[str, int]:
        return {"value": rounds * 3}

    path = tmp_path / "folder" / "some.json"
    assert run(measure, "--rounds", "5", "--results", str(path)).exit_code == 0
    found = orjson.loads(path.read_bytes())
    assert (found["figures"], found["options"]) == ({"value": 15}, {"rounds": 5})
    assert found["machine"]["cores"] >= 1 and found["machine"]["additions_ms"] > 0 and found["machine"]["date"]


def test_wrong_figures_are_written_and_a_broken_run_has_none(tmp_path: Path) -> None:
    """Both end with 1: a script can tell them from a good run."""

    def wrong() -> None:
        raise scenario.Wrong("a credit is missing", {"credits": 1})

    def broken() -> None:
        raise ChildProcessError("the node did not start")

    path = tmp_path / "some.json"
    ended = run(broken, "--results", str(path))
    assert (ended.exit_code, path.exists()) == (1, False)
    ended = run(wrong, "--results", str(path))
    assert (ended.exit_code, orjson.loads(path.read_bytes())["figures"]) == (1, {"credits": 1})


def test_lists_are_checked_before_anything_starts() -> None:
    """A mistyped name is refused at once, not after two minutes."""
    names = ("gateway", "baseline")
    assert scenario.chosen("gateway, baseline", names) == names
    assert scenario.counts("64,1,8,8") == (1, 8, 64)
    for mistake in ("gatway", "", "gateway,x"):
        with pytest.raises(typer.BadParameter):
            scenario.chosen(mistake, names)
    for mistake in ("a", "", "0,1", "1;2"):
        with pytest.raises(typer.BadParameter):
            scenario.counts(mistake)
