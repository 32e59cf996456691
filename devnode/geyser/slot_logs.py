"""Logs of the newest slots, for replays and for subscribers at confirmed and finalized.

Implements: one log for each slot, which keeps only the last write of each account; the first slot of a replay. Kept
are all slots that are not final yet, a bounded number of older slots and updates, and the slots that a running replay
still needs.
Synchronous. Not here: sending (hub.py), replays (replays.py).
"""

from collections.abc import Iterator

from solders.pubkey import Pubkey

from actors.units import UnixMillis
from devnode.geyser.block_messages import BlockMetaUpdate, BlockUpdate
from devnode.geyser.messages import AccountUpdate, SlotUpdate, TransactionUpdate, Update
from devnode.records.commitment import Commitment
from devnode.records.records import Block

REPLAY_SLOTS = 150  # Yellowstone's default.
REPLAY_UPDATES_MAX = 50_000  # About 50 MB of small accounts and transactions.
_RANK = {level: rank for rank, level in enumerate(Commitment)}


class SlotLog:
    """The updates of one slot. statuses: all statuses so far. level: the highest level the slot has reached."""

    def __init__(self, slot: int, parent: int | None) -> None:
        self.slot, self.parent = slot, parent
        self.statuses: list[SlotUpdate] = []
        self.level = Commitment.PROCESSED
        self.is_abandoned = False
        self._updates: list[AccountUpdate | TransactionUpdate | None] = []
        self._last_write: dict[Pubkey, int] = {}
        self._block: tuple[BlockUpdate, BlockMetaUpdate] | None = None

    def __len__(self) -> int:
        return len(self._updates)

    def add_account(self, update: AccountUpdate) -> None:
        earlier = self._last_write.get(update.pubkey)
        if earlier is not None:
            self._updates[earlier] = None
        self._last_write[update.pubkey] = len(self._updates)
        self._updates.append(update)

    def add_transaction(self, update: TransactionUpdate) -> None:
        self._updates.append(update)

    def seal(self, block: Block, created_ms: UnixMillis) -> None:
        self.parent = block.parent_slot
        self._updates = [update for update in self._updates if update is not None]
        self._last_write = {}
        transactions = tuple(update for update in self._updates if isinstance(update, TransactionUpdate))
        accounts = tuple(update for update in self._updates if isinstance(update, AccountUpdate))
        whole = BlockUpdate(block, transactions, accounts, created_ms)
        self._block = whole, BlockMetaUpdate(block, created_ms)

    def has_reached(self, level: Commitment) -> bool:
        """Whether the slot has reached the level. The slot being built counts as processed."""
        return not (self.is_abandoned and level is not Commitment.PROCESSED) and _RANK[self.level] >= _RANK[level]

    def writes_and_transactions(self) -> Iterator[Update]:
        return (update for update in self._updates if update is not None)

    def block(self, with_entries: bool) -> Iterator[Update]:
        """The updates of a sealed block; none before the seal. with_entries: also make the entries."""
        if self._block is not None:
            whole, meta = self._block
            if with_entries:
                yield from whole.entries
            yield whole
            yield meta


class SlotLogs:
    """The logs of the newest slots, oldest first."""

    def __init__(self, replay_slots: int = REPLAY_SLOTS, updates_max: int = REPLAY_UPDATES_MAX) -> None:
        self._replay_slots, self._updates_max = replay_slots, updates_max
        self._logs: dict[int, SlotLog] = {}
        self._final_slot = 0
        self._holds: dict[object, int] = {}

    def open(self, slot: int, parent: int | None) -> SlotLog:
        log = self._logs[slot] = SlotLog(slot, parent)
        return log

    def get(self, slot: int) -> SlotLog | None:
        """The log of a slot; None if it is too old, or began before the hub listened."""
        return self._logs.get(slot)

    def reach(self, slot: int, level: Commitment) -> SlotLog | None:
        log = self._logs.get(slot)
        if log is not None:
            log.level = level
        if level is Commitment.FINALIZED:
            self._final_slot = max(self._final_slot, slot)
            self._trim()
        return log

    @property
    def first_slot(self) -> int | None:
        """The first slot that can be replayed; None if replays are off."""
        return next(iter(self._logs), None) if self._replay_slots else None

    def next_after(self, slot: int, level: Commitment) -> SlotLog | None:
        """The oldest log after the slot that has reached the level or is abandoned."""
        return next((log for log in self.after(slot) if log.is_abandoned or log.has_reached(level)), None)

    def after(self, slot: int) -> Iterator[SlotLog]:
        return (log for log in self._logs.values() if log.slot > slot)

    def hold(self, holder: object, slot: int) -> None:
        """Keep all slots after this one, until the holder calls again or releases."""
        self._holds[holder] = slot

    def release(self, holder: object) -> None:
        """End a hold; a second call changes nothing."""
        self._holds.pop(holder, None)

    def clear(self) -> None:
        self._logs.clear()

    def _trim(self) -> None:
        updates = sum(map(len, self._logs.values()))
        newest = min((self._final_slot, *self._holds.values()))
        for slot in list(self._logs):
            if slot > newest or (len(self._logs) <= self._replay_slots and updates <= self._updates_max):
                break
            updates -= len(self._logs.pop(slot))
