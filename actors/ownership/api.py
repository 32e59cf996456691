"""The nouns of ownership: the owner and epoch of a slice, and the errors of a former owner's writes.

Implements: design, "Owners, for every kind of actor". Vocabulary; decides nothing.
"""

from typing import NamedTuple

FENCED_SQLSTATE = "LG001"  # Raised by ownership_check() in functions.sql.


class OwnershipUnavailable(Exception):
    """The store did not answer: a claim may or may not have been made."""


class SliceLost(Exception):
    """Another owner has the slice. This write changed nothing, and no later one by the same epoch will."""


class Commanded(NamedTuple):
    """How many actors of a kind are wanted. setting: the number in the settings at the time of the command."""

    wanted: int
    setting: int


class Owned(NamedTuple):
    """holder: name of the actor that claimed the slice last. epoch: of that claim."""

    holder: str
    epoch: int
