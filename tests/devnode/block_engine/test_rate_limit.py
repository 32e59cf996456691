from hypothesis import given
from hypothesis import strategies as st

from devnode.block_engine import rate_limit
from devnode.block_engine.rate_limit import RateLimit


@given(per_second=st.integers(1, 50), gaps=st.lists(st.floats(0, 2), max_size=200))
def test_no_client_gets_more_than_its_rate(per_second: int, gaps: list[float]) -> None:
    """From a full bucket: at most the rate in the first instant, and the rate in every second after it."""
    limit, now, allowed = RateLimit(), 0.0, 0
    for gap in gaps:
        now += gap
        allowed += limit.allows("one", per_second, now)
    assert allowed <= per_second * (now + 1) + 1e-6


def test_clients_do_not_share_a_bucket_and_are_forgotten_when_idle() -> None:
    limit = RateLimit()
    assert limit.allows("one", 1, 0.0) and not limit.allows("one", 1, 0.5) and limit.allows("two", 1, 0.5)
    for number in range(rate_limit.CLIENTS_MAX + 5):
        limit.allows(str(number), 1, 10.0 + number)
    assert len(limit._used) <= rate_limit.CLIENTS_MAX
