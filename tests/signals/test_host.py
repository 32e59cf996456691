"""The classifiers as actors: what they report."""

from prometheus_client import generate_latest

from actors.signals.host import watch_classifier
from actors.telemetry.metrics import Metrics
from tests.signals.memory_store import MemorySignalLog
from tests.signals.test_actor import ScriptedSource, classifier


async def test_metrics_of_a_classifier_without_a_source_are_no_zeros() -> None:
    """0 slots behind would look well: the lag is not known (NaN), and the source is below 0."""
    one, metrics = classifier(MemorySignalLog(), ScriptedSource([])), Metrics()
    watch_classifier(metrics, one.health)
    page = generate_latest(metrics.registry).decode()
    assert "signals_lag_slots NaN" in page and "signals_source -1.0" in page
