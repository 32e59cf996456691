"""Guards that free answers are limited by their bytes, for each address and account by itself."""

from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.calls import free_answers
from actors.gateway.calls.free_answers import FreeAnswers
from actors.identity.client_addresses import UNKNOWN

NOW = 100.0


def test_an_address_gets_a_burst_and_then_so_many_bytes_a_second():
    """Threat 60: a batch of 4.8 kB became 5.43 MB, without a limit. The wait is exact."""
    free = FreeAnswers(per_second=10, burst=100)
    assert [free.take("a", 50, NOW) for _ in range(3)] == [None, None, 6]
    assert free.take("a", 50, NOW + 4.9) is not None
    assert free.take("a", 50, NOW + 5.1) is None
    assert free.take("b", 50, NOW) is None


def test_an_answer_above_the_burst_is_given_to_those_who_had_nothing():
    """Rule: no page is so large that it can never be had."""
    free = FreeAnswers(per_second=10, burst=100)
    assert free.take("a", 300, NOW) is None
    assert free.take("a", 1, NOW) is not None
    assert free.take("a", 300, NOW + 30) is None


def test_clients_without_a_known_address_share_more():
    """Rule: one of them must not lock out the others soon, and together they are bounded all the same."""
    free = FreeAnswers(per_second=10, burst=100)
    given_out = 0
    while free.take(UNKNOWN, 100, NOW) is None:
        given_out += 100
    assert given_out == 1_600


def test_names_are_forgotten_when_there_are_too_many(monkeypatch):
    """Rule: the table has a bound; names with all their bytes are forgotten first, and a full table is emptied."""
    monkeypatch.setattr(free_answers, "NAMES_MAX", 3)
    free = FreeAnswers(per_second=10, burst=100)
    for name in ("a", "b", "c"):
        free.take(name, 100, NOW)
    assert free.take("d", 100, NOW + 1) is None and free.take("a", 100, NOW + 1) is None
    assert len(free._used) <= 3


def test_a_clock_that_goes_back_gives_nothing_away_and_takes_nothing():
    """Rule: monotonic time does not go back; if it did, nobody would wait for longer."""
    free = FreeAnswers(per_second=10, burst=100)
    free.take("a", 50, NOW)
    assert free.take("a", 50, NOW - 50) is None


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0, 5)), max_size=60))
def test_never_more_than_the_burst_and_the_rate(steps):
    """Any sizes at any times: what is given in all is at most the burst and so many bytes for each second."""
    free, now, given_out = FreeAnswers(per_second=10, burst=100), 0.0, 0
    for size, pause in steps:
        now += pause
        given_out += size if free.take("a", size, now) is None else 0
        assert given_out <= 100 + 10 * now + 1
