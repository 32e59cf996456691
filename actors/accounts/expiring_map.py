"""A map whose entries expire. It has three generations, and drops the oldest one whole.

Implements: bounded memory for operations that may be repeated.
Pure. Dropping a generation in one step needs no order among keys and no work for each key.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class ExpiringMap(Generic[Key, Value]):
    """Keeps each key for at least `seconds` and at most half as long again, measured by the times given to `put`."""

    seconds: int
    turn_at: int = 0  # When `young` becomes the middle generation.
    young: dict[Key, Value] = field(default_factory=dict)
    middle: dict[Key, Value] = field(default_factory=dict)
    old: dict[Key, Value] = field(default_factory=dict)

    def get(self, key: Key) -> Value | None:
        found = self.young.get(key)
        if found is None:
            found = self.middle.get(key)
            if found is None:
                return self.old.get(key)
        return found

    def put(self, key: Key, value: Value, now: int) -> None:
        """Keep a key, or keep it for longer. now: steady seconds, never smaller than before."""
        if now >= self.turn_at:
            self.turn(now)
        self.young[key] = value

    def turn(self, now: int) -> None:
        """Drop generations whose time has come. `put` calls it; call it otherwise only to free memory."""
        step = -(-self.seconds // 2)
        missed = (now - self.turn_at) // step + 1
        if missed <= 0:
            return
        self.old = self.middle if missed == 1 else self.young if missed == 2 else {}
        self.middle = self.young if missed == 1 else {}
        self.young = {}
        self.turn_at += missed * step

    def drop(self, key: Key) -> None:
        for generation in (self.young, self.middle, self.old):
            generation.pop(key, None)

    def __len__(self) -> int:
        """Return an upper bound: a key that was put again counts once for each generation."""
        return len(self.young) + len(self.middle) + len(self.old)
