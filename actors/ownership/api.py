"""The nouns of ownership: who holds a slice, by which epoch, and what a write of a former owner meets.

Implements: design, "Owners, for every kind of actor". Vocabulary. Nothing is decided here.
"""

from typing import NamedTuple

FENCED_SQLSTATE = "LG001"  # What ownership_check() in functions.sql raises.


class OwnershipUnavailable(Exception):
    """The store did not answer: a claim may or may not have been made."""


class SliceLost(Exception):
    """The slice has another owner now. This write changed nothing, and neither will any other by the same epoch."""


class Commanded(NamedTuple):
    """How many actors of a kind there shall be. setting: the number in the settings when that was said."""

    wanted: int
    setting: int


class Owned(NamedTuple):
    """holder: name of the actor that claimed the slice last. epoch: of that claim."""

    holder: str
    epoch: int
