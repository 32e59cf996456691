"""The product's commands within `ledger-gateway`: all of them, with --json."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.launch.local_run import screen
from actors.launch.local_run.run import Parts
from actors.launch.operator.cli import make_cli
from actors.launch.operator.command_line import FIRST_LINES, command_group


def _unused(*_: Any) -> Any:
    raise AssertionError("nothing may be started by these commands")


PARTS = Parts(_unused, _unused, _unused, _unused, _unused)
runner = CliRunner(env={"COLUMNS": "80"})


@pytest.fixture(autouse=True)
def _for_people_again() -> Iterator[None]:
    yield
    screen.print_for_programs(False)  # A process has one command; these tests have several.


def _leaves(command: Any) -> Iterator[Any]:
    for each in getattr(command, "commands", {}).values():
        yield from _leaves(each)
    if not hasattr(command, "commands"):
        yield command


def test_every_command_has_a_first_line_and_json() -> None:
    """--json everywhere; the start tells programs through --ready-file."""
    group = command_group(PARTS)
    assert set(group.commands) == set(FIRST_LINES)
    for leaf in _leaves(group):
        options = {option for parameter in leaf.params for option in parameter.opts}
        assert "--json" in options or "--ready-file" in options, leaf.name


@pytest.mark.parametrize(
    "arguments",
    [
        ["accounts", "show", "1" * 32],
        ["adjust", "1" * 32, "-5", "--reason", "x"],
        ["suspend", "nonsense", "--reason", "x"],
        ["deposits", "list"],
        ["referrals", "list"],
    ],
)
def test_programs_hear_refusals_as_json(arguments: list[str], tmp_path: Path) -> None:
    """One document, exit code 1."""
    done = runner.invoke(make_cli(PARTS), [*arguments, "--data-dir", str(tmp_path), "--json"])
    assert done.exit_code == 1 and "serve_app.py" in json.loads(done.stdout)["error"]["message"]


def test_settings_are_told_to_programs_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hunter2@db.example/ledger")
    done = runner.invoke(make_cli(PARTS), ["config", "--show", "--json"])
    rows = {row["setting"]: row for row in json.loads(done.stdout)}
    assert rows["storage.postgres_url"]["value"] == "(set, hidden)" and "hunter2" not in done.stdout


def test_nothing_is_adjusted_by_nothing() -> None:
    done = runner.invoke(make_cli(PARTS), ["adjust", "1" * 32, "0", "--reason", "x"])
    assert done.exit_code == 2
