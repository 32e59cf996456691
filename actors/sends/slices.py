"""Which slice of the racers' work a transaction belongs to, and the names of the racers.

Implements: design, "Owners, for every kind of actor" (send racers: hash of the signature, 256). Pure.
The slice is computed in functions.sql as well (sends_check), from the same byte.
"""

import hashlib

from actors.ownership.team import Team

KIND = "racers"
SLICES = 256  # Never changes while races are stored: sends_check() has it, too.
RACERS_MAX = 16
_NAME = "send-racer-{index}"
NAME_PREFIX = _NAME.format(index="").rstrip("-")  # Also of the one racer of versions before.


def slice_of(signature: bytes) -> int:
    """Return a number from 0 to SLICES - 1. A client that signs until a slice fits can send all its transactions to one
    racer; it has so many open sends as its account may have, and no more."""
    return hashlib.sha256(signature).digest()[0]


def racer_names(count: int) -> list[str]:
    assert 1 <= count <= RACERS_MAX, count
    return [_NAME.format(index=index) for index in range(count)]


RACERS = Team(
    KIND,
    SLICES,
    RACERS_MAX,
    NAME_PREFIX,
    racer_names,
    give_seconds=6.0,  # More than the time that a racer takes to finish a broadcast.
    take_seconds=15.0,  # A racer that starts with this call must first open its connections.
)
