"""A send between its two halves: it waits for a check of signatures, which another process may do.

Implements: the first half has refused all other mistakes and has changed nothing. A caller that does not want to wait
calls `finish(False)` at once.
Pure; a msgspec struct, because every send makes two. Not here: the check (execution/signature_checks.py), the two
halves (sending.py).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

Answer_co = TypeVar("Answer_co", covariant=True)


class Unfinished(msgspec.Struct, Generic[Answer_co], frozen=True):
    """Call `finish` once. Its argument is_signed: all signatures are known to be valid. With False, they are invalid
    or not checked, and `finish` checks them itself."""

    raw: bytes  # The transaction.
    finish: Callable[[bool], Answer_co]
