"""Shares scarce places among accounts by their balance, and keeps a part for newcomers.

Implements: threat 68. Pure. A place is one watched wallet, for example; callers count who holds how many.

An account needs a balance to hold places, CREDITS_A_PLACE for each. Up to `base` places it always gets while any is
free. More it gets only of what is free above the part that is kept, a tenth of it at once. So however much the others
hold, the next `kept // base` accounts that pay find `base` places each (newcomers).
"""

from dataclasses import dataclass

BALANCE_MIN = 10  # Below it an open stream ends too.
CREDITS_A_PLACE = 10
_SHARE = 10


@dataclass(frozen=True, slots=True)
class PlaceShares:
    """total: all places. kept: of them, given in parts of `base` only. of_one_max: of one account."""

    total: int
    kept: int
    base: int
    of_one_max: int

    @property
    def newcomers(self) -> int:
        """Return how many paying accounts are sure to get `base` places."""
        return self.kept // self.base

    def most_unpaid(self, own: int, taken: int) -> int:
        """Return how many places an account may hold without a balance, where these are for everybody: none of the part
        that is kept."""
        return min(self.of_one_max, own + max(0, self.total - taken - self.kept))

    def most(self, own: int, taken: int, balance: int) -> int:
        """Return how many places an account may hold that has `own` of the `taken` ones. What it holds it may keep."""
        if balance < BALANCE_MIN:
            return 0
        left = max(0, self.total - taken)
        large = own + max(0, left - self.kept) // _SHARE
        return min(self.of_one_max, balance // CREDITS_A_PLACE, max(self.base, large), own + left)
