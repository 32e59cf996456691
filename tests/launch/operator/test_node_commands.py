"""Guards the operator's commands on nodes: what they ask, and what a person and a program read."""

import json
from dataclasses import replace
from typing import Any

import pytest

from actors.launch.operator import node_commands
from actors.upstream.node_commands import (
    AddNode,
    ChangeNode,
    ListNodes,
    NodeList,
    NodeRefused,
    NodeRow,
    ProcessRow,
    Refused,
    RemoveNode,
)
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_money_commands import runner

_ROW = NodeRow(
    id="tokyo",
    url="https://rpc.example/...",
    ws_url=None,
    origin="settings",
    roles=("read", "send"),
    weight=3,
    settings_weight=1,
    drained=False,
    state="in_use",
    health={"well": 2, "behind": 0, "failing": 1},
    share_percent=74,
    share_wanted_percent=75,
)
_PROCESS = ProcessRow(process="gateway-1", version=4, is_current=True, age_seconds=1, limits=("a limit",))
_LIST = NodeList(version=4, nodes=(_ROW,), processes=(_PROCESS,), unused={"old": "why"}, notes=("a note",))


class Racer:
    """The actor that is asked; it answers each time with the next of these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.asked: list[Any] = []
        self._answers = [*answers]
        monkeypatch.setattr(node_commands.operator, "ask_actor_here", self.ask)
        monkeypatch.setattr(node_commands.operator, "joined", lambda _: _Joined())
        monkeypatch.setattr(node_commands, "with_instance", lambda _, ask: _told(ask))
        monkeypatch.setattr(node_commands, "_LOOK_SECONDS", 0.0)

    def ask(self, name: str, method: str, command: Any) -> Any:
        self.asked.append((name, method, command))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class _Joined:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _told(ask: Any) -> Any:
    try:
        return ask(None)
    except node_commands.operator.OperatorError as error:
        node_commands.fail(str(error))


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["list"], ListNodes()),
        (
            ["add", "n", "http://x", "--weight", "4", "--role", "read"],
            AddNode(id="n", url="http://x", weight=4, roles=("read",)),
        ),
        (
            ["add", "n", "http://x", "--ws-url", "ws://x", "--unreachable"],
            AddNode(id="n", url="http://x", ws_url="ws://x", is_unreachable_allowed=True),
        ),
        (["drain", "n"], ChangeNode(id="n", drained=True)),
        (["drain", "n", "--unreachable"], ChangeNode(id="n", drained=True, is_unreachable_allowed=True)),
        (["undrain", "n"], ChangeNode(id="n", drained=False)),
        (["weight", "n", "0"], ChangeNode(id="n", weight=0)),
        (["remove", "n"], RemoveNode(id="n")),
    ],
)
def test_each_command_asks_a_racer_and_prints_all_nodes(
    monkeypatch: pytest.MonkeyPatch, words: list[str], command: Any
) -> None:
    racer = Racer(monkeypatch, _LIST)
    done = runner.invoke(CLI, ["nodes", *words, "--json"])
    assert done.exit_code == 0, done.output
    assert racer.asked == [("send-racer-0", "ask_nodes", command)]
    told = json.loads(done.output)
    assert (told["version"], told["taken_over"], told["nodes"][0]["share_percent"]) == (4, True, 74)
    shown = runner.invoke(CLI, ["nodes", *words], env={"COLUMNS": "200"})
    for text in ("tokyo", "https://rpc.example/...", "a note", "a limit", "old has no effect: why", "Next:"):
        assert text in shown.output, shown.output


def test_a_url_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the machine see command lines."""
    racer = Racer(monkeypatch, _LIST)
    assert runner.invoke(CLI, ["nodes", "add", "n", "-"], input="http://x/KEY\nws://x/KEY\n").exit_code == 0
    assert racer.asked[0][2] == AddNode(id="n", url="http://x/KEY", ws_url="ws://x/KEY")
    for text in ("", "a\nb\nc\n"):
        assert runner.invoke(CLI, ["nodes", "add", "n", "-"], input=text).exit_code == 1


def test_a_change_waits_until_every_process_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    late = replace(_LIST, processes=(_PROCESS, replace(_PROCESS, process="gateway-2", version=3, is_current=False)))
    joining = replace(_LIST, nodes=(replace(_ROW, id="n", state="joining"),))
    racer = Racer(monkeypatch, late, joining, _LIST)
    done = runner.invoke(CLI, ["nodes", "undrain", "n"])
    assert "Taken over by 1 processes" in done.output and len(racer.asked) == 3
    Racer(monkeypatch, late)
    done = runner.invoke(CLI, ["nodes", "undrain", "n", "--no-wait"])
    assert "Not taken over yet by: gateway-2" in done.output


def test_a_refusal_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    Racer(monkeypatch, NodeRefused(Refused.LAST_NODE, "add another first"))
    done = runner.invoke(CLI, ["nodes", "drain", "n", "--json"])
    assert done.exit_code == 1 and "last_node: add another first" in json.loads(done.output)["error"]["message"]
