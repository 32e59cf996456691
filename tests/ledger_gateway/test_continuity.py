"""A stream of signals with breaks and replays is the stream without them."""

from hypothesis import given
from hypothesis import strategies as st

from ledger_gateway.continuity import Continuity
from ledger_gateway.signals import Signal, SignalGap


def entry(number: int, correction: str | None = None, of: int | None = None) -> Signal:
    return Signal(
        "newPair", "P", f"S{number if of is None else of}", number, "M", cursor=f"{number}-0", correction=correction
    )


@given(
    corrected=st.sets(st.integers(0, 29)),
    breaks=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8),
)
def test_replays_add_nothing_and_lose_nothing(corrected: set[int], breaks: list[tuple[int, int]]) -> None:
    """Each break replays some of what was heard; every entry of the log is told once, in order."""
    log = [entry(number, "removed", number // 2) if number in corrected else entry(number) for number in range(30)]
    sent: list[Signal] = []
    done = 0
    for forward, back in breaks:
        sent += log[done : done + forward]
        done = max(0, min(len(log), done + forward) - back)
    sent += log[done:]
    continuity = Continuity()
    assert [event for event in sent if continuity.take(event)] == log
    assert continuity.cursor == "29-0"


def test_memory_is_bounded_and_gaps_move_the_cursor() -> None:
    continuity = Continuity("0-0", seen_max=5)
    assert all(continuity.take(entry(number)) for number in range(1_000))
    assert len(continuity._seen) == 5
    assert continuity.take(SignalGap("trimmed", to_cursor="2000-0")) and continuity.cursor == "2000-0"
    assert continuity.take(SignalGap("unknown")) and continuity.cursor == "2000-0"
