from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from devnode.chain.block_space import (
    TRANSACTION_UNITS_MAX,
    BlockSpace,
    SpaceLimits,
    counted_units,
)

TAKEN = st.lists(st.tuples(st.integers(1, 400), st.frozensets(st.sampled_from("abcd"), max_size=3)), max_size=40)


@given(taken=TAKEN)
def test_a_block_never_takes_more_than_its_limits(taken: list[tuple[int, frozenset[str]]]) -> None:
    """Neither in all nor for an account; and what would keep the limits is never refused."""
    space, used, by_account = BlockSpace(SpaceLimits(3_000, 1_000)), 0, Counter[str]()
    for units, accounts in taken:
        keeps = used + units <= 3_000 and all(by_account[account] + units <= 1_000 for account in accounts)
        assert space.fits(units, accounts) == keeps
        if keeps:
            space.take(units, accounts)
            used += units
            by_account.update(dict.fromkeys(accounts, units))
    assert space.used == used


def test_any_transaction_fits_while_there_is_room_for_the_largest() -> None:
    space = BlockSpace(SpaceLimits())
    assert space.fits_any
    space.take(60_000_000 - TRANSACTION_UNITS_MAX, ())
    assert space.fits_any
    space.take(1, ())
    assert not space.fits_any
    full = BlockSpace(SpaceLimits())
    full.take(12_000_000, ("a",))
    assert not full.fits_any and full.fits(1, ("b",)) and not full.fits(1, ("a", "b"))


def test_signatures_and_write_locks_count() -> None:
    assert counted_units(450, 2, 3) == 450 + 2 * 720 + 3 * 300
    assert counted_units(1_400_000, 12, 64) <= TRANSACTION_UNITS_MAX
