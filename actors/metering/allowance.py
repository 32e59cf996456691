"""The credits that the streams of one account may spend here before they are posted, counted without asking anybody.

Implements: money rule 10. Pure: times are arguments.
Events come far more often than an owner should be asked, so credits are held ahead in parts. A part is spent event by
event, and posted when it is used up, when it is PART_SECONDS_MAX old, and when the streams end. At most PARTS_MAX parts
are held or not posted yet at any moment, so a process that is killed loses at most HELD_CREDITS_MAX credits, in the
customer's favour. Not here: holding and posting (meters.py).
"""

import msgspec

from actors.methods.prices import units_per_credit

UNITS_PER_CREDIT = units_per_credit()  # The cheapest event, a native notification, costs one unit.
PARTS_MAX = 2  # One is spent while the other is being held or posted.
PART_CREDITS = 25
HELD_CREDITS_MAX = PARTS_MAX * PART_CREDITS
PART_SECONDS_MAX = 10.0


class HeldPart(msgspec.Struct, eq=False):
    """Credits held under one operation. held_at: Unix seconds of the hold. since: monotonic seconds of the same."""

    operation: bytes
    epoch: int
    ceiling: int
    held_at: int
    since: float
    left_units: int


class Allowance:
    """Spends parts in the order in which they were held. Units are parts of a credit (methods/catalog.py), as many as
    units_per_credit.

    Units that do not fill a credit are carried to the next part, so that nothing is rounded while streams are open;
    what is left of them when the last stream ends costs nothing.
    """

    __slots__ = ("_carried_units", "_low_units", "_outstanding", "_parts", "_short", "_units_per_credit")

    def __init__(self, units_per_credit: int = UNITS_PER_CREDIT) -> None:
        self._divide(units_per_credit)
        self._parts: list[HeldPart] = []  # The first one is being spent.
        self._carried_units = 0  # Units spent but not charged in any part yet.
        self._outstanding = 0  # Running holds, held parts and running posts.
        self._short = False  # True: an event was not covered since the last part came.

    def start_over(self, units_per_credit: int) -> None:
        """Divide a credit into so many units from now on. All parts have been taken out; what was carried costs
        nothing."""
        assert not self._parts, self._parts
        self._carried_units = 0
        self._divide(units_per_credit)

    def _divide(self, units_per_credit: int) -> None:
        self._units_per_credit = units_per_credit
        self._low_units = PART_CREDITS * units_per_credit // 2  # With fewer units left, the next part is held.

    def spend(self, units: int) -> bool:
        """Spend this many units, or none. False: the parts do not cover them, and more must be held."""
        parts = self._parts
        if parts and parts[0].left_units >= units:
            parts[0].left_units -= units
            return True
        if sum(part.left_units for part in parts) < units:
            self._short = True
            return False
        for part in parts:
            taken = min(part.left_units, units)
            part.left_units -= taken
            units -= taken
        return True

    def spend_from_plenty(self, units: int) -> bool:
        """As `spend`, when nothing must be held or ended afterwards. False: nothing was spent; call `spend`."""
        parts = self._parts
        if self._short or not parts or parts[0].left_units - units < self._low_units:
            return False
        parts[0].left_units -= units
        return True

    def credits_to_hold(self) -> int:
        """Return how many credits to hold now; 0: none. Counts as a running hold: `held` or `not_held` must follow."""
        left = sum(part.left_units for part in self._parts)
        wanted = self._short or (bool(self._parts) and left < self._low_units)
        if not wanted or self._outstanding >= PARTS_MAX:
            return 0
        self._outstanding += 1
        return PART_CREDITS

    def held(self, part: HeldPart) -> None:
        self._short = False
        part.left_units = part.ceiling * self._units_per_credit
        if not self._parts:  # Carried units are charged with this part.
            taken = min(self._carried_units, part.left_units)
            part.left_units -= taken
            self._carried_units -= taken
        self._parts.append(part)

    def not_held(self) -> None:
        self._outstanding -= 1

    @property
    def spent_credits(self) -> int:
        """Return the whole credits delivered but not charged in any ended part."""
        spent = sum(part.ceiling * self._units_per_credit - part.left_units for part in self._parts)
        return (spent + self._carried_units) // self._units_per_credit

    def parts_to_end(self, now: float, all_of_them: bool = False, at_once: bool = False) -> list[tuple[HeldPart, int]]:
        """Take out the parts that are used up or too old, each with the credits to charge; 0: release it.

        all_of_them: the streams have ended. at_once: also the part of which a whole credit is spent, as the account has
        few credits left. Each part counts as a post under way: `posted` must follow.
        """
        ended: list[tuple[HeldPart, int]] = []
        while self._parts:
            part = self._parts[0]
            is_over = not part.left_units or now - part.since >= PART_SECONDS_MAX or all_of_them
            if not is_over and not (at_once and self.spent_credits):
                break
            spent = part.ceiling * self._units_per_credit - part.left_units
            credits, rest = divmod(spent, self._units_per_credit)
            del self._parts[0]
            self._carry(rest)
            ended.append((part, credits))
        return ended

    def posted(self) -> None:
        """Record that a part has ended: charged, released, or lost in the customer's favour."""
        self._outstanding -= 1

    @property
    def has_used_up(self) -> bool:
        """Return whether a part is used up and can be posted."""
        return bool(self._parts) and not self._parts[0].left_units

    def _carry(self, units: int) -> None:
        """Count units of an ended part in the next part, or keep them until there is one."""
        units += self._carried_units
        self._carried_units = 0
        if self._parts:
            taken = min(self._parts[0].left_units, units)
            self._parts[0].left_units -= taken
            units -= taken
        self._carried_units = units
