"""What a victim saw: latencies by share of its calls, and failures before and after a retry."""

from bench.victim import Call, Seen

_SEEN = Seen(
    (
        Call(0.0, 0.004, "200", "200"),
        Call(0.02, 0.001, "200", "200"),
        Call(0.04, 0.5, "503", "200"),
        Call(0.54, 0.002, "ServerDisconnectedError", "502"),
    )
)


def test_a_latency_covers_its_share_of_the_calls() -> None:
    """Half of four calls end within the second shortest time, 99 % of so few within the longest."""
    assert _SEEN.latency(0.5) == 0.002
    assert _SEEN.latency(0.99) == 0.5
    assert _SEEN.latency(0.99, _SEEN.calls[:2]) == 0.004


def test_failures_are_told_before_and_after_a_retry() -> None:
    """A client that makes a failed call once more has one failure less here."""
    assert _SEEN.failures == {"503": 1, "ServerDisconnectedError": 1}
    assert _SEEN.failures_after_retry == {"502": 1}
    assert _SEEN.failing_seconds == 0.5
    assert Seen(_SEEN.calls[:2]).failing_seconds == 0.0


def test_what_was_seen_travels_as_one_line() -> None:
    """From the victim's process to the measurement."""
    assert Seen.of('[[0.0, 0.004, "200", "200"]]').calls == _SEEN.calls[:1]
