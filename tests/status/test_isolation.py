"""Guards when a replica counts as cut off from the cluster."""

from hypothesis import given
from hypothesis import strategies as st

from actors.status.core import Services
from actors.status.isolation import CUT_OFF_SECONDS, Isolation

ALONE = Services(ledger_committing=False, redis_reachable=False)
# Something answers: a store, or an owner on another machine, as where both stores start again.
OTHERS = st.sampled_from([(Services(True, False), False), (Services(False, True), False), (ALONE, True)])


@given(seconds=st.lists(st.floats(0.1, 5.0), max_size=40), other=OTHERS)
def test_it_is_told_once_after_ten_seconds_without_both_stores(
    seconds: list[float], other: tuple[Services, bool]
) -> None:
    """A store that fails alone, also for long, ends no stream: its clients would come back all at once."""
    isolation, now, told = Isolation(), 0.0, []
    for step in [0.0, *seconds]:
        now += step
        if isolation.looked(ALONE, False, now):
            told.append(now)
    assert len(told) == (now >= CUT_OFF_SECONDS) and all(at >= CUT_OFF_SECONDS for at in told)
    assert not isolation.looked(*other, now + 1.0)
    assert not isolation.looked(ALONE, False, now + 2.0), "it counts from then on"
    assert isolation.looked(ALONE, False, now + 2.5 + CUT_OFF_SECONDS), "and once more, each time"
