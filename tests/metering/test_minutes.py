"""What streams that follow each other pay, against one stream of the same length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.stream_times import StreamTimes
from actors.calls import StreamTime
from actors.metering.minutes import Minutes

MINUTE = 60.0
_lengths = st.lists(st.integers(0, 200_000), max_size=12)  # Milliseconds.


def run(minutes: Minutes, ended_at: float) -> int:
    """The minutes that a stream pays until it ends."""
    paid = 0
    while minutes.due_at() < ended_at:
        minutes.paid()
        paid += 1
    return paid


def paid_by_chains(chains: list[list[int]]) -> list[int]:
    """The minutes of each chain: its streams follow each other, and the chains' streams begin in turn."""
    times, paid = StreamTimes(), [0] * len(chains)
    for number in range(max(map(len, chains), default=0)):
        # All streams of one turn are open together: each begins before any of them ends.
        turn = [(at, chain[number]) for at, chain in enumerate(chains) if number < len(chain)]
        open_now = []
        for at, length in turn:
            operation = b"replica:" + number.to_bytes(4, "big") + at.to_bytes(4, "big")
            taken = times.tell(StreamTime(operation, b"account", None), 0).taken_ms / 1000
            open_now.append((at, length, operation, Minutes(MINUTE, taken, 0.0)))
        for at, length, operation, minutes in open_now:
            paid[at] += run(minutes, length / 1000)
            left_ms = round(minutes.unpaid(length / 1000) * 1000)
            times.tell(StreamTime(operation, b"account", left_ms), 0)
    return paid


@pytest.mark.threat(64)
def test_streams_of_56_seconds_cost_what_one_of_168_does() -> None:
    """Decisions, "Seconds of gRPC streams"."""
    assert paid_by_chains([[56_000] * 3]) == [2] == paid_by_chains([[168_000]])


@given(_lengths)
@pytest.mark.threat(64)
def test_a_stream_cut_into_pieces_pays_what_the_whole_one_pays(pieces: list[int]) -> None:
    assert sum(paid_by_chains([pieces])) == sum(paid_by_chains([[sum(pieces)]]))


@given(st.lists(_lengths, min_size=2, max_size=4))
def test_streams_at_the_same_time_never_pay_twice_for_a_second(chains: list[list[int]]) -> None:
    """Nor do they get more than the first minute of each that is open at once for nothing."""
    paid, whole = sum(paid_by_chains(chains)), sum(map(sum, chains))
    assert paid * 60_000 <= whole
    assert whole - paid * 60_000 <= 60_000 * len(chains)


@given(st.floats(0, 60), st.floats(0, 1_000))
def test_a_stream_leaves_at_most_a_minute(taken: float, length: float) -> None:
    """Also where its minutes could not be paid: no more than one charge was due."""
    assert 0 <= Minutes(MINUTE, taken, 5.0).unpaid(5.0 + length) <= MINUTE
