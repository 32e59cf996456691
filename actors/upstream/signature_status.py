"""The status of signatures, as a node's getSignatureStatuses tells it.

Implements: getSignatureStatuses as Agave has it. Not here: what follows from a status (sends/core.py,
deposits/x402/states.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from actors.units import base58_text
from actors.upstream.replies import Node, value_of

STATUSES_MAX = 256  # Limit of one getSignatureStatuses.
_ERROR_TEXT_MAX = 500


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """confirmations: the node's count; None: rooted, or not told. error: of a transaction that landed and failed."""

    slot: int
    error: str | None
    confirmed: bool
    finalized: bool
    confirmations: int | None = None

    @property
    def counts(self) -> bool:
        """Return whether it can be relied on: a transaction that is only processed may vanish with its fork."""
        return self.confirmed or self.finalized


async def signature_statuses(
    node: Node, signatures: Sequence[bytes], history: bool, timeout_ms: int
) -> list[SignatureStatus | None] | None:
    """Ask for the status of each signature: None for one that the node does not know, None alone for no answer.

    history: also look for signatures older than a minute or two. A node without history then answers with an error.
    """
    assert 0 < len(signatures) <= STATUSES_MAX, len(signatures)
    params = [[base58_text(signature) for signature in signatures], {"searchTransactionHistory": history}]
    found = value_of(await node.call("getSignatureStatuses", orjson.dumps(params), timeout_ms))
    try:
        rows = found["value"]
        return [_status(row) for row in rows] if len(rows) == len(signatures) else None
    except (TypeError, KeyError, ValueError, AttributeError):
        return None


def surest(told: Iterable[SignatureStatus | None]) -> SignatureStatus | None:
    """Return the status of the node that is furthest; None: no node knows the signature."""
    known = (one for one in told if one is not None)
    return max(known, key=lambda one: (one.finalized, one.confirmed), default=None)


def is_count(found: Any) -> bool:
    """Return whether it can be a slot or a height, with room to add to it in a column of a store."""
    return type(found) is int and 0 <= found < 1 << 62


def _status(row: Any) -> SignatureStatus | None:
    """Read a row. Raises ValueError, or what Python raises, where it is no status."""
    if row is None:
        return None
    level, confirmations = row.get("confirmationStatus"), row.get("confirmations")
    if level is None:  # Old nodes mark finality by a missing count.
        level = "finalized" if confirmations is None else "processed"
    slot = row["slot"]
    if not is_count(slot) or slot == 0 or not (confirmations is None or is_count(confirmations)):
        raise ValueError("no status of a signature")
    error = row.get("err")
    text = None if error is None else orjson.dumps(error).decode()[:_ERROR_TEXT_MAX]
    return SignatureStatus(slot, text, level in ("confirmed", "finalized"), level == "finalized", confirmations)
