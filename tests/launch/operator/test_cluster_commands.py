"""Guards the commands on the cluster: they say what became of the number that an operator chose."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.launch.local_run import owner_commands as operator
from actors.launch.operator import cluster_commands
from tests.launch.operator.test_cli import CLI

runner = CliRunner()


class Running:
    """A product whose shards move a little with each look. others: the number that another operator chooses after the
    command under test; 0: nobody does. silent: so many questions how far it is meet no answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: int = 2, others: int = 0, silent: int = 0) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.silent = silent
        self.wanted, self.looks, self.others = 0, looks, others

        @contextlib.contextmanager
        def joined(_instance: Any) -> Iterator[None]:
            yield

        def ask(name: str, method: str, *arguments: Any) -> Any:
            self.asked.append((name, method, *arguments))
            if method == "scale":
                (self.wanted,) = arguments
                return None
            if self.silent:
                self.silent -= 1
                raise operator.OperatorError(f"{name} did not answer: try again in a few seconds")
            self.looks -= 1
            self.wanted = self.others or self.wanted
            done = self.looks <= 0
            slices = {f"account-shard-{index}": 1024 // self.wanted for index in range(self.wanted if done else 1)}
            return {"wanted": self.wanted, "is_even": done, "slices": slices}

        monkeypatch.setattr(operator, "joined", joined)
        monkeypatch.setattr(operator, "ask_actor_here", ask)
        monkeypatch.setattr(cluster_commands, "with_instance", lambda _, ask: ask(None))
        monkeypatch.setattr(cluster_commands, "_LOOK_SECONDS", 0.0)


def test_a_number_is_changed_and_its_outcome_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(monkeypatch)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "2"])
    assert done.exit_code == 0, done.output
    assert running.asked[0] == ("account-shard-0", "scale", 2) and len(running.asked) == 3
    assert "2 owners: account-shard-0 has 512, account-shard-1 has 512" in done.output and "Next:" in done.output
    told = runner.invoke(CLI, ["cluster", "scale", "owners", "2", "--json"])
    assert json.loads(told.output)["slices"] == {"account-shard-0": 512, "account-shard-1": 512}


def test_who_does_not_wait_hears_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(monkeypatch)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "4", "--no-wait"])
    assert done.exit_code == 0 and "`cluster status` shows how far it is" in done.output
    assert len(running.asked) == 2


def test_work_that_is_not_spread_in_time_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_commands, "_WAIT_SECONDS", -1.0)
    Running(monkeypatch, looks=99)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "4"])
    assert done.exit_code == 1 and "see the logs of account-shard-0" in done.output


def test_a_director_that_starts_again_meanwhile_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is kept in the database: a command that says that it was refused would be wrong."""
    Running(monkeypatch, silent=3)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "2"])
    assert done.exit_code == 0 and "2 owners: account-shard-0 has 512" in done.output, done.output
    monkeypatch.setattr(cluster_commands, "_WAIT_SECONDS", -1.0)
    Running(monkeypatch, silent=3)
    away = runner.invoke(CLI, ["cluster", "scale", "owners", "2"])
    assert isinstance(away.exception, operator.OperatorError)


@pytest.mark.parametrize("looks", [1, 99])
def test_a_number_that_another_operator_replaces_is_no_success(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Rule: who asked for three hears that there are two, at once, and not of three that are two."""
    running = Running(monkeypatch, looks, others=2)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "3"])
    assert done.exit_code == 1 and "has set 2 owners meanwhile" in done.output and "3 owners:" not in done.output
    assert len(running.asked) == 2
    told = runner.invoke(CLI, ["cluster", "scale", "owners", "3", "--json"])
    assert told.exit_code == 1 and json.loads(told.output)["wanted"] == 2


def test_more_than_there_may_be_is_refused_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(monkeypatch)
    done = runner.invoke(CLI, ["cluster", "scale", "owners", "257"])
    assert done.exit_code == 1 and "at most 256 owners" in done.output and running.asked == []


def test_each_kind_is_directed_by_its_first_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(monkeypatch)
    assert runner.invoke(CLI, ["cluster", "scale", "dispatchers", "3"]).exit_code == 0
    assert running.asked[0] == ("webhook-dispatcher", "scale", 3)
    assert "at most 16 dispatchers" in runner.invoke(CLI, ["cluster", "scale", "dispatchers", "17"]).output


def test_the_state_of_each_actor_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {
        "account-shard-0": {"machine": "10.0.0.1", "process": 7, "epoch": 5, "shards": 1024, "committing": True},
        "account-shard-1": {"machine": "10.0.0.2", "process": 8, "epoch": 6, "shards": 0, "committing": False},
        "send-racer": {},
    }
    monkeypatch.setattr(cluster_commands, "with_instance", lambda _, ask: ask(None))
    monkeypatch.setattr(operator, "ask_all", lambda *_: states)
    shown = runner.invoke(CLI, ["cluster", "status"]).output
    assert "10.0.0.1" in shown and "1024 shards" in shown and "does not commit" in shown
    assert "send-racer: no answer" in shown
    assert json.loads(runner.invoke(CLI, ["cluster", "status", "--json"]).output) == {"actors": states}
