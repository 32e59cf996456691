from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks.lanes import AT_ONCE_MAX, Lanes

Job = tuple[str, int]


def lanes(at_once: int = AT_ONCE_MAX) -> Lanes[Job]:
    return Lanes(lambda job: job[0], lambda job: at_once)


def test_a_webhook_that_hangs_holds_its_own_places_only() -> None:
    """Threats 27 and 28: others are sent at once, however many jobs wait for it."""
    found = lanes()
    assert len(found.add([("slow", number) for number in range(100)])) == AT_ONCE_MAX
    assert found.add([("quick", 1)]) == [("quick", 1)]
    assert (found.under_way, found.waiting) == (AT_ONCE_MAX + 1, 100 - AT_ONCE_MAX)


def test_a_failure_gives_the_rest_of_the_lane_back() -> None:
    """Threat 27: the jobs behind it become due again in the database, and hold no memory here."""
    found = lanes(at_once=2)
    first, second = found.add([("a", number) for number in range(5)])
    ready, given_back = found.ended(first, failed=True)
    assert ready == [] and given_back == [("a", 2), ("a", 3), ("a", 4)]
    assert found.ended(second, failed=False) == ([], [])
    assert (found.under_way, found.waiting) == (0, 0)


def test_a_webhook_that_is_stopped_gets_nothing_more_of_its_lane() -> None:
    """Rule: after the answer of DELETE, or of a pause, only requests under way end."""
    found = lanes(at_once=2)
    first, second = found.add([("a", number) for number in range(5)])
    assert found.withdraw("b") == [] and found.withdraw("a") == [("a", 2), ("a", 3), ("a", 4)]
    assert found.ended(first, failed=False) == found.ended(second, failed=False) == ([], [])
    assert (found.under_way, found.waiting) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 3))
def test_every_job_is_sent_or_given_back_once_and_in_order(steps: list[tuple[str, bool]], at_once: int) -> None:
    """Whatever the order of ends: none is lost, none is doubled, and no lane has more than its places."""
    found, sent, back, under_way = lanes(at_once), [], [], []
    for number, (name, failed) in enumerate(steps):
        started = found.add([(name, number)])
        under_way += started
        sent += started
        if number % 3 == 2 and under_way:
            ready, given_back = found.ended(under_way.pop(0), failed)
            under_way += ready
            sent += ready
            back += given_back
        for lane in "abc":
            assert sum(job[0] == lane for job in under_way) <= at_once
    while under_way:
        ready, given_back = found.ended(under_way.pop(0), False)
        under_way += ready
        sent += ready
        back += given_back
    assert sorted(sent + back) == [
        (name, number) for number, (name, _) in sorted(enumerate(steps), key=lambda p: (p[1][0], p[0]))
    ]
    for lane in "abc":
        assert [job for job in sent if job[0] == lane] == sorted(job for job in sent if job[0] == lane)
