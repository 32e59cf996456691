"""The commands of the operators' page: its token, and the alerts that are on."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.errors import Err, Refusal
from actors.launch.local_run.wallets import load_or_make
from actors.launch.operator import operator_commands
from actors.operators.ports import ProductLook
from tests.launch.operator.test_cli import CLI

runner = CliRunner(env={"COLUMNS": "200"})


def test_the_token_of_a_run_is_printed_alone_and_stays_the_same(tmp_path: Path) -> None:
    """A run that another one made before has one too, as it follows from its secrets."""
    (tmp_path / "secrets").mkdir()
    token = load_or_make(tmp_path / "secrets").operator_token
    asked = ["operator", "token", "--data-dir", str(tmp_path)]
    assert json.loads(runner.invoke(CLI, [*asked, "--json"]).output) == {"token": token}
    assert token in runner.invoke(CLI, asked).output and len(token) > 64


def test_no_token_is_made_where_no_product_ran(tmp_path: Path) -> None:
    done = runner.invoke(CLI, ["operator", "token", "--data-dir", str(tmp_path)])
    assert done.exit_code == 1 and "serve_app.py" in done.output and not list(tmp_path.iterdir())


def test_a_new_token_is_another_one_each_time_and_names_its_setting() -> None:
    first, second = (runner.invoke(CLI, ["operator", "token", "--new"]) for _ in range(2))
    assert first.output != second.output and "LEDGER_OPERATOR__TOKEN" in first.output + (first.stderr or "")


def test_a_token_of_the_settings_is_not_printed(tmp_path: Path) -> None:
    env = {"LEDGER_OPERATOR__TOKEN": "s" * 40}
    done = runner.invoke(CLI, ["operator", "token", "--data-dir", str(tmp_path)], env=env)
    assert done.exit_code == 1 and "LEDGER_OPERATOR__TOKEN" in done.output and "s" * 40 not in done.output


@pytest.mark.parametrize("totals", [{"listed": 2}, Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE)])
def test_alerts_are_printed_with_what_to_do(monkeypatch: pytest.MonkeyPatch, totals: Any) -> None:
    """A watcher that is placed and does not answer is one of them."""
    look = ProductLook(7, {"deposit-watcher": {}, "account-shard-0": {"epoch": 1}}, [])

    async def looked(has_figures: bool) -> Any:
        return look, totals

    class Joined:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(operator_commands, "with_instance", lambda _, ask: ask(None))
    monkeypatch.setattr(operator_commands.operator, "joined", lambda _: Joined())
    monkeypatch.setattr(operator_commands, "_looked", looked)
    output = runner.invoke(CLI, ["alerts"]).output
    assert "ActorAway" in output and "Do: " in output and ("DepositsNeedYou" in output) is isinstance(totals, dict)
    told = json.loads(runner.invoke(CLI, ["alerts", "--json"]).output)
    assert {"DepositWatcherAway", "NoReplica", "ActorAway"} <= {alert["name"] for alert in told["alerts"]}
