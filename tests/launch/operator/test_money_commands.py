"""Guards the operator's commands on deposits and referral codes: what they refuse, and what they print."""

import contextlib
import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.accounts.api import CreateReferral, ReferralState
from actors.accounts.referrals import Referral
from actors.deposits.api import AssignTransfer
from actors.launch.local_run import owner_commands as operator
from actors.launch.operator import money_commands
from tests.launch.operator.test_cli import CLI

runner = CliRunner(env={"COLUMNS": "240"})


class Asked:
    """In place of the running instance: keeps what it is asked and gives one answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
        self.calls: list[Any] = []

        async def ask_watcher(watchers: Any, method: str, *arguments: Any, wait_seconds: float) -> Any:
            self.calls.append(([watcher._name for watcher in watchers], method, *arguments))
            return answer

        def ask_owner(_instance: Any, command: Any) -> Any:
            self.calls.append(command)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(money_commands, "ask_watcher", ask_watcher)
        monkeypatch.setattr(operator, "joined", lambda _: contextlib.nullcontext())
        monkeypatch.setattr(operator, "find_instance", lambda _: None)
        monkeypatch.setattr(money_commands, "load_or_make", lambda _: SimpleNamespace(ray_token=""))
        monkeypatch.setattr(money_commands, "token_environment", lambda _: {})
        monkeypatch.setattr(operator, "ask_owner", ask_owner)


@pytest.mark.parametrize(("text", "bps"), [("10", 1_000), ("2.5", 250), ("0.01", 1), ("100", 10_000)])
def test_a_percentage_is_kept_in_whole_hundredths(monkeypatch: pytest.MonkeyPatch, text: str, bps: int) -> None:
    """Money rule 7: integers only, from the command line on."""
    asked = Asked(monkeypatch, ReferralState(Referral("A", bps, 0, None, ""), 0))
    assert runner.invoke(CLI, ["referrals", "create", "A", "--percent", text]).exit_code == 0
    assert asked.calls == [CreateReferral("A", bps, None, "")]


@pytest.mark.parametrize("text", ["ten", "0.001", "nan", "inf", "", "0", "-1", "100.01", "1e9"])
def test_what_is_no_percentage_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Rule: the refusal speaks of the option, in its own unit."""
    asked = Asked(monkeypatch, None)
    done = runner.invoke(CLI, ["referrals", "create", "A", f"--percent={text}"])
    assert done.exit_code == 1 and f"--percent: {text!r}, wanted 0.01 to 100" in done.output
    assert asked.calls == []


def test_people_read_dates_and_programs_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, [ReferralState(Referral("A", 500, 1_795_438_463, None, ""), 2)])
    output = runner.invoke(CLI, ["referrals", "list"]).output
    assert "2026-11-23T12:54:23Z" in output and "never" in output and "1795438463" not in output
    (row,) = json.loads(runner.invoke(CLI, ["referrals", "list", "--json"]).output)
    assert (row["created_at"], row["expires_at"]) == (1_795_438_463, None)
    Asked(monkeypatch, {"listed": 1, "slots_never_seen": ["5 to 9"], "caught_up_at": 1_795_438_463})
    output = runner.invoke(CLI, ["deposits", "status"]).output
    assert "2026-11-23T12:54:23Z" in output and "slots_never_seen  5 to 9" in output


def test_an_assignment_needs_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: an adjustment is explained; the customer sees it."""
    asked = Asked(monkeypatch, {"credits": 1_000, "account": "P"})
    assert runner.invoke(CLI, ["deposits", "assign", "S", "P"]).exit_code == 2
    assert asked.calls == []
    done = runner.invoke(CLI, ["deposits", "assign", "S", "P", "--reason", "proved it"])
    assert done.exit_code == 0 and "1,000 credits" in done.output
    assert asked.calls == [
        (["deposit-watcher", "deposit-watcher-1"], "ask", AssignTransfer("S", None, "P", "proved it"))
    ]


def test_refusals_are_told_and_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, "2 transfers of it are listed")
    done = runner.invoke(CLI, ["deposits", "assign", "S", "P", "--reason", "why"])
    assert done.exit_code == 1 and "2 transfers" in done.output
    Asked(monkeypatch, operator.OperatorError("INVALID_REQUEST: there is a code of this name already"))
    done = runner.invoke(CLI, ["referrals", "create", "A", "--percent", "5"])
    assert done.exit_code == 1 and "already" in done.output


def test_what_waits_for_the_operator_is_shown_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "signature": "S",
        "transfer": 0,
        "place": "0",
        "slot": 7,
        "authority": "A",
        "status": "listed",
        "usdc": "0.000009",
        "why": "below the minimum",
        "account": None,
    }
    Asked(monkeypatch, [row])
    done = runner.invoke(CLI, ["deposits", "list"])
    assert done.exit_code == 0 and "0.000009" in done.output and "deposits assign" in done.output
    Asked(monkeypatch, {"verdict": "credited", "transfers": [row]})
    done = runner.invoke(CLI, ["deposits", "explain", "S"])
    assert done.exit_code == 0 and "credited" in done.output and "below the minimum" in done.output


def test_on_a_machine_of_a_cluster_commands_join_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster has no data folder: RAY_ADDRESS is enough, and a named folder goes before it."""
    asked: list[operator.Instance] = []
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setenv("LEDGER_ACCOUNTS__SHARD_ACTORS", "3")
    monkeypatch.setattr(operator, "ask_owner", lambda instance, _: asked.append(instance) or [])
    assert runner.invoke(CLI, ["referrals", "list"]).exit_code == 0
    assert asked == [operator.Instance("auto")]
    assert runner.invoke(CLI, ["referrals", "list", "--data-dir", "/nowhere"]).exit_code == 1
