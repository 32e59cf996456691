"""What happened in each of the newest slots, to be told again.

Implements: one log for each slot, in which only the last write of an account is kept, as confirmed and finalized
subscribers and replays see it; how far back a replay may begin. Slots that are not final yet are always kept; of the
older ones at most a fixed number of slots, and of updates in all, so that a busy chain's memory stays bounded; and
what a replay that goes on has yet to tell.
Synchronous. Not here: who is told (hub.py), how a replay goes on beside the living chain (replays.py).
"""

from collections.abc import Iterator

from solders.pubkey import Pubkey

from actors.devnode.chain.commitment import Commitment
from actors.devnode.chain.records import Block
from actors.devnode.geyser.block_messages import BlockMetaUpdate, BlockUpdate
from actors.devnode.geyser.messages import AccountUpdate, SlotUpdate, TransactionUpdate, Update
from actors.units import UnixMillis

REPLAY_SLOTS = 150  # Upstream's default.
REPLAY_UPDATES_MAX = 50_000  # Some 50 MB of small accounts and transactions.
_RANK = {level: rank for rank, level in enumerate(Commitment)}


class SlotLog:
    """statuses: every status of the slot so far. level: the highest one that the slot has reached."""

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
        """A slot that is being built counts as processed."""
        return not (self.is_abandoned and level is not Commitment.PROCESSED) and _RANK[self.level] >= _RANK[level]

    def writes_and_transactions(self) -> Iterator[Update]:
        return (update for update in self._updates if update is not None)

    def block(self, with_entries: bool) -> Iterator[Update]:
        """What is told when the slot is full; nothing before. with_entries: they are only made for who wants them."""
        if self._block is not None:
            whole, meta = self._block
            if with_entries:
                yield from whole.entries
            yield whole
            yield meta


class SlotLogs:
    """Oldest first."""

    def __init__(self, replay_slots: int = REPLAY_SLOTS, updates_max: int = REPLAY_UPDATES_MAX) -> None:
        self._replay_slots, self._updates_max = replay_slots, updates_max
        self._logs: dict[int, SlotLog] = {}
        self._final_slot = 0
        self._holds: dict[object, int] = {}

    def open(self, slot: int, parent: int | None) -> SlotLog:
        log = self._logs[slot] = SlotLog(slot, parent)
        return log

    def get(self, slot: int) -> SlotLog | None:
        """None: too old, or begun before anybody listened."""
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
        """Where a replay may begin at the earliest; None where there is none."""
        return next(iter(self._logs), None) if self._replay_slots else None

    def next_after(self, slot: int, level: Commitment) -> SlotLog | None:
        """The oldest log after the slot that has reached the level, or never will."""
        return next((log for log in self.after(slot) if log.is_abandoned or log.has_reached(level)), None)

    def after(self, slot: int) -> Iterator[SlotLog]:
        return (log for log in self._logs.values() if log.slot > slot)

    def hold(self, holder: object, slot: int) -> None:
        """Let nothing go that comes after the slot, until the holder holds another or releases."""
        self._holds[holder] = slot

    def release(self, holder: object) -> None:
        """A second time changes nothing."""
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
