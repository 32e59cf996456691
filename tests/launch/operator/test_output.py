"""What operators' commands print: every one has a form for programs, and people read whole keys, times and units."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from actors.accounts.api import AccountState
from actors.accounts.credits import Batch, Source
from actors.launch.operator import cluster_commands
from actors.units import base58_text
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_ledger_key_commands import _KEYS
from tests.launch.operator.test_money_commands import Asked, runner

PUBKEY, SIGNATURE = base58_text(b"\xfe" * 32), base58_text(b"\xfe" * 64)
AT, AT_TEXT = 1_795_438_463, "2026-11-23T12:54:23Z"
BATCH = Batch(1, Source.ADJUSTMENT, 5_000, 1_234, AT, AT)
STATE = AccountState(b"\xfe" * 32, 1_234, "active", 66, AT, 100, 64, None, (BATCH,))
TRANSFER = {"signature": SIGNATURE, "transfer": 0, "place": "0", "slot": 9, "authority": PUBKEY, "usdc": "1.500000"}
TRANSFER |= {"status": "credited", "why": "", "credits": 1_500, "account": PUBKEY}
# Begins the product: its form for programs is the file that --ready-file names.
RUNS = ["run"]


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


def test_every_command_that_shows_something_has_json() -> None:
    """Rule: a program reads each command's result without parsing a table; a command of later is found here too."""
    every = dict(commands(typer.main.get_command(CLI)))
    assert len(every) > 25 and ("accounts", "show") in every, "the walk found too few"
    without = [
        " ".join(names)
        for names, command in every.items()
        if not any("--json" in option.opts for option in command.params)
    ]
    assert without == RUNS
    assert any("--ready-file" in option.opts for option in every[("run",)].params)


SHOWN = [
    (["accounts", "show", PUBKEY], STATE),
    (["accounts", "limits", PUBKEY], STATE),
    (["deposits", "list"], [TRANSFER]),
    (["deposits", "explain", SIGNATURE], {"verdict": "credited", "transfers": [TRANSFER, TRANSFER]}),
    (["ledger-key", "show"], {**_KEYS, "unproven": []}),
    (["ledger-key", "rotate"], _KEYS),
]


@pytest.mark.parametrize(("words", "answer"), SHOWN, ids=[" ".join(words[:2]) for words, _ in SHOWN])
def test_programs_get_one_document(monkeypatch: pytest.MonkeyPatch, words: list[str], answer: Any) -> None:
    """Rule: one JSON document on the standard output, and nothing beside it."""
    Asked(monkeypatch, answer)
    done = runner.invoke(CLI, [*words, "--json"])
    assert done.exit_code == 0 and isinstance(json.loads(done.stdout), dict | list), done.output


def test_a_scale_that_is_not_done_is_one_document_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code says that it is not done."""
    spread = {"is_even": False, "slices": {"accounts-0": 1024}}
    monkeypatch.setattr(cluster_commands, "with_instance", lambda _, ask: spread)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "2", "--json"])
    assert done.exit_code == 1 and json.loads(done.stdout)["slices"] == {"accounts-0": 1024}, done.output


def test_people_read_whole_keys_times_and_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: nothing is cut on a narrow screen or in a pipe; times are in UTC; amounts say their unit."""
    monkeypatch.setenv("COLUMNS", "60")
    Asked(monkeypatch, STATE)
    shown = runner.invoke(CLI, ["accounts", "show", PUBKEY], env={"COLUMNS": "60"}).output
    for text in (PUBKEY, "1,234 credits", "66 credits", "64 calls", "1,234 of 5,000 credits", AT_TEXT):
        assert text in shown, (text, shown)
    assert str(AT) not in shown
    Asked(monkeypatch, [TRANSFER])
    shown = runner.invoke(CLI, ["deposits", "list", "--status", "all"], env={"COLUMNS": "60"}).output
    assert SIGNATURE in shown and f"from {PUBKEY}" in shown and "1.500000 USDC" in shown
    assert f"1,500 credits of {PUBKEY}" in shown
    Asked(monkeypatch, {**_KEYS, "unproven": []})
    shown = runner.invoke(CLI, ["ledger-key", "show"], env={"COLUMNS": "60"}).output
    assert "ab" * 32 in shown.replace("\n", "").replace(" ", "") and "made 2026-11-25T" in shown
