"""Guards how the reports of all processes become one row for each node."""

from typing import Any

from actors.provider_config import NodeConfig
from actors.upstream.node_commands import NodeRow, row_of
from actors.upstream.node_reports import NodeStage, ProcessReport, SeenNode, process_rows, with_figures


def row(name: str, weight: int = 1, **more: Any) -> NodeRow:
    config = NodeConfig(name=name, url="http://x", weight=weight)
    return row_of(config, **{"origin": "settings", "settings_weight": 1, "drained": False, "removed": False, **more})


def seen(name: str, calls: int, stage: NodeStage = NodeStage.IN_USE, health: str = "well", **more: Any) -> SeenNode:
    return SeenNode(id=name, stage=stage, health=health, calls=calls, **more)


def test_shares_are_of_all_processes_and_wanted_ones_by_weight():
    reports = [
        ProcessReport("a", 3, (seen("one", 30, in_flight=2, slot=9), seen("two", 10, lag_slots=4))),
        ProcessReport("b", 2, (seen("one", 45, in_flight=1, slot=11), seen("two", 15, health="failing"))),
    ]
    one, two = with_figures([row("one", 3), row("two")], reports)
    assert (one.share_percent, one.share_wanted_percent, one.in_flight, one.slot) == (75, 75, 3, 11)
    assert (two.share_percent, two.share_wanted_percent, two.lag_slots) == (25, 25, 4)
    assert two.health == {"well": 1, "behind": 0, "failing": 1}
    rows = process_rows(reports, 3)
    assert [(each.process, each.is_current) for each in rows] == [("a", True), ("b", False)]


def test_the_furthest_from_serving_is_told():
    """An operator waits for the last process."""
    reports = [ProcessReport("a", 1, (seen("one", 0),)), ProcessReport("b", 1, (seen("one", 0, NodeStage.JOINING),))]
    (one,) = with_figures([row("one")], reports)
    assert (one.state, one.share_percent, one.share_wanted_percent) == ("joining", None, 0)


def test_drained_and_removed_nodes_have_no_share():
    rows = [row("one"), row("two", 9, drained=True), row("three", 9, drained=True, removed=True)]
    assert [each.share_wanted_percent for each in with_figures(rows, [])] == [100, 0, 0]
