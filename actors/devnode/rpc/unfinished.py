"""A call whose end waits until it is known whether a transaction is signed, which another process may find out.

Implements: what lies between the two halves of a send: everything that can be said at once has been said, nothing has
changed yet. Whoever wants no waiting finishes it on the spot.
Pure; one of msgspec's structs, because every send makes two. Not here: who checks (execution/signature_checks.py),
the two halves (sending.py).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

Answer_co = TypeVar("Answer_co", covariant=True)


class Unfinished(msgspec.Struct, Generic[Answer_co], frozen=True):
    """To be finished once. is_signed: all signatures of the transaction are known to be good; with False nobody has
    looked, or they are bad, and finishing looks for itself."""

    raw: bytes  # The transaction.
    finish: Callable[[bool], Answer_co]
