"""Scarce places: by balance, and whatever the sequence, an account that pays finds one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.place_shares import BALANCE_MIN, CREDITS_A_PLACE, PlaceShares

SHARES = PlaceShares(total=200, kept=50, base=5, of_one_max=60)
takes = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 100), st.integers(0, 2_000)), max_size=80
)  # Account, wanted, balance.


@given(takes=takes, balance=st.integers(BALANCE_MIN, 10_000))
def test_an_account_that_pays_always_finds_places(takes: list[tuple[int, int, int]], balance: int) -> None:
    """Up to `newcomers` accounts: here nine that take what they get, however often and with whatever balance, and one
    that comes last."""
    held: dict[int, int] = {}
    for account, wanted, paid in takes:
        own = held.get(account, 0)
        most = SHARES.most(own, sum(held.values()), paid)
        if paid < BALANCE_MIN:
            assert most == 0, "who pays nothing gets none"
        held[account] = max(own, min(own + wanted, most))
        assert sum(held.values()) <= SHARES.total and held[account] <= SHARES.of_one_max
        assert held[account] == own or held[account] * CREDITS_A_PLACE <= paid
    assert len(held) < SHARES.newcomers
    assert SHARES.most(0, sum(held.values()), balance) >= min(SHARES.base, balance // CREDITS_A_PLACE) >= 1


def test_what_is_full_is_full_after_so_many_accounts() -> None:
    taken = SHARES.total - SHARES.kept
    for _ in range(SHARES.newcomers):
        assert SHARES.most(0, taken, 10_000) == SHARES.base
        taken += SHARES.base
    assert SHARES.most(0, taken, 10_000) == 0


@pytest.mark.parametrize(("balance", "most"), [(0, 0), (9, 0), (10, 1), (99, 9), (150, 15), (10_000, 15)])
def test_places_cost_a_balance(balance: int, most: int) -> None:
    """Of 150 free ones above the kept part, a tenth at once."""
    assert SHARES.most(0, 0, balance) == most
