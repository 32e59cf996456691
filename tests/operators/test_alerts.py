"""Which alerts are on: told from figures, from silent actors and from transfers that wait."""

from typing import Any

import pytest

from actors.operators.alerts import RULES, alerts_on
from actors.operators.ports import ProductLook
from actors.operators.rules import RuleKind
from actors.telemetry.figures import ProcessFigures

REPLICA = {"health_status": 0.0, "ledger_committing": 1.0, "redis_reachable": 1.0, "nodes_away": 0.0}
WELL = {
    "gateway-1": REPLICA,
    "account-shard-0": {"entries_waiting": 3.0, "unsealed_seconds": 2.0, "oldest_hold_seconds": 30.0},
    "deposit-watcher": {"deposits_behind_seconds": 4.0, "deposits_waiting": 1.0},
}


def look(changed: dict[str, dict[str, float]] | None = None, **more: Any) -> ProductLook:
    gauges = {name: figures | (changed or {}).get(name, {}) for name, figures in WELL.items()}
    figures = [
        ProcessFigures("10.0.0.1", name, 5.0, each, more.get("grown", {}), more.get("least", {}))
        for name, each in gauges.items()
    ]
    return ProductLook(7, more.get("actors", {"account-shard-0": {"epoch": 1}}), figures)


def names(seen: ProductLook, listed: int | None = 0, has_watcher: bool = True) -> list[str]:
    return [alert.name for alert in alerts_on(seen, listed, has_watcher)]


def test_nothing_is_on_while_all_is_well() -> None:
    """Also with a transfer that came this moment, and a hold of a call under way."""
    assert names(look()) == []


@pytest.mark.parametrize(
    ("process", "figure", "value", "name"),
    [
        ("gateway-1", "ledger_committing", 0, "LedgerNotCommitting"),
        ("gateway-1", "health_status", 1, "HealthDegraded"),
        ("gateway-1", "health_status", 2, "HealthStarting"),
        ("gateway-1", "nodes_away", 2, "NodesAway"),
        ("gateway-1", "redis_reachable", 0, "RedisAway"),
        ("account-shard-0", "unsealed_seconds", 601, "StatementsBehind"),
        ("account-shard-0", "unproven_ledger_keys", 1, "ForeignStatements"),
        ("account-shard-0", "oldest_hold_seconds", 661, "HoldsStay"),
        ("account-shard-0", "entries_waiting", 1_001, "EntriesWait"),
        ("account-shard-0", "machine_memory_available_ratio", 0.04, "MemoryShort"),
        ("deposit-watcher", "deposits_behind_seconds", 301, "DepositsBehind"),
    ],
)
def test_a_figure_beyond_its_number_is_an_alert_with_a_remedy(
    process: str, figure: str, value: float, name: str
) -> None:
    (alert,) = alerts_on(look({process: {figure: value}}), 0, True)
    assert alert.name == name and alert.means and alert.remedy and "{" not in alert.summary
    assert (alert.process, alert.machine) == (process, "10.0.0.1")


def test_silent_actors_waiting_transfers_and_growing_counters_are_alerts() -> None:
    """The most serious first; of a counter only its growth counts."""
    assert names(look(actors={"send-racer-0": {}}), listed=2) == ["ActorAway", "DepositsNeedYou"]
    assert names(look(grown={300: {"store_failures": 0.0, "refusals": 0.0}})) == []
    assert set(names(look(grown={300: {"store_failures": 2.0}}))) == {"CommitsFail"}
    assert names(look(least={"deposits_waiting": 1.0})) == ["DepositsWait"]
    assert names(look(least={"deposits_waiting": 0.0})) == []


def test_what_nobody_reports_is_an_alert_unless_a_page_is_away() -> None:
    """A page of metrics that does not answer is told as such, and no watcher and no replica are missed with it."""
    nothing = ProductLook(7, {"x": {"epoch": 1}}, [])
    assert names(nothing) == ["DepositWatcherAway", "NoReplica"]
    assert names(nothing, has_watcher=False) == ["NoReplica"]
    assert names(ProductLook(7, {"metrics-page-1": {}}, [])) == ["ActorAway"]
    assert names(ProductLook(7, {"x": {}}, None)) == ["ActorAway"]


def test_one_alert_of_all_processes_has_the_worst_value() -> None:
    both = look()
    more = ProcessFigures("10.0.0.2", "account-shard-1", 5.0, {"unsealed_seconds": 900.0}, {})
    less = ProcessFigures("10.0.0.2", "account-shard-2", 5.0, {"unsealed_seconds": 700.0}, {})
    (alert,) = alerts_on(both._replace(figures=[*(both.figures or ()), less, more]), 0, True)
    assert (alert.name, alert.value, alert.process) == ("StatementsBehind", 900.0, "account-shard-1")
    assert "900 s" in alert.summary


def test_every_rule_has_what_its_kind_needs() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert bool(rule.figures) is (rule.kind not in (RuleKind.SILENT, RuleKind.WAITING)), rule.name
        assert bool(rule.seconds) is (rule.kind in (RuleKind.GROWN, RuleKind.STAYING)), rule.name
