from hypothesis import given
from hypothesis import strategies as st

from actors.upstream.hedging import Hedges


@given(st.lists(st.integers(0, 10_000_000), min_size=16, max_size=128))
def test_the_delay_is_what_95_of_100_took(latencies_us):
    """Against a plain count over the same calls, as of the last time they were put in order."""
    hedges = Hedges(1, 10)
    for latency_us in latencies_us:
        hedges.answered("getSlot", latency_us)
    seen = latencies_us[: max(16, len(latencies_us) // 32 * 32)]
    delay_us = hedges.delay_ms("getSlot") * 1_000
    at_most = sum(latency_us <= delay_us for latency_us in seen)
    assert at_most * 100 >= 95 * len(seen)
    assert delay_us <= max(1_000, max(seen) + 1_000)


def test_methods_have_latencies_of_their_own():
    """A block takes longer than a balance; and what is not known yet gets time."""
    hedges = Hedges(20, 10)
    for _ in range(32):
        hedges.answered("getBalance", 500)
        hedges.answered("getBlock", 800_000)
    assert (hedges.delay_ms("getBalance"), hedges.delay_ms("getBlock"), hedges.delay_ms("getSlot")) == (20, 800, 300)


@given(st.lists(st.booleans(), max_size=2_000), st.integers(0, 100))
def test_an_overload_is_not_doubled(reads, percent):
    """However late all calls are, second requests stay within the percentage and the ten saved up."""
    hedges, taken = Hedges(20, percent), 0
    for began, wants_one in enumerate(reads, 1):
        hedges.read_began()
        if wants_one and hedges.affords():
            hedges.take()
            taken += 1
        assert taken * 100 <= began * percent + 1_000
    if percent == 0:
        assert taken == 0
