"""Health transitions ("health transitions" of the decisions), by example and against an independent check."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.status.core import Health, NodeHealth, Services, Status
from actors.upstream.node_health import Probe

UP = Services(ledger_committing=True, redis_reachable=True)
GOOD = Probe(True, slot=1_000, block_height=900, version="2.3.0", latency_ms=5)
FAILED = Probe(False)
UNHEALTHY = replace(GOOD, behind=True)  # It answers, and calls itself unhealthy or behind.
BEHIND = replace(GOOD, slot=871)  # 129 behind the best known slot, 1,000.

Event = Probe | Services


def after(*events: Event, start: Health | None = None) -> Health:
    health = start or Health()
    for event in events:
        health = health.after_services(event) if isinstance(event, Services) else health.after_probe(event, 1_000)
    return health


HEALTHY = after(UP, GOOD)


def test_starting_until_a_node_answered_and_the_stores_are_reachable() -> None:
    assert after().status is Status.STARTING
    assert after(UP).status is Status.STARTING
    assert after(GOOD).status is Status.STARTING
    assert after(UP, FAILED, FAILED, FAILED, FAILED).status is Status.STARTING
    assert after(replace(UP, redis_reachable=False), GOOD).status is Status.STARTING
    assert after(replace(UP, ledger_committing=False), GOOD).status is Status.STARTING
    assert not after(UP).paid_traffic_ready
    assert after(UP, GOOD).status is after(GOOD, UP).status is Status.OK
    assert after(UP, GOOD).paid_traffic_ready


def test_a_node_that_calls_itself_unhealthy_once_degrades_nothing() -> None:
    """Decisions: 3 probes in a row fail. Paid calls go on, as it answers."""
    assert after(UNHEALTHY, UNHEALTHY, GOOD, FAILED, UNHEALTHY, start=HEALTHY).status is Status.OK
    degraded = after(UNHEALTHY, FAILED, UNHEALTHY, start=HEALTHY)
    assert (degraded.status, degraded.node_healthy, degraded.paid_traffic_ready) == (Status.DEGRADED, False, True)
    assert after(GOOD, GOOD, UNHEALTHY, GOOD, GOOD, start=degraded).status is Status.DEGRADED
    assert after(GOOD, GOOD, GOOD, start=degraded).status is Status.OK


def test_three_failed_probes_in_a_row_degrade() -> None:
    assert after(FAILED, FAILED, start=HEALTHY).status is Status.OK
    assert after(FAILED, FAILED, GOOD, FAILED, FAILED, start=HEALTHY).status is Status.OK
    degraded = after(FAILED, FAILED, FAILED, start=HEALTHY)
    assert degraded.status is Status.DEGRADED
    assert not degraded.node_healthy


def test_a_block_engine_that_is_down_degrades_and_keeps_nothing_from_starting() -> None:
    """Bundles fail then, and nothing else does."""
    down = replace(UP, relay_reachable=False)
    assert after(down, GOOD).status is Status.DEGRADED and after(down, GOOD).paid_traffic_ready
    degraded = after(down, start=HEALTHY)
    assert degraded.status is Status.DEGRADED and degraded.node_healthy
    assert after(UP, GOOD, GOOD, start=degraded).status is Status.DEGRADED
    assert after(UP, GOOD, GOOD, GOOD, start=degraded).status is Status.OK


def test_three_good_probes_in_a_row_restore() -> None:
    degraded = after(FAILED, FAILED, FAILED, start=HEALTHY)
    assert after(GOOD, GOOD, start=degraded).status is Status.DEGRADED
    assert after(GOOD, GOOD, FAILED, GOOD, GOOD, start=degraded).status is Status.DEGRADED
    assert after(GOOD, GOOD, replace(UP, redis_reachable=False), UP, GOOD, start=degraded).status is Status.DEGRADED
    assert after(GOOD, GOOD, BEHIND, GOOD, GOOD, start=degraded).status is Status.DEGRADED
    assert after(GOOD, GOOD, GOOD, start=degraded).status is Status.OK


@pytest.mark.parametrize(("slot", "status"), [(872, Status.OK), (871, Status.DEGRADED), (2_000, Status.OK)])
def test_a_lag_above_the_limit_degrades_at_once(slot: int, status: Status) -> None:
    """Exactly 128 slots behind is not more than 128."""
    health = after(replace(GOOD, slot=slot), start=HEALTHY)
    assert health.status is status
    assert health.paid_traffic_ready


def test_without_a_known_slot_there_is_no_lag() -> None:
    assert HEALTHY.after_probe(GOOD, None).status is Status.OK
    assert HEALTHY.after_probe(replace(GOOD, slot=None), 10_000).status is Status.OK


def test_redis_that_is_down_degrades_until_three_good_probes() -> None:
    health = after(replace(UP, redis_reachable=False), start=HEALTHY)
    assert health.status is Status.DEGRADED
    assert health.paid_traffic_ready
    assert health.node_healthy
    assert after(GOOD, GOOD, GOOD, GOOD, start=health).status is Status.DEGRADED
    back = after(UP, start=health)
    assert back.status is Status.DEGRADED
    assert after(GOOD, GOOD, start=back).status is Status.DEGRADED
    assert after(GOOD, GOOD, GOOD, start=back).status is Status.OK


@pytest.mark.parametrize("events", [(), (FAILED, FAILED, FAILED)], ids=["from ok", "from degraded"])
def test_a_ledger_that_cannot_commit_is_starting_again(events: tuple[Event, ...]) -> None:
    """No paid call is admitted that could not be recorded."""
    health = after(*events, replace(UP, ledger_committing=False), start=HEALTHY)
    assert health.status is Status.STARTING
    assert not health.paid_traffic_ready
    assert after(GOOD, GOOD, GOOD, start=health).status is Status.STARTING


def test_a_ledger_that_commits_again_ends_the_start() -> None:
    down = after(replace(UP, ledger_committing=False), start=HEALTHY)
    assert after(UP, start=down).status is Status.OK
    assert after(replace(UP, redis_reachable=False), start=down).status is Status.DEGRADED
    assert after(FAILED, FAILED, FAILED, UP, start=down).status is Status.DEGRADED


def test_an_owner_that_is_away_degrades_and_the_others_serve() -> None:
    """Decisions, "health transitions": a balancer must not take out a machine that serves most accounts."""
    health = after(replace(UP, owners_away=(2,)), start=HEALTHY)
    assert health.status is Status.DEGRADED and health.paid_traffic_ready
    assert after(UP, GOOD, GOOD, GOOD, start=health).status is Status.OK


def test_a_hub_that_is_away_degrades_and_calls_go_on() -> None:
    """Decisions, "health transitions": subscriptions are refused, and nothing else."""
    health = after(replace(UP, hub_reachable=False), start=HEALTHY)
    assert health.status is Status.DEGRADED and health.paid_traffic_ready


def test_paid_traffic_needs_somebody_who_answers() -> None:
    """Without any node every paid call would fail."""
    gone = after(FAILED, FAILED, FAILED, start=HEALTHY)
    assert not gone.paid_traffic_ready
    assert not gone.fallback_active


def several(**weights: int) -> Health:
    nodes = tuple(NodeHealth(name, weight > 0) for name, weight in weights.items())
    health = Health(nodes=nodes).after_services(UP)
    for name in weights:
        health = health.after_probe(GOOD, 1_000, name)
    return health


def probed(health: Health, name: str, *probes: Probe) -> Health:
    for probe in probes:
        health = health.after_probe(probe, 1_000, name)
    return health


@pytest.mark.parametrize("bad", [(FAILED, FAILED, FAILED), (BEHIND,), (UNHEALTHY,) * 3])
def test_a_primary_node_that_fails_is_replaced_by_the_others_and_told(bad: tuple[Probe, ...]) -> None:
    """Interface: degraded, with fallback_active and agave_healthy false; paid calls continue."""
    health = probed(several(a=100, b=100), "b", *bad)
    assert (health.status, health.node_healthy, health.fallback_active) == (Status.DEGRADED, False, True)
    assert health.paid_traffic_ready
    for _ in range(2):
        health = probed(probed(health, "b", GOOD), "a", GOOD)
        assert health.status is Status.DEGRADED
    assert probed(health, "b", GOOD).status is Status.OK


def test_a_node_of_weight_0_is_not_missed() -> None:
    """Node of weight 0: its failure changes nothing, and when it alone answers, calls continue."""
    health = probed(several(a=100, spare=0), "spare", FAILED, FAILED, FAILED)
    assert health.status is Status.OK
    health = probed(several(a=100, spare=0), "a", FAILED, FAILED, FAILED)
    assert (health.status, health.fallback_active, health.paid_traffic_ready) == (Status.DEGRADED, True, True)


def test_the_last_node_that_answers_from_behind_is_a_fallback_too_only_beside_another() -> None:
    """fallback_active says that one node answers in place of another, not that the only one is slow."""
    lone = probed(several(a=100), "a", BEHIND)
    assert (lone.status, lone.fallback_active, lone.paid_traffic_ready) == (Status.DEGRADED, False, True)
    both = probed(probed(several(a=100, b=100), "b", BEHIND), "a", FAILED, FAILED, FAILED)
    assert (both.status, both.fallback_active, both.paid_traffic_ready) == (Status.DEGRADED, True, True)


def test_one_node_that_answered_ends_the_start() -> None:
    """Decisions: starting until one node has answered; while others do not answer, the service is degraded."""
    health = Health(nodes=(NodeHealth("a"), NodeHealth("b"))).after_services(UP)
    assert health.status is Status.STARTING
    assert health.after_probe(GOOD, 1_000, "a").status is Status.DEGRADED


def test_the_figures_are_of_the_node_that_has_come_furthest() -> None:
    """A client compares them with other services."""
    health = probed(several(a=100, b=100), "b", replace(GOOD, slot=1_010, block_height=910))
    assert (health.figures.slot, health.figures.block_height) == (1_010, 910)


def test_a_probe_that_says_less_leaves_what_was_known() -> None:
    health = after(Probe(True, slot=1_001), FAILED, start=HEALTHY)
    assert (health.figures.slot, health.figures.block_height, health.figures.version) == (1_001, 900, "2.3.0")


# Mostly well, so that a history gets to the edges of the rule: runs of two, three and four of a kind.
probes = st.sampled_from(
    [*[GOOD] * 6, *[FAILED] * 4, *[UNHEALTHY] * 3, BEHIND, *(replace(GOOD, slot=slot) for slot in (872, None, 700))]
)
services = st.sampled_from([UP] * 6 + [replace(UP, ledger_committing=False), replace(UP, redis_reachable=False)])


def _lags(probe: Probe) -> bool:
    return probe.slot is not None and 1_000 - probe.slot > 128


def _down(seen: Services) -> bool:
    return not seen.redis_reachable


def judged(history: list[Event]) -> Status:
    """The status from the whole history, by the words of the rule."""
    status = Status.STARTING
    for end in range(1, len(history) + 1):
        past = history[:end]
        looks = [event for event in past if isinstance(event, Services)]
        seen = [event for event in past if isinstance(event, Probe)]
        answered = [probe for probe in seen if probe.answered]
        if (
            not answered
            or not any(look.ledger_committing and look.redis_reachable for look in looks)
            or not looks[-1].ledger_committing
        ):
            status = Status.STARTING
            continue
        failing = len(seen) >= 3 and not any(probe.answered and not probe.behind for probe in seen[-3:])
        if failing or _lags(answered[-1]) or _down(looks[-1]):
            status = Status.DEGRADED
        elif status is not Status.DEGRADED or _three_good(past):
            status = Status.OK
    return status


def _three_good(past: list[Event]) -> bool:
    good = 0
    up = False
    for event in past:
        if isinstance(event, Services):
            up = event.ledger_committing and not _down(event)
            good = good if up else 0
        else:
            good = good + 1 if up and event.answered and not event.behind and not _lags(event) else 0
    return good >= 3


@settings(max_examples=400)
@given(history=st.lists(st.one_of(probes, probes, probes, services), max_size=40))
def test_any_history_is_judged_by_the_rule(history: list[Event]) -> None:
    health = after(*history)
    assert health.status is judged(history)
    if health.paid_traffic_ready:
        assert health.status is not Status.STARTING
        assert health.services.ledger_committing
    if health.status is Status.OK:
        assert health.node_healthy
        assert health.paid_traffic_ready
        assert health.services.all_up


@given(history=st.lists(st.one_of(probes, services), max_size=20), last=services)
def test_looking_at_services_twice_changes_nothing(history: list[Event], last: Services) -> None:
    once = after(*history, last)
    assert after(last, start=once) == once
