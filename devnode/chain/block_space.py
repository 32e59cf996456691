"""The room in the block being built.

Implements: a block takes so many compute units, and so many for each account that its transactions write. A transaction
counts 720 units for each signature, 300 for each write lock, and its compute units: the limit it asks for until it has
run, then what it has used.
Pure. Not here: which transaction gets the room (queue.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

BLOCK_UNITS_MAX = 60_000_000
ACCOUNT_UNITS_MAX = 12_000_000
UNITS_PER_SIGNATURE = 720
UNITS_PER_WRITE_LOCK = 300
# More than any transaction can count: 1,400,000 units, 12 signatures and 128 locks.
TRANSACTION_UNITS_MAX = 1_450_000


@dataclass(frozen=True, slots=True)
class SpaceLimits:
    units: int = BLOCK_UNITS_MAX
    account_units: int = ACCOUNT_UNITS_MAX


def counted_units(compute_units: int, signatures: int, write_locks: int) -> int:
    return compute_units + signatures * UNITS_PER_SIGNATURE + write_locks * UNITS_PER_WRITE_LOCK


@dataclass(slots=True)
class BlockSpace:
    limits: SpaceLimits
    used: int = 0
    fits_any: bool = field(init=False)  # Whether there is room for any transaction, whatever it asks for.
    _by_account: dict[str, int] = field(default_factory=dict)
    _most: int = 0  # Of any account.

    def __post_init__(self) -> None:
        self._note_room()

    def fits(self, units: int, write_locked: Iterable[str]) -> bool:
        if self.used + units > self.limits.units:
            return False
        if self._most + units <= self.limits.account_units:
            return True
        most = self.limits.account_units - units
        return all(self._by_account.get(account, 0) <= most for account in write_locked)

    def take(self, units: int, write_locked: Iterable[str]) -> None:
        self.used += units
        by_account = self._by_account
        for account in write_locked:
            used = by_account[account] = by_account.get(account, 0) + units
            if used > self._most:
                self._most = used
        self._note_room()

    def _note_room(self) -> None:
        """Every send asks whether any transaction fits, so the answer is kept."""
        limits = self.limits
        self.fits_any = (
            self.used + TRANSACTION_UNITS_MAX <= limits.units
            and self._most + TRANSACTION_UNITS_MAX <= limits.account_units
        )
