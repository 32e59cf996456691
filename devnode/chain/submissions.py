"""The sources of transactions, and the results of submitting them.

Implements: the values that doors and the chain exchange about one submitted transaction. Pure.
Not here: executing it (chain.py), its way to a leader (intake.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, unique

from devnode.encoding.wire import Decoded, Malformed
from devnode.execution.execution import Refused
from devnode.records.records import TransactionMeta, TransactionRecord


@unique
class Source(Enum):
    """Which door a transaction came through."""

    RPC = "rpc"
    FAUCET = "faucet"
    BUNDLE = "bundle"
    TPU = "tpu"
    CROWD = "crowd"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A gate dropped the transaction, as a lossy network would; the sender gets no error."""


@dataclass(frozen=True, slots=True)
class Unsound:
    """A program refused a transaction that may land only if it succeeds. No fee was charged, no block has it."""

    meta: TransactionMeta


@dataclass(frozen=True, slots=True)
class Waiting:
    """The transaction waits for a leader's turn or for room in a block. It may land later, or expire."""


SubmitResult = TransactionRecord | Refused | Malformed | Dropped | Waiting
# Called before each submitted transaction; False drops it. Fault injection uses gates.
Gate = Callable[[Decoded, Source], bool]
