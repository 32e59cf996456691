"""The time that ended streams leave, and which stream takes it."""

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.stream_times import KEPT_SECONDS, LEFT_MAX, StreamTimes
from actors.calls import StreamTime
from tests.accounts.making import ALICE, BOB


def operation(number: int) -> bytes:
    return b"replica:" + number.to_bytes(8, "big")


def take(times: StreamTimes, number: int, pubkey: bytes = ALICE, now: int = 0, key: int = 0) -> int:
    return times.tell(StreamTime(operation(number), pubkey, None, key), now).taken_ms


def leave(times: StreamTimes, number: int, left_ms: int, pubkey: bytes = ALICE, now: int = 0, key: int = 0) -> None:
    assert times.tell(StreamTime(operation(number), pubkey, left_ms, key), now).taken_ms == 0


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


def test_a_stream_that_has_used_its_time_leaves_none() -> None:
    times = StreamTimes()
    for number, left_ms in enumerate((0, -5)):
        leave(times, number, left_ms)
    assert len(times) == 0 and take(times, 9) == 0


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


def test_each_key_takes_the_time_of_its_own_streams() -> None:
    """59 seconds of one key must not be 60 credits of another, or of the account."""
    times = StreamTimes()
    for key in (0, 1, 2):
        leave(times, key, 59_000 - key, key=key)
    assert take(times, 10, key=3) == 0
    assert [take(times, 11 + key, key=key) for key in (2, 1, 0)] == [58_998, 58_999, 59_000]
    assert [take(times, 21 + key, key=key) for key in (0, 1, 2)] == [0, 0, 0] and len(times) == 0


def test_no_key_makes_the_time_of_others_be_forgotten() -> None:
    """When full, the one who has left most loses its shortest."""
    times = StreamTimes()
    leave(times, 1, 100)
    leave(times, 2, 200, key=1)
    for number in range(LEFT_MAX + 10):
        leave(times, 1_000 + number, 1_000 + number, key=2)
    assert len(times) == LEFT_MAX
    assert (take(times, 3), take(times, 4, key=1)) == (100, 200)
    left = [take(times, 5_000 + number, key=2) for number in range(LEFT_MAX - 2)]
    assert left == sorted(left, reverse=True) and left[-1] == 1_012


def test_time_moves_with_its_account_and_its_key() -> None:
    here, there = StreamTimes(), StreamTimes()
    leave(here, 1, 30_000, now=100, key=7)
    leave(here, 2, 20_000, now=200)
    leave(here, 3, 10_000, BOB, now=200)
    moved = here.leave(lambda pubkey: pubkey == ALICE, 300)
    assert len(here) == 1 and [take(here, 4 + key, now=300, key=key) for key in (0, 7)] == [0, 0]
    there.come(moved, 1_000)
    assert take(there, 20, now=1_000) == 20_000 and take(there, 21, now=1_000, key=7) == 30_000
    there.come(moved, 1_000)
    there.forget(1_000 + KEPT_SECONDS - 200)
    assert (take(there, 22, now=1_400, key=7), take(there, 23, now=1_400)) == (0, 20_000)


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
