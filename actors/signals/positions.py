"""How the work of classifiers is divided into parts, and where each part is in the chain.

Implements: threat 69 (the number of classifiers changes, also while they run). Pure.
A *part* is the signals of every program in the transactions whose signatures fall into it. So the busiest program is
divided like all others, and no part depends on which program is busy. A *division* says how many parts there are; each
has one classifier. A part has a position (the slot up to which all its signals are in the log, and final), the slot
that it has reached, and an epoch. A classifier that starts claims its part, which raises the epoch, so that what an
earlier owner of the part still sends is refused. A new division has a higher epoch than the one before, and refuses
what owners of the old parts send. All its parts begin at the lowest position of the old ones; the log knows what is
read again.

Releases before had a position for each program (or, before that, for each classifier). The lowest of them is where the
first division begins. A program that was further keeps its own as a *floor*: nothing of it is told up to there again,
as the log may not know signals that are so old.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.signals.classify import PROGRAMS

PARTS_MAX = 64
WALLETS_SLICE = "wallets"
# Names that had a position of their own in earlier releases, and may have a floor now.
SLICES = (*PROGRAMS, WALLETS_SLICE)
RESTORED = "restored"  # The field after which a restored log is read again.
_POSITION_MAX = 1 << 52  # Redis counts in floats.
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_DIVISION = re.compile(r"([1-9][0-9]{0,15})/([1-9][0-9]?)")
# Releases before kept one position for each classifier, under its number and the number of all: "0/3".
_OF_A_CLASSIFIER = re.compile(r"(0|[1-9][0-9]?)/([1-9][0-9]?)")
_PROGRAMS_OF_OLD = PROGRAMS[:12]  # In the order of those releases.


class Division(NamedTuple):
    """epoch: higher than that of any earlier division; Unix milliseconds, unless the clock went back."""

    epoch: int
    parts: int

    @property
    def text(self) -> str:
        return f"{self.epoch}/{self.parts}"

    def part_of(self, signature: bytes) -> int:
        """Return the part of a transaction. Keyed with the epoch, so that nobody can make transactions that all fall
        into one part."""
        if self.parts == 1:
            return 0
        key = self.epoch.to_bytes(8, "little")
        return int.from_bytes(hashlib.blake2b(signature, digest_size=8, key=key).digest()) % self.parts


def read_division(text: str) -> Division | None:
    found = _DIVISION.fullmatch(text)
    return None if found is None else Division(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Claim:
    """A part as its owner has it.

    position: up to here its signals are in the log, as the owner knows; 0: it begins now. is_lost: the log has signals,
    and the position cannot be read: the owner must tell a gap.
    """

    division: Division
    part: int
    epoch: int = 0
    position: int = 0
    is_lost: bool = False
    floors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Start of the parts of a new division. positions: one for each part; none: they begin with live updates."""

    positions: tuple[int, ...]
    floors: Mapping[str, int]


def arrange(found: Mapping[str, str], parts: int) -> Arrangement:
    """Decide where the parts of a new division begin. found: the stored fields."""
    restored, mine = _read(found.get(RESTORED, "")), _parts(found)
    if restored is not None:
        # The division was lost with everything else, and is restored as it was: its owners reported what they remember.
        return Arrangement(tuple(mine.get(part) or restored for part in range(parts)), _floors(found))
    slices = _slices(found)
    if any(position is None for position in (mine or slices).values()):
        return Arrangement((), {})
    known = [position for position in (mine or slices).values() if position is not None]
    base = min(known, default=0)
    if set(SLICES) <= slices.keys():
        # Up to there all is in the log, whatever older parts say that a release before has left alone.
        base = max(base, min(position or 0 for position in slices.values()))
    floors = {name: position for name, position in _floors(found).items() if position > base}
    return Arrangement((base,) * parts if base else (), floors)


@dataclass(frozen=True, slots=True)
class Beginning:
    position: int
    is_lost: bool = False


def begin(found: Mapping[str, str], part: int, known: int, *, is_empty: bool) -> Beginning | None:
    """Decide where a part begins. None: another part has to begin first, so that all begin at the same slot.

    found: the stored fields. known: the position that the claiming classifier remembers; 0: none. is_empty: the log is.
    """
    positions = _parts(found)
    if part in positions:
        position = positions[part]
        return Beginning(0, is_lost=True) if position is None else Beginning(min(position, known or position))
    others = [position for position in positions.values() if position is not None]
    if others:
        return Beginning(min(others))
    return Beginning(0, is_lost=not is_empty) if part == 0 else None


def floors(found: Mapping[str, str]) -> Mapping[str, int]:
    """Return the floors of the division, by program."""
    return _floors(found)


def _parts(found: Mapping[str, str]) -> dict[int, int | None]:
    """Parse the positions of parts. None: it cannot be read."""
    return {int(name): _read(text) for name, text in found.items() if name.isdecimal() and len(name) <= 2}


def _slices(found: Mapping[str, str]) -> dict[str, int | None]:
    """Parse the positions of an earlier release. None: it cannot be read."""
    slices = {name: _read(found[name]) for name in SLICES if name in found}
    for name in SLICES:
        # Several numbers of classifiers may have left fields. All are true, so the highest one counts.
        old = [_read(text) for field_, text in found.items() if _covers(field_, name)]
        if name not in slices and old:
            slices[name] = max((slot for slot in old if slot is not None), default=None)
    return slices


def _floors(found: Mapping[str, str]) -> dict[str, int]:
    return {name: position for name, position in _slices(found).items() if position is not None}


def _covers(field_: str, name: str) -> bool:
    """Return whether this classifier of an earlier release had the slice."""
    matched = _OF_A_CLASSIFIER.fullmatch(field_)
    if matched is None:
        return False
    index, classifiers = int(matched[1]), int(matched[2])
    return index == 0 if name == WALLETS_SLICE else name in _PROGRAMS_OF_OLD[index::classifiers]


def _read(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) and int(text) < _POSITION_MAX else None
