"""The time that ended streams leave, and which stream takes it."""

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.stream_times import KEPT_SECONDS, LEFT_MAX, StreamTimes
from actors.calls import StreamTime
from tests.accounts.making import ALICE, BOB


def operation(number: int) -> bytes:
    return b"replica:" + number.to_bytes(8, "big")


def take(times: StreamTimes, number: int, pubkey: bytes = ALICE, now: int = 0) -> int:
    return times.tell(StreamTime(operation(number), pubkey, None), now).taken_ms


def leave(times: StreamTimes, number: int, left_ms: int, pubkey: bytes = ALICE, now: int = 0) -> None:
    assert times.tell(StreamTime(operation(number), pubkey, left_ms), now).taken_ms == 0


def test_a_stream_takes_what_one_stream_has_left_the_longest_first() -> None:
    """A very short stream before each long one must not shield the long one's time until it is forgotten."""
    times = StreamTimes()
    leave(times, 1, 100)
    leave(times, 2, 55_000)
    assert [take(times, number) for number in (3, 4, 5)] == [55_000, 100, 0]


def test_a_request_that_is_sent_again_is_carried_out_once() -> None:
    times = StreamTimes()
    for _ in range(2):
        leave(times, 1, 30_000)
    assert [take(times, 2), take(times, 2), take(times, 3)] == [30_000, 30_000, 0]
    leave(times, 1, 30_000)
    assert len(times) == 0


def test_time_is_of_its_account_and_counts_on_for_ten_minutes() -> None:
    times = StreamTimes()
    leave(times, 1, 30_000, now=0)
    assert take(times, 2, BOB, now=KEPT_SECONDS - 1) == 0
    assert take(times, 3, ALICE, now=KEPT_SECONDS - 1) == 30_000
    leave(times, 4, 30_000, now=0)
    assert take(times, 5, ALICE, now=KEPT_SECONDS) == 0
    leave(times, 6, 30_000, now=1_000)
    times.forget(1_000 + KEPT_SECONDS)
    assert len(times) == 0


def test_an_account_leaves_so_many_times_and_no_more() -> None:
    """When full, the shortest is dropped, in the customer's favour."""
    times = StreamTimes()
    for number in range(LEFT_MAX + 10):
        leave(times, number, 1_000 + number)
    assert len(times) == LEFT_MAX
    assert take(times, 10_000) == 1_000 + LEFT_MAX + 9


@given(st.lists(st.one_of(st.integers(1, 60_000), st.none()), max_size=40))
def test_time_is_neither_made_nor_lost(steps: list[int | None]) -> None:
    """What was taken and what is there add up to what was left."""
    times, left, taken = StreamTimes(), 0, 0
    for number, step in enumerate(steps):
        if step is None:
            taken += take(times, number)
        else:
            leave(times, number, step)
            left += step
    while (more := take(times, 10_000 + taken)) > 0:
        taken += more
    assert taken == left and len(times) == 0
