"""Statuses of recent transactions: the chain uses them to refuse duplicates and to answer getSignatureStatuses.

Implements: Agave's status cache. A status is kept at least as long as the blockhash of its transaction.
Pure: no clock, no I/O. Not here: older history (the journal).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from solders.signature import Signature

from devnode.records.blockhashes import BLOCKHASHES_KEPT


@dataclass(frozen=True, slots=True)
class Landed:
    slot: int
    err: Any  # JSON form of the transaction's error; None when it succeeded.


@dataclass(slots=True)
class StatusCache:
    blocks_kept: int = BLOCKHASHES_KEPT + 1  # One more than the hashes, so that no hash outlives its statuses.
    _statuses: dict[Signature, Landed] = field(default_factory=dict)
    _blocks: deque[tuple[int, list[Signature]]] = field(default_factory=deque)
    _open: list[Signature] = field(default_factory=list)
    _success: Landed = field(default_factory=lambda: Landed(0, None))

    def __contains__(self, signature: Signature) -> bool:
        return signature in self._statuses

    def get(self, signature: Signature) -> Landed | None:
        return self._statuses.get(signature)

    def add(self, signature: Signature, slot: int, err: Any) -> None:
        assert signature not in self._statuses, signature
        if err is None:
            if self._success.slot != slot:  # One object for all successes of a slot keeps memory small.
                self._success = Landed(slot, None)
            self._statuses[signature] = self._success
        else:
            self._statuses[signature] = Landed(slot, err)
        self._open.append(signature)

    def abandon(self, first_slot: int) -> int:
        """Forget transactions of a lost fork, from the slot on; returns their number."""
        assert not self._open, "call it between two slots"
        count = 0
        while self._blocks and self._blocks[-1][0] >= first_slot:
            signatures = self._blocks.pop()[1]
            count += len(signatures)
            for signature in signatures:
                del self._statuses[signature]
        return count

    def seal(self, slot: int) -> None:
        self._blocks.append((slot, self._open))
        self._open = []
        while len(self._blocks) > self.blocks_kept:
            for signature in self._blocks.popleft()[1]:
                del self._statuses[signature]
