from hypothesis import given
from hypothesis import strategies as st

from actors.upstream.breaker import FAILURES_MIN, OPEN_MS_MAX, RECORDED, Breaker, Phase

OPEN_MS = 1_000


def fail(breaker: Breaker, count: int = FAILURES_MIN, now_ms: int = 0) -> Breaker:
    for _ in range(count):
        breaker.ended(breaker.begin(), False, now_ms)
    return breaker


def test_a_few_failures_are_a_restart():
    """Four in a row leave it closed; the fifth opens it."""
    breaker = fail(Breaker(OPEN_MS), FAILURES_MIN - 1)
    assert breaker.phase is Phase.CLOSED
    assert fail(breaker, 1).phase is Phase.OPEN
    assert not breaker.admits(OPEN_MS - 1)


def test_failures_in_the_minority_leave_it_closed():
    """A node that fails now and then is slow at worst, not gone."""
    breaker = Breaker(OPEN_MS)
    for number in range(200):
        breaker.ended(breaker.begin(), number % 3 != 0, 0)
    assert breaker.phase is Phase.CLOSED


def test_one_call_tries_and_its_outcome_decides():
    """Half-open: one at a time; success forgets, failure doubles the time."""
    breaker = fail(Breaker(OPEN_MS))
    assert breaker.admits(OPEN_MS)
    assert breaker.phase is Phase.HALF_OPEN
    ticket = breaker.begin()
    assert not breaker.admits(OPEN_MS)
    breaker.ended(ticket, False, OPEN_MS)
    assert not breaker.admits(3 * OPEN_MS - 1)
    assert breaker.admits(3 * OPEN_MS)
    breaker.ended(breaker.begin(), True, 3 * OPEN_MS)
    assert (breaker.phase, breaker.opened_in_a_row) == (Phase.CLOSED, 0)
    assert fail(breaker, FAILURES_MIN - 1).phase is Phase.CLOSED


def test_a_caller_who_leaves_lets_another_try():
    """His going says nothing about the node."""
    breaker = fail(Breaker(OPEN_MS))
    assert breaker.admits(OPEN_MS)
    breaker.abandoned(breaker.begin())
    assert breaker.admits(OPEN_MS)
    assert breaker.phase is Phase.HALF_OPEN


def test_calls_of_an_earlier_phase_move_nothing():
    """What was under way when it opened can neither close it nor open it again."""
    breaker = Breaker(OPEN_MS)
    old = breaker.begin()
    fail(breaker)
    breaker.ended(old, True, 1)
    assert breaker.phase is Phase.OPEN
    assert breaker.admits(OPEN_MS)
    trial = breaker.begin()
    breaker.ended(old, False, OPEN_MS)
    breaker.abandoned(old)
    assert (breaker.phase, breaker.trying) == (Phase.HALF_OPEN, True)
    breaker.ended(trial, True, OPEN_MS)
    assert breaker.phase is Phase.CLOSED


def test_a_node_that_came_back_is_tried_at_once():
    """Its probes are worth more than a time that was fixed before."""
    breaker = fail(Breaker(OPEN_MS))
    breaker.node_is_back()
    assert breaker.admits(1)
    closed = Breaker(OPEN_MS)
    closed.node_is_back()
    assert closed.phase is Phase.CLOSED


steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 5_000)),
        st.tuples(st.sampled_from(["begin", "leave", "back"]), st.none()),
        st.tuples(st.just("end"), st.booleans()),
    ),
    max_size=120,
)


@given(steps=steps)
def test_any_course_keeps_the_table(steps):
    """Never open for longer than the most; while half-open one call at a time; it opens only on enough failures; and
    from open a call gets through within the most time there is, so no node is lost for ever."""
    breaker, now_ms, under_way = Breaker(OPEN_MS), 0, []
    for step, value in steps:
        before = breaker.phase
        match step:
            case "wait":
                now_ms += value
            case "begin" if breaker.admits(now_ms):
                under_way.append(breaker.begin())
            case "leave" if under_way:
                breaker.abandoned(under_way.pop(0))
            case "end" if under_way:
                breaker.ended(under_way.pop(0), value, now_ms)
            case "call" if breaker.admits(now_ms):
                breaker.ended(breaker.begin(), value, now_ms)
            case "back":
                breaker.node_is_back()
        assert breaker.seen <= RECORDED
        assert breaker.failures.bit_count() <= breaker.seen
        assert breaker.trying <= (breaker.phase is Phase.HALF_OPEN)
        if breaker.phase is Phase.OPEN:
            assert breaker.open_until_ms - now_ms <= OPEN_MS_MAX
            if before is not Phase.OPEN:
                assert step in ("call", "end")
                assert value is False
    if breaker.phase is Phase.OPEN:
        assert breaker.admits(now_ms + OPEN_MS_MAX)
