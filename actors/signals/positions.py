"""Positions of the classifiers in the chain: one for each program, whatever the number of classifiers is.

Implements: threat 69 (the number of classifiers changes between starts). Pure.
A *slice* is the signals of one program, or the activity of wallets. A slice has a position (the slot up to which all
its signals are in the log, and final) and an epoch. A classifier that starts claims its slices: each gets the next
epoch, so that what an earlier owner of the slice still sends is refused. Which classifier has which slices may change
from start to start; positions and epochs stay with the slices.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.signals.classify import PROGRAMS

WALLETS_SLICE = "wallets"
SLICES = (*PROGRAMS, WALLETS_SLICE)
_RECENT_SLOTS = 1_000
_POSITION_MAX = 1 << 52  # Redis counts in floats.
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
# Releases before kept one position for each classifier, under its number and the number of all: "0/3".
_OF_A_CLASSIFIER = re.compile(r"(0|[1-9][0-9]?)/([1-9][0-9]?)")
_PROGRAMS_OF_OLD = PROGRAMS[:12]  # In the order in which those releases shared them.


class Claim(NamedTuple):
    """A slice as its owner has it. position: up to here its signals are in the log, as the owner knows."""

    slice: str
    epoch: int = 0
    position: int = 0


class SliceClaims(NamedTuple):
    """is_lost: the log has signals, and of a slice no position can be read. Its owner must tell a gap."""

    claims: tuple[Claim, ...]
    is_lost: bool


@dataclass(frozen=True, slots=True)
class StartingPositions:
    """What becomes of the stored positions when slices are claimed.

    adopted: positions of slices that have none. dropped: fields of releases before, which the adopted ones replace.
    """

    adopted: Mapping[str, int]
    dropped: Sequence[str]
    is_lost: bool


def slices_of(index: int, classifiers: int) -> tuple[str, ...]:
    """Return the slices of one of so many classifiers: every n-th program. The first one also has the wallets."""
    return (*PROGRAMS[index::classifiers], *((WALLETS_SLICE,) if index == 0 else ()))


def plan(
    found: Mapping[str, str], slices: Sequence[str], known: Mapping[str, int], *, is_empty: bool
) -> StartingPositions:
    """Decide where slices begin that have no position of their own.

    found: the stored positions. known: positions that the claiming classifier remembers. is_empty: the log is empty.
    A slice gets, in this order: the position of the classifier that had it in a release before, the one that is known,
    and the slowest of the recent positions of other slices (its program is new). In an empty log it begins now.
    """
    old = [field for field in found if _OF_A_CLASSIFIER.fullmatch(field)]
    broken = {field for field in found if field not in old and _read(found[field]) is None}
    positions = {field: slot for field in found if field not in old and (slot := _read(found[field])) is not None}
    adopted: dict[str, int] = {}
    for name in SLICES:
        # Several numbers of classifiers may have left fields. Each of them tells the truth, so the highest one counts.
        slots = [slot for field in old if _covers(field, name) and (slot := _read(found[field])) is not None]
        if name not in found and slots:
            adopted[name] = max(slots)
    everywhere = positions | adopted
    newest = max(everywhere.values(), default=0)
    slowest = min((slot for slot in everywhere.values() if slot > newest - _RECENT_SLOTS), default=0)
    is_lost = False
    for name in slices:
        if name in everywhere:
            continue
        if name in broken:
            is_lost = True
        elif known.get(name):
            adopted[name] = known[name]
        elif not (slowest or is_empty):
            is_lost = True
        elif slowest:
            adopted[name] = slowest
    return StartingPositions(adopted, old, is_lost)


def _covers(field: str, name: str) -> bool:
    """Whether this classifier of a release before had the slice."""
    index, classifiers = map(int, field.split("/"))
    return index == 0 if name == WALLETS_SLICE else name in _PROGRAMS_OF_OLD[index::classifiers]


def _read(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) and int(text) < _POSITION_MAX else None
