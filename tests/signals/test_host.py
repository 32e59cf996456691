"""The classifiers as actors: what they report, and when the work is divided among them."""

from typing import Any

import pytest
from prometheus_client import generate_latest

from actors import hosting
from actors.signals.host import divide_work, watch_classifier
from actors.telemetry.metrics import Metrics
from tests.signals.memory_store import MemorySignalLog
from tests.signals.test_actor import ScriptedSource, classifier


async def test_metrics_of_a_classifier_without_a_source_are_no_zeros() -> None:
    """0 slots behind would look well: the lag is not known (NaN), and the source is below 0."""
    one, metrics = classifier(MemorySignalLog(), ScriptedSource([])), Metrics()
    watch_classifier(metrics, one.health)
    page = generate_latest(metrics.registry).decode()
    assert "signals_lag_slots NaN" in page and "signals_source -1.0" in page and "signals_held 0.0" in page
    assert "signals_gap_to_slot 0.0" in page


def test_the_newest_gap_of_a_classifier_is_a_metric() -> None:
    """It changes with every gap that subscribers were told, so an alert sees each."""
    one, metrics = classifier(MemorySignalLog(), ScriptedSource([])), Metrics()
    gap = {"from_slot": 7, "to_slot": 9, "reason": "pruned"}
    watch_classifier(metrics, lambda: one.health() | {"gap": gap})
    assert metrics.registry.get_sample_value("ledger_gateway_signals_gap_to_slot") == 9


class _Actor:
    """An actor that answers, or is down."""

    def __init__(self, *, answers: bool) -> None:
        self.answers, self.asked = answers, 0


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(handle: Any, method: str, *arguments: Any, wait_seconds: float = 0.0) -> Any:
        assert method == "health"
        handle.asked += 1
        if not handle.answers:
            raise hosting.ActorUnreachable(method)
        return {}

    monkeypatch.setattr(hosting, "ask", ask)


@pytest.mark.usefixtures("asking")
async def test_work_is_divided_once_all_classifiers_answer() -> None:
    """The others would wait for the part of one that does not; a first division, and one that stands, ask nobody."""
    log, up, down = MemorySignalLog(), _Actor(answers=True), _Actor(answers=False)
    assert await divide_work(log, [down, up]) == 2 and not up.asked
    before = await log.division()
    assert await divide_work(log, [down, up]) == 2 and await log.division() == before and not up.asked
    assert await divide_work(log, [up, down, up]) == 2 and await log.division() == before and up.asked == 2
    assert await divide_work(log, [up, up, up]) == 3
    assert await divide_work(log, [up]) == 1
