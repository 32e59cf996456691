"""An account as the simulation of deliveries knows it: its balance, its holds, and what it was charged for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

_HOLD_SECONDS = 55.0  # The least that a hold lasts.


@dataclass
class Customer:
    pubkey: bytes
    balance: int
    charged: set[bytes] = field(default_factory=set)
    holds: dict[bytes, float] = field(default_factory=dict)  # Until when each lasts.

    def may_begin(self, operation: bytes, now: float) -> bool:
        return operation in self.charged or self.holds.get(operation, 0.0) > now

    def available(self, now: float) -> int:
        self.holds = {operation: until for operation, until in self.holds.items() if until > now}
        return self.balance - len(self.holds)

    def hold(self, operations: Sequence[bytes], now: float) -> tuple[bool, ...]:
        """One credit for each operation that was not charged before."""
        verdicts = []
        for operation in operations:
            self.holds.pop(operation, None)
            is_paid = operation in self.charged
            may = self.balance > 0 if is_paid else self.available(now) >= 1
            if may and not is_paid:
                self.holds[operation] = now + _HOLD_SECONDS
            verdicts.append(may)
        return tuple(verdicts)

    def charge(self, operations: Sequence[bytes], released: Sequence[bytes], now: float) -> tuple[bool, ...]:
        for operation in released:
            self.holds.pop(operation, None)
        for operation in operations:
            is_held = self.may_begin(operation, now)
            if operation not in self.charged and (is_held or self.available(now) >= 1):
                self.holds.pop(operation, None)
                self.balance -= 1
                self.charged.add(operation)
        return tuple(operation in self.charged for operation in operations)
