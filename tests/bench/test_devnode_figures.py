"""What the figures of the embedded chain mean."""

from bench.devnode_figures import (
    BASELINE,
    DEVNODE,
    READS,
    SENDS,
    Figures,
    Jitter,
    Load,
    Memory,
    Row,
    Tpu,
    jitter_of,
    verdicts,
)


def load(kind: str, answered: int, landed: int | None = None) -> Load:
    return Load(kind, 64, 2.0, answered, 0, 1.0, 5.0, landed)


def met(figures: Figures) -> dict[str, bool | None]:
    return {verdict.target.split(",")[0]: verdict.met for verdict in verdicts(figures)}


def test_rates_are_the_devnode_s_own() -> None:
    """The baseline beside it proves nothing; CPU time is per answered call."""
    rows = (Row(BASELINE, load(READS, 9_000), 1.0), Row(DEVNODE, load(READS, 5_999), 0.6))
    assert met(Figures(rows))["getAccountInfo/s"] is False
    assert met(Figures((Row(DEVNODE, load(READS, 6_000), 0.6),)))["getAccountInfo/s"] is True
    assert rows[0].load.per_second == 4_500
    assert round(rows[1].cpu_us_per_call) == 100


def test_a_send_that_did_not_land_spoils_the_rate() -> None:
    """Answered is not landed."""
    good = met(Figures((Row(DEVNODE, load(SENDS, 8_000, 8_000), 1.0),)))
    bad = met(Figures((Row(DEVNODE, load(SENDS, 8_000, 7_999), 1.0),)))
    assert good["sendTransaction/s"] is True and good["answered sends that did not land"] is True
    assert bad["answered sends that did not land"] is False


def test_jitter_is_how_far_each_slot_is_off() -> None:
    """Early and late count alike, by the distance from one slot to the next."""
    opened = [0, 400, 790, 1_260, 1_660]
    found = jitter_of(load(SENDS, 3_000), opened, 400)
    assert found == Jitter(load(SENDS, 3_000), 5, 10.0, 70.0, 70.0)
    assert met(Figures(jitter=found))["slot jitter p99"] is False
    assert met(Figures(jitter=jitter_of(load(SENDS, 3_000), [0, 400, 849], 400)))["slot jitter p99"] is True


def test_memory_is_flat_when_the_end_is_as_the_middle() -> None:
    """What it grows by before the windows are full does not count."""
    flat = Memory(load(SENDS, 100_000), (50, 80, 90, 99, 100, 101, 100, 102, 103, 104), 10)
    grown = Memory(load(SENDS, 100_000), tuple(range(100, 200, 10)), 10)
    assert flat.growth_percent < 5 < grown.growth_percent
    assert Memory(load(SENDS, 10), (100,), 10).growth_percent == 0
    assert met(Figures(memory=flat))["memory growth over the second half"] is True
    assert met(Figures(memory=grown))["memory growth over the second half"] is False


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert set(met(Figures()).values()) == {None}
    assert met(Figures(tpu=Tpu(1_000, 999, 30.0)))["TPU: of 1"] is False
    assert met(Figures(tpu=Tpu(1_000, 1_000, 5.0)))["TPU: of 1"] is True
