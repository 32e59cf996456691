"""Guards what an operator's changes mean on top of the settings, and which are refused."""

from dataclasses import replace
from typing import Any

import pytest

from actors.provider_config import NodeConfig
from actors.upstream.node_changes import Forget, Need, NodeChange, decide, wanted_nodes
from actors.upstream.node_commands import AddNode, ChangeNode, NodeRefused, Refused, RemoveNode


def node(name: str, **more: Any) -> NodeConfig:
    return NodeConfig(name=name, **{"url": f"http://{name}:8899", **more})


def added(name: str, **more: Any) -> NodeChange:
    return NodeChange(id=name, added=node(name), network="G", **more)


ONE, TWO = node("one", weight=2), node("two")
BASE = [ONE, TWO]


def shown(base: list[NodeConfig], *changes: NodeChange) -> list[tuple[str, int, bool]]:
    return [(one.id, one.config.weight, one.is_drained) for one in wanted_nodes(base, changes).nodes]


def refused(command: Any, *changes: NodeChange, base: list[NodeConfig] = BASE) -> Refused:
    found = decide(command, base, changes, "G")
    assert isinstance(found, NodeRefused), found
    assert found.detail and "http" not in found.detail  # A sentence, which repeats no URL.
    return found.reason


def test_the_settings_are_the_base_and_changes_stand_on_top():
    changes = [added("nine", weight=7), NodeChange(id="one", weight=5), NodeChange(id="two", is_drained=True)]
    assert shown(BASE, *changes) == [("one", 5, False), ("two", 1, True), ("nine", 7, False)]
    assert shown(BASE, NodeChange(id="two", is_removed=True, is_drained=True)) == [("one", 2, False)]


def test_a_change_follows_the_id_whatever_the_settings_make_of_its_url():
    """A provider's key that is changed in the settings does not bring a drained node back."""
    moved = [ONE, node("two", url="https://elsewhere/NEWKEY")]
    assert shown(moved, NodeChange(id="two", is_drained=True)) == [("one", 2, False), ("two", 1, True)]


def test_the_settings_win_where_they_have_an_added_node_by_now():
    wanted = wanted_nodes([*BASE, node("nine", weight=3)], [added("nine", weight=7, is_drained=True)])
    assert [(one.id, one.config.weight, one.is_drained) for one in wanted.nodes][-1] == ("nine", 3, False)
    assert list(wanted.unused) == ["nine"]
    # A new change takes the place of the one that has no effect.
    new = decide(ChangeNode(id="nine", weight=9), [*BASE, node("nine")], [added("nine")], "G")
    assert new == NodeChange(id="nine", weight=9)


def test_a_change_without_its_node_is_kept_and_can_be_forgotten():
    change = NodeChange(id="gone", is_drained=True)
    assert list(wanted_nodes(BASE, [change]).unused) == ["gone"]
    assert decide(RemoveNode(id="gone"), BASE, [change], "") == Forget("gone")
    unreadable = NodeChange(id="nine", is_readable=False)
    assert list(wanted_nodes(BASE, [unreadable]).unused) == ["nine"]
    assert decide(RemoveNode(id="nine"), BASE, [unreadable], "") == Forget("nine")


def test_changes_that_would_leave_no_node_do_not_hold_for_the_settings():
    """After the settings lost the node that took over: a service without nodes helps nobody."""
    wanted = wanted_nodes([ONE], [NodeChange(id="one", is_drained=True), NodeChange(id="two", weight=4)])
    assert [(one.id, one.is_drained) for one in wanted.nodes] == [("one", False)]
    assert wanted.lacking is Need.READ and "two" in wanted.unused


@pytest.mark.parametrize("command", [ChangeNode(id="one", drained=True), ChangeNode(id="one", weight=0)])
def test_the_last_node_can_neither_be_drained_nor_become_a_spare(command: ChangeNode):
    assert refused(command, base=[ONE]) is Refused.LAST_NODE
    assert refused(command, NodeChange(id="two", is_drained=True)) is Refused.LAST_NODE
    assert isinstance(decide(command, BASE, [], ""), NodeChange)


def test_the_last_node_of_a_role_or_of_the_streams_stays():
    reader = node("reader", roles=("read",))
    assert refused(ChangeNode(id="one", drained=True), base=[ONE, reader]) is Refused.LAST_NODE
    streaming = node("streaming", ws_url="ws://streaming:8900")
    assert refused(ChangeNode(id="streaming", drained=True), base=[streaming, TWO]) is Refused.LAST_NODE
    # Streams that the settings do not offer need not stay.
    change = NodeChange(id="nine", added=node("nine", ws_url="ws://nine"), network="G")
    assert isinstance(decide(ChangeNode(id="nine", drained=True), BASE, [change], ""), NodeChange)


def test_a_node_is_removed_once_it_is_drained():
    assert refused(RemoveNode(id="two")) is Refused.NOT_DRAINED
    assert refused(RemoveNode(id="one"), base=[ONE]) is Refused.LAST_NODE
    drained = NodeChange(id="two", is_drained=True)
    removed = decide(RemoveNode(id="two"), BASE, [drained], "")
    assert removed == replace(drained, is_removed=True)
    assert decide(RemoveNode(id="nine"), BASE, [added("nine", is_drained=True)], "") == Forget("nine")


def test_a_removed_node_of_the_settings_comes_back_by_undrain():
    removed = NodeChange(id="two", is_drained=True, is_removed=True)
    assert decide(ChangeNode(id="two", drained=False), BASE, [removed], "") == Forget("two")
    assert refused(ChangeNode(id="two", weight=4), removed) is Refused.REMOVED
    assert refused(ChangeNode(id="two", drained=True), removed) is Refused.REMOVED
    assert refused(AddNode(id="two", url="http://x"), removed) is Refused.DUPLICATE


def test_a_change_back_to_the_settings_is_forgotten():
    assert decide(ChangeNode(id="one", weight=2), BASE, [NodeChange(id="one", weight=5)], "") == Forget("one")


@pytest.mark.parametrize("url", ["http://two:8899", "http://TWO:8899/", "http://nine:8899"])
def test_one_node_is_not_added_twice(url: str):
    """By another spelling of its URL neither."""
    assert refused(AddNode(id="ten", url=url), added("nine")) is Refused.DUPLICATE


@pytest.mark.parametrize("name", ["one", "nine", "gone"])
def test_an_id_is_of_one_node(name: str):
    changes = added("nine"), NodeChange(id="gone", weight=3)
    assert refused(AddNode(id=name, url="http://new"), *changes) is Refused.DUPLICATE


def test_another_key_is_another_node():
    """Two keys of one provider have limits of their own."""
    base = [node("one", url="https://rpc.example/?key=A")]
    found = decide(AddNode(id="ten", url="https://rpc.example/?key=B", weight=3), base, [], "G")
    assert isinstance(found, NodeChange) and found.network == "G"
    assert shown(base, found)[-1] == ("ten", 3, False)


def test_nodes_have_a_limit_and_unknown_ones_are_refused():
    many = [added(f"n{number}") for number in range(62)]
    assert refused(AddNode(id="ten", url="http://new"), *many) is Refused.TOO_MANY
    assert refused(ChangeNode(id="ten", weight=3)) is Refused.UNKNOWN
    assert refused(RemoveNode(id="ten")) is Refused.UNKNOWN
