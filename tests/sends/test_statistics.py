"""What /stats/landing counts, and that it forgets."""

from typing import Any

from actors.sends.statistics import FRESH_MS, WINDOW_MS, LandingStatistics, landing_document

EMPTY = {"p50": None, "p90": None, "p99": None}


def document_of(statistics: LandingStatistics, now_ms: int, names: list[str]) -> dict[str, Any]:
    return landing_document([statistics.part(now_ms, names)])


def test_a_racer_that_just_started_has_nothing_to_tell() -> None:
    document = document_of(LandingStatistics(1_000), 1_000, ["jito"])
    assert (document["races"], document["landing_ms"], document["window_seconds"]) == (0, EMPTY, 0)
    assert document["legs"]["jito"]["attempts"] == 0


def test_legs_and_races_are_counted_apart() -> None:
    """An acknowledgement says that the other side has the bytes; only the chain says that they landed."""
    statistics = LandingStatistics(0)
    for took in (10, 20, 30):
        statistics.leg_reported(5_000, "local_rpc", 5_000, 5_000 + took)
    statistics.leg_reported(5_000, "jito", 5_000, None)
    statistics.leg_reported(5_000, "jito", None, None)
    statistics.race_ended(6_000, ["local_rpc", "jito"], True, 900, 0)
    statistics.race_ended(6_000, ["local_rpc"], True, 4_100, 1)
    statistics.race_ended(6_000, ["jito"], False, 0, 2)
    document = document_of(statistics, 60_000, ["local_rpc", "jito", "tpu_quic"])
    assert (document["races"], document["landed"], document["landed_on_first_try"]) == (3, 2, 1)
    assert document["landing_ms"] == {"p50": 900, "p90": 4_100, "p99": 4_100}
    legs = document["legs"]
    assert legs["local_rpc"] == {
        "attempts": 3,
        "submitted": 3,
        "acknowledged": 3,
        "acknowledge_ms": {"p50": 20, "p90": 30, "p99": 30},
        "races": 2,
        "races_landed": 2,
    }
    assert (legs["jito"]["submitted"], legs["jito"]["acknowledged"], legs["jito"]["races_landed"]) == (1, 0, 1)
    assert legs["tpu_quic"]["races"] == 0 and document["window_seconds"] == 60


def test_what_is_older_than_the_window_is_forgotten() -> None:
    statistics = LandingStatistics(0)
    statistics.leg_reported(1_000, "jito", 1_000, 1_002)
    statistics.race_ended(1_000, ["jito"], True, 900, 0)
    assert document_of(statistics, WINDOW_MS + 999, ["jito"])["races"] == 1
    document = document_of(statistics, WINDOW_MS + 1_000, ["jito"])
    assert (document["races"], document["legs"]["jito"]["attempts"]) == (0, 0)


def test_the_document_is_made_once_for_many_that_ask() -> None:
    """Every replica asks. A clock that was set back must not keep an old one for ever."""
    statistics = LandingStatistics(10_000)
    first = statistics.recent(10_000, ["jito"])
    statistics.race_ended(10_001, ["jito"], True, 900, 0)
    assert statistics.recent(10_000 + FRESH_MS - 1, ["jito"]) is first
    assert statistics.recent(10_000 + FRESH_MS, ["jito"])["races"] == 1
    assert statistics.recent(9_000, ["jito"])["window_seconds"] == 0


def test_the_parts_of_all_racers_are_one_document() -> None:
    """Counts add up, and percentiles are of all races together; a leg that one racer does not have is the others'."""
    one, two = LandingStatistics(0), LandingStatistics(30_000)
    for took in (100, 200, 300):
        one.race_ended(40_000, ["jito"], True, took, 0)
    for took in (400, 12_344):
        two.race_ended(40_000, ["local_rpc"], True, took, 1)
    two.leg_reported(40_000, "local_rpc", 40_000, 40_007)
    parts = [one.part(60_000, ["jito"]), two.part(60_000, ["jito", "local_rpc"])]
    document = landing_document(parts)
    assert (document["races"], document["landed"], document["landed_on_first_try"]) == (5, 5, 3)
    assert document["window_seconds"] == 60
    assert document["landing_ms"] == {"p50": 300, "p90": 12_300, "p99": 12_300}  # Three digits of a time are kept.
    assert document["legs"]["jito"]["races"] == 3
    assert document["legs"]["local_rpc"]["acknowledge_ms"] == {"p50": 7, "p90": 7, "p99": 7}
    assert list(document) == ["window_seconds", "races", "landed", "landed_on_first_try", "landing_ms", "legs"]
