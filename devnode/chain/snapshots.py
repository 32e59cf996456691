"""Snapshots of all accounts, to which a test can return.

Implements: a snapshot costs nothing when it is taken: the contents that an account had are kept when it is written for
the first time afterwards (an undo log for each snapshot). Returning writes the accounts that differ, in the slot being
built and without a transaction: slots, heights, the clock, blockhashes and the history of transactions go on, so no
stream ever goes back. A snapshot can be returned to as often as wanted; later ones stay as they are.
Numbers and bytes are bounded: a snapshot above the number is refused; above the bytes the oldest one is dropped.
Synchronous; in memory only. Not here: writing the accounts (chain.py), HTTP (admin.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

SNAPSHOTS_MAX = 64
KEPT_BYTES_MAX = 256 * 1024 * 1024  # Of all snapshots together.
NAME_CHARACTERS_MAX = 64
_ENTRY_BYTES = 500  # Approximate memory of an account in Python, in addition to its data.


class SnapshotError(Exception):
    """The snapshot does not exist or cannot be taken; the text says why."""


@dataclass(slots=True)
class Snapshot:
    number: int
    name: str | None
    slot: int  # The slot being built when it was taken.
    unix_time: int
    # Accounts written after this snapshot and before the next one, as they were at this snapshot. None: absent.
    before: dict[Pubkey, Account | None] = field(default_factory=dict)
    kept_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"id": self.number, "name": self.name, "slot": self.slot, "unix_time": self.unix_time}


class Snapshots:
    """All snapshots of a chain, oldest first. Falsy while there is none: then writes cost one comparison more."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept: list[Snapshot] = []
        self._next = 1
        self._bytes_max = kept_bytes_max
        self._dropped: set[int] = set()  # Numbers of snapshots dropped for lack of room.

    def __bool__(self) -> bool:
        return bool(self._kept)

    def take(self, slot: int, unix_time: int, name: str | None = None) -> Snapshot:
        """Raises SnapshotError above SNAPSHOTS_MAX."""
        if len(self._kept) >= SNAPSHOTS_MAX:
            raise SnapshotError(f"there are {SNAPSHOTS_MAX} snapshots, which is the most: delete one first")
        taken = Snapshot(self._next, name, slot, unix_time)
        self._next += 1
        self._kept.append(taken)
        return taken

    def listed(self) -> list[Snapshot]:
        return list(self._kept)

    def note(self, pubkey: Pubkey, before: Account | None) -> None:
        """Keep the contents of an account that is about to change. Call it only while there is a snapshot."""
        newest = self._kept[-1]
        if pubkey in newest.before:
            return
        _keep(newest, pubkey, before)
        while self._kept and self.kept_bytes > self._bytes_max:
            dropped = self._kept.pop(0)
            self._dropped.add(dropped.number)

    @property
    def kept_bytes(self) -> int:
        return sum(snapshot.kept_bytes for snapshot in self._kept)

    def delete(self, number: int) -> None:
        """Forget a snapshot; the one before it takes over what it needs. Raises SnapshotError."""
        index = self._index(number)
        gone = self._kept.pop(index)
        if index:
            heir = self._kept[index - 1]
            for pubkey, account in gone.before.items():
                if pubkey not in heir.before:
                    _keep(heir, pubkey, account)

    def differing(self, number: int, now: Callable[[Pubkey], Account | None]) -> list[tuple[Pubkey, Account | None]]:
        """The accounts that differ from the snapshot, with their contents in it. Raises SnapshotError."""
        found: dict[Pubkey, Account | None] = {}
        for snapshot in self._kept[self._index(number) :]:
            for pubkey, account in snapshot.before.items():
                found.setdefault(pubkey, account)
        return [(pubkey, account) for pubkey, account in found.items() if now(pubkey) != account]

    def get(self, number: int) -> Snapshot:
        """Raises SnapshotError."""
        return self._kept[self._index(number)]

    def _index(self, number: int) -> int:
        for index, snapshot in enumerate(self._kept):
            if snapshot.number == number:
                return index
        if number in self._dropped:
            text = f"snapshot {number} was dropped: the accounts written since took more than {self._bytes_max} bytes"
            raise SnapshotError(text)
        raise SnapshotError(f"no snapshot {number}")


def _keep(snapshot: Snapshot, pubkey: Pubkey, account: Account | None) -> None:
    snapshot.before[pubkey] = account
    snapshot.kept_bytes += _ENTRY_BYTES + (0 if account is None else len(account.data))
