"""Charges whose answers have not left their replicas yet, in an owner's memory and in each group commit.

Implements: money rule 2; threat 66 (a replica and its account's owner die together).
Pure. A group commit writes, for each replica that changed, the list of its undelivered charges (`cut`). So the list in
the ledger's database is as old as the last group, and names every charge that is in the ledger and may not have reached
its client. The next owner reads it (`recall`) before it serves requests. A replica that links again reports its
undelivered charges (`told`), which replaces the list; charges of a replica that does not link are voided (replicas.py).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.calls import OPERATION_BYTES, REPLICA_ID_BYTES, SettleRequest, is_lasting

UNDELIVERED_MAX = 100_000  # For one replica; more than it can have in flight. Beyond it the oldest count as delivered.
# For one replica, in the database: a list of this length fills a page. Slowly read answers are the oldest, and beyond
# this number they stay charged if their replica and their owner die together.
LISTED_MAX = 1_000
_COUNTER_BYTES = OPERATION_BYTES - REPLICA_ID_BYTES


class Place(NamedTuple):
    """Whose lists these are. home: index of the owner. owners: 0.

    Releases whose owners could not move shards wrote their number there; each owner reads the lists that they left."""

    home: int
    owners: int = 0


class Listed(NamedTuple):
    """The undelivered charges of one replica as stored: the second halves of their operations."""

    replica: bytes
    counters: bytes

    def operations(self) -> list[bytes]:
        starts = range(0, len(self.counters), _COUNTER_BYTES)
        return [self.replica + self.counters[start : start + _COUNTER_BYTES] for start in starts]


class UndeliveredCharges:
    """By replica, oldest first. A None in place of a charge: it was recalled, and its account is unknown yet."""

    def __init__(self) -> None:
        self._replicas: dict[bytes, dict[bytes, SettleRequest | None]] = {}
        self._changed: set[bytes] = set()  # Replicas whose lists changed since they were written.

    def posted(self, settle: SettleRequest) -> None:
        """Add a charge that was decided for this replica. Repeating it changes nothing.

        Charges of lasting ids are not kept: their answers can be fetched after the asking process has died.
        """
        if is_lasting(settle.operation):
            return
        name = settle.operation[:REPLICA_ID_BYTES]
        replica = self._replicas.get(name)
        if replica is None:
            replica = self._replicas[name] = {}
        replica[settle.operation] = settle
        self._changed.add(name)
        if len(replica) > UNDELIVERED_MAX:
            del replica[next(iter(replica))]

    def delivered(self, operations: Iterable[bytes]) -> None:
        """Drop the charges of answers that have left their replica, and charges that were voided. Unknown operations
        are
        ignored."""
        for operation in operations:
            name = operation[:REPLICA_ID_BYTES]
            replica = self._replicas.get(name)
            if replica is not None and operation in replica:
                del replica[operation]
                self._changed.add(name)

    def recall(self, listed: Iterable[Listed]) -> list[bytes]:
        """Add charges from a former owner's lists. Returns the operations that were unknown here."""
        fresh: list[bytes] = []
        for row in listed:
            if is_lasting(row.replica):
                continue
            mine = self._replicas.setdefault(row.replica, {})
            new = [operation for operation in row.operations() if operation not in mine]
            mine.update(dict.fromkeys(new))
            fresh += new
            self._changed.add(row.replica)
        return fresh

    def recalled(self) -> list[bytes]:
        """Return the replicas with recalled charges that they have not confirmed."""
        return [name for name, replica in self._replicas.items() if None in replica.values()]

    def told(self, replica: bytes, operations: Iterable[bytes]) -> None:
        """Record a replica's report of its undelivered charges: recalled charges that it does not name are
        delivered."""
        mine, named = self._replicas.get(replica, {}), set(operations)
        recalled = [operation for operation, settle in mine.items() if settle is None]
        self.delivered(operation for operation in recalled if operation not in named)

    def leaving(self, is_leaving: Callable[[bytes], bool]) -> list[Listed]:
        """Return the charges of leaving accounts, by replica.

        Recalled charges, whose account is unknown, are included: the ledger says whose they are."""
        found: list[Listed] = []
        for name, replica in self._replicas.items():
            mine = [each for each, settle in replica.items() if settle is None or is_leaving(settle.pubkey)]
            if mine:
                found.append(Listed(name, b"".join(each[REPLICA_ID_BYTES:] for each in mine)))
        return found

    def gone(self, is_gone: Callable[[bytes], bool]) -> None:
        """Drop the charges of accounts that another owner has and lists now."""
        for replica in self._replicas.values():
            self.delivered([each for each, settle in replica.items() if settle is not None and is_gone(settle.pubkey)])

    def has(self, operation: bytes) -> bool:
        return operation in self._replicas.get(operation[:REPLICA_ID_BYTES], {})

    def of(self, replica: bytes) -> dict[bytes, SettleRequest | None]:
        """Return the undelivered charges of a replica. They stay listed until each is `delivered` or voided."""
        return dict(self._replicas.get(replica, {}))

    def forget(self, replica: bytes) -> None:
        """Drop a dead replica that has no undelivered charge left."""
        if not self._replicas.get(replica):
            self._replicas.pop(replica, None)
            self._changed.discard(replica)

    def __len__(self) -> int:
        return sum(map(len, self._replicas.values()))

    # --- what a group commit writes -------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        return bool(self._changed)

    def cut(self, only: bytes | None = None) -> list[Listed]:
        """Return the lists that have changed since the last cut, of all replicas or of one. If the write fails, call
        `unwritten`."""
        names = list(self._changed) if only is None else [only] if only in self._changed else []
        self._changed.difference_update(names)
        return [Listed(name, _counters(self._replicas.get(name, {}))) for name in names]

    def unwritten(self) -> None:
        """Record a failed write: the database may or may not have the lists that were cut."""
        self._changed.update(self._replicas)


def _counters(operations: Iterable[bytes]) -> bytes:
    """Return the second halves of the newest LISTED_MAX operations. Thousands take microseconds."""
    names = operations if len(operations) <= LISTED_MAX else list(operations)[-LISTED_MAX:]  # type: ignore[arg-type]
    joined = b"".join(names)
    return memoryview(joined).cast("Q")[1::2].tobytes() if joined else b""
