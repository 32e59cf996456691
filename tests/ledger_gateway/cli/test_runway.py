"""How long credits last."""

from hypothesis import given
from hypothesis import strategies as st

from ledger_gateway.cli.runway import runway
from ledger_gateway.records import CreditBatch

HOUR, NOW = 3_600, 1_900_000_000
BATCHES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(-5 * HOUR, 5_000 * HOUR)), max_size=6)


def batches_of(pairs: list[tuple[int, int]]) -> list[CreditBatch]:
    return [CreditBatch(str(n), "deposit", left, left, NOW, NOW + until) for n, (left, until) in enumerate(pairs)]


@given(pairs=BATCHES, spent=st.integers(0, 10**7), hours=st.integers(1, 720), extra=st.integers(0, 1_000))
def test_credits_end_as_a_simulation_of_hours_says(
    pairs: list[tuple[int, int]], spent: int, hours: int, extra: int
) -> None:
    """Spent plus expired is the balance, and nothing lasts longer than the balance at that rate."""
    balance = sum(left for left, _ in pairs) + extra
    found = runway(balance, spent, hours, batches_of(pairs), NOW)
    if spent == 0:
        assert found.hours_left is None and found.expiring == 0
        return
    assert found.hours_left is not None and 0 <= found.expiring <= balance - extra
    assert found.hours_left <= balance * hours // spent
    if not found.expiring and all(until > 0 for _, until in pairs):
        assert found.hours_left >= balance * hours // spent - 1


def test_a_rate_and_its_end() -> None:
    """240 credits in a day, 1,000 left that expire in two days: 480 are spent, 520 expire."""
    found = runway(1_000, 240, 24, batches_of([(1_000, 48 * HOUR)]), NOW)
    assert (found.credits_per_day, found.hours_left, found.expiring) == (240, 48, 520)
    assert runway(1_000, 240, 24, [], NOW).hours_left == 100
