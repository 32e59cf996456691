"""Charges whose answers have not left their replicas yet, as an owner knows them and as each group commit keeps them.

Implements: money rule 2; threat 66 (a replica and its account's owner die together).
Pure. A group commit writes, for each replica that changed, the list of its undelivered charges (`cut`). So the list in
the ledger's database is as old as the last group, and names every charge that is in the ledger and may not have reached
its client. The next owner reads it (`recall`) before it serves anybody. A replica that links again says which of its
charges are undelivered (`told`), and that counts; those of a replica that does not are voided (replicas.py).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.calls import OPERATION_BYTES, REPLICA_ID_BYTES, SettleRequest, is_lasting

UNDELIVERED_MAX = 100_000  # Of one replica; more than it can have in flight. Beyond it the oldest count as delivered.
# Of one replica, in the database: a list of so many fills a page. Answers that clients read slowly are the oldest, and
# beyond this number they stay charged if their replica and their owner die together.
LISTED_MAX = 1_000
_COUNTER_BYTES = OPERATION_BYTES - REPLICA_ID_BYTES


class Place(NamedTuple):
    """Which owner's lists these are. home: its index. owners: 0. Releases whose owners could not move shards wrote
    their number there; each owner reads the lists that they left."""

    home: int
    owners: int = 0


class Listed(NamedTuple):
    """The undelivered charges of one replica, as the database has them: the second halves of their operations."""

    replica: bytes
    counters: bytes

    def operations(self) -> list[bytes]:
        starts = range(0, len(self.counters), _COUNTER_BYTES)
        return [self.replica + self.counters[start : start + _COUNTER_BYTES] for start in starts]


class UndeliveredCharges:
    """By replica, oldest first. None in place of a charge: it was recalled, and its account is not known yet."""

    def __init__(self) -> None:
        self._replicas: dict[bytes, dict[bytes, SettleRequest | None]] = {}
        self._changed: set[bytes] = set()  # Replicas whose lists in the database are not what they are here.

    def posted(self, settle: SettleRequest) -> None:
        """Keep a charge that was decided for this replica. Repeating it changes nothing.

        Lasting ones are not kept: their answers can still be had when the process that asked for them is gone.
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
        """Take up what a former owner left. Returns the operations that were not known here."""
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
        """Replicas that have charges of a former owner's list which they have not confirmed."""
        return [name for name, replica in self._replicas.items() if None in replica.values()]

    def told(self, replica: bytes, operations: Iterable[bytes]) -> None:
        """The replica says which of its charges are undelivered: recalled ones that it does not name are delivered."""
        mine, named = self._replicas.get(replica, {}), set(operations)
        recalled = [operation for operation, settle in mine.items() if settle is None]
        self.delivered(operation for operation in recalled if operation not in named)

    def leaving(self, is_leaving: Callable[[bytes], bool]) -> list[Listed]:
        """The charges of accounts that leave, by replica. Recalled ones, whose account is not known, are among them:
        the ledger says whose they are."""
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
        """The undelivered charges of a replica. They stay listed until each is `delivered`, or ended by a void."""
        return dict(self._replicas.get(replica, {}))

    def forget(self, replica: bytes) -> None:
        """Drop a replica that is gone for good and has no undelivered charge left."""
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
        """The lists that have changed since they were cut last, of all replicas or of one. A write that fails must be
        followed by `unwritten`."""
        names = list(self._changed) if only is None else [only] if only in self._changed else []
        self._changed.difference_update(names)
        return [Listed(name, _counters(self._replicas.get(name, {}))) for name in names]

    def unwritten(self) -> None:
        """A write failed: whether the database has the lists that were cut is not known."""
        self._changed.update(self._replicas)


def _counters(operations: Iterable[bytes]) -> bytes:
    """The second half of each of the newest LISTED_MAX operations. Of thousands it takes microseconds."""
    names = operations if len(operations) <= LISTED_MAX else list(operations)[-LISTED_MAX:]  # type: ignore[arg-type]
    joined = b"".join(names)
    return memoryview(joined).cast("Q")[1::2].tobytes() if joined else b""
