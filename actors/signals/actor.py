"""The classifier: follows the chain, writes the signals of its programs into the log.

Implements: interface, "Signal kinds"; hostile input 32 (signals of lost forks are corrected). A shell: classify.py says
what a signal is, slots.py which slots are lost, log.py writes each signal once.

The stored position is a final slot: every signal up to it is in the log, and nothing of it can change. A new classifier
resumes there, and reads again what is not final yet; the log knows those signals, so nothing is lost or doubled. The
stream is the first source. While it is away blocks are polled; slots that the stream has no more are read as blocks;
slots that no node has any more are a gap in the log, which subscribers are told of.

A plain class. host.py makes it a Ray actor; tests use it directly.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.clock import Clock
from actors.signals.classify import classify
from actors.signals.events import SignalEvent
from actors.signals.history import HistoryUnavailable, SignalHistory
from actors.signals.log import LogEntry, PositionLost, SignalGap, SignalLog, SignalLogUnavailable
from actors.signals.restoring import restore
from actors.signals.slots import SlotTree
from actors.signals.sources import (
    ChainSource,
    SlotSeen,
    SlotsGone,
    SlotState,
    SourceUnavailable,
    TransactionSeen,
    Update,
)
from actors.signals.transaction import key_bytes, known_key

logger = logging.getLogger(__name__)

_AHEAD_SLOTS_MAX = 432_000  # An epoch: two days.
_SLOT_MAX = 1 << 52  # Redis counts in floats; PostgreSQL has signed numbers.
_WRITTEN_MAX = 5_000
_TAIL_ENTRIES = 2_000
_WALLETS_SECONDS = 1.0
_POLLING_SECONDS = 10.0  # Without a stream, blocks are polled for so long; then the stream is tried again.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
_CANCEL_AGAIN_SECONDS = 1.0
# Opens the source of blocks up to a slot, or for ever.
OpenBlocks = Callable[[int | None], ChainSource]


class SignalClassifier:
    """Of some programs. watches_wallets: this one also reports the activity of wallets; one of all classifiers does."""

    def __init__(
        self,
        partition: str,
        programs: Sequence[str],
        stream: ChainSource | None,
        open_blocks: OpenBlocks,
        log: SignalLog,
        history: SignalHistory,
        clock: Clock,
        *,
        large_swap_lamports: int,
        watches_wallets: bool = True,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._partition, self._programs = partition, frozenset(known_key(text) for text in programs)
        self._stream, self._open_blocks, self._log, self._history = stream, open_blocks, log, history
        self._clock, self._sleep = clock, sleep
        self._large, self._watches = large_swap_lamports, watches_wallets
        self._wallets: frozenset[bytes] = frozenset()
        self._wallet_texts: frozenset[str] = frozenset()
        self._source: ChainSource | None = None
        self._tree = SlotTree()
        self._by_slot: dict[int, list[SignalEvent]] = {}  # Of slots that are not final.
        self._position = self._slot = 0
        self._known_position = 0
        self._written: deque[LogEntry] = deque(maxlen=_WRITTEN_MAX)  # Entries that a lost log may have had alone.
        self.fault = ""
        self.counts = {"transactions": 0, "signals": 0, "corrections": 0}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run())]
        if self._watches:
            self._tasks.append(asyncio.create_task(self._follow_wallets()))

    async def stop(self) -> None:
        """End the tasks. A read of gRPC that is cancelled may end as a broken stream does, so that its task goes on
        with the next source: it is then cancelled again."""
        left = set(self._tasks)
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_SECONDS)

    def health(self) -> dict[str, Any]:
        """source: none, yellowstone or blocks. lag_slots: how far this classifier is behind it; None: it has none."""
        head = None if self._source is None else self._source.head()
        return {
            "partition": self._partition,
            "source": "none" if self._source is None else self._source.name,
            "slot": self._slot,
            "position": self._position,
            "lag_slots": None if head is None else max(0, head - self._slot),
            "fault": self.fault,
            **self.counts,
        }

    async def _run(self) -> None:
        attempt = 0
        while True:
            slot = self._slot
            try:
                await self.follow()
                attempt = 0
                continue
            except (SignalLogUnavailable, HistoryUnavailable, PositionLost, SourceUnavailable) as error:
                self.fault = f"{type(error).__name__}: {error}"
                logger.warning("signals %s wait: %s", self._partition, self.fault)
            except Exception as error:  # A bug must not end the classifier; health and logs report it.
                self.fault = f"{type(error).__name__}: {error}"
                logger.exception("the classifier of signals %s failed", self._partition)
            finally:
                self._source = None
            attempt = 0 if self._slot > slot else attempt + 1
            await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])

    async def follow(self) -> None:
        """Resume at the stored position and follow the chain until the source ends."""
        position = 0
        if not await self._log.is_whole():
            known = self._known_position
            position = await restore(self._log, self._history, self._partition, tuple(self._written), known)
        self._position = self._known_position = position or await self._log.position(self._partition)
        self._tree = SlotTree()
        self._by_slot = {}
        for entry in await self._log.latest(_TAIL_ENTRIES):
            if entry.event is not None and entry.change != "removed" and entry.event.slot > self._position:
                self._by_slot.setdefault(entry.event.slot, []).append(entry.event)
        from_slot = self._position + 1 if self._position else None
        if self._stream is not None:
            try:
                await self._consume(self._stream, from_slot)
                return
            except SlotsGone as error:
                if from_slot is not None and error.first > from_slot:
                    await self._catch_up(from_slot, error.first)
                    return
                self.fault = f"the stream: {error}"
            except SourceUnavailable as error:
                self.fault = f"the stream: {error}"
            logger.warning("signals %s: blocks are polled, as the stream is away: %s", self._partition, self.fault)
        await self._poll()

    async def _poll(self) -> None:
        """Follow blocks; for a while only, where there is a stream to come back."""
        position = await self._log.position(self._partition)
        limit = contextlib.nullcontext() if self._stream is None else asyncio.timeout(_POLLING_SECONDS)
        try:
            async with limit:
                await self._consume(self._open_blocks(None), position + 1 if position else None)
        except TimeoutError:
            return
        except SlotsGone as error:
            await self._note_gap(position, error.first)

    async def _catch_up(self, from_slot: int, first: int) -> None:
        """Read as blocks what the stream has no more."""
        try:
            await self._consume(self._open_blocks(first), from_slot)
        except SlotsGone as error:
            await self._note_gap(from_slot - 1, error.first)

    async def _note_gap(self, position: int, first: int) -> None:
        gap = SignalGap(position + 1, first - 1, "no node has these slots any more")
        logger.error("signals %s: slots %d to %d cannot be read", self._partition, gap.from_slot, gap.to_slot)
        await self._log.report_gap(self._partition, gap)

    async def _consume(self, source: ChainSource, from_slot: int | None) -> None:
        self._source = source
        await source.watch(self._wallet_texts)
        async with contextlib.aclosing(source.updates(from_slot)) as found:
            async for updates in found:
                await self.take(updates)
                self.fault = ""

    async def take(self, updates: Sequence[Update]) -> None:
        """Classify a batch and write its signals; then correct those of slots that are lost."""
        events: list[SignalEvent] = []
        lost: list[int] = []
        position = self._position
        for update in updates:
            slot = update.transaction.slot if isinstance(update, TransactionSeen) else update.slot
            if not self._is_plausible(slot):
                self.fault = f"the source told slot {slot} after slot {self._slot}; it is ignored"
            elif isinstance(update, TransactionSeen):
                events += self._classified(update)
            else:
                lost += self._noted(update)
                if update.state is SlotState.FINALIZED:
                    position = max(position, update.slot)
        if events or position > self._position:
            cursors = await self._log.append(self._partition, self._known_position, position, events)
            fresh = [LogEntry(cursor, "event", event) for cursor, event in zip(cursors, events, strict=True) if cursor]
            self._written.extend(fresh)
            self.counts["signals"] += len(fresh)
            self._position = position
            self._known_position = max(self._known_position, position)
        for slot in lost:
            if fallen := self._by_slot.pop(slot, None):
                self.counts["corrections"] += len(await self._log.correct(slot, fallen))
        for slot in [slot for slot in self._by_slot if slot <= self._position]:
            del self._by_slot[slot]

    def _is_plausible(self, slot: int) -> bool:
        """A slot far ahead, from a node that is out of order, would move the position to where nothing follows."""
        known = max(self._slot, self._position)
        return slot <= (known + _AHEAD_SLOTS_MAX if known else _SLOT_MAX)

    def _classified(self, update: TransactionSeen) -> Sequence[SignalEvent]:
        transaction = update.transaction
        self.counts["transactions"] += 1
        self._slot = max(self._slot, transaction.slot)
        events = classify(
            transaction,
            large_swap_lamports=self._large,
            watched_wallets=self._wallets,
            programs=self._programs,
        )
        if events:
            self._by_slot.setdefault(transaction.slot, []).extend(events)
        return events

    def _noted(self, seen: SlotSeen) -> Sequence[int]:
        self._slot = max(self._slot, seen.slot)
        self._tree.note(seen.slot, seen.parent)
        if seen.state is SlotState.DEAD:
            return self._tree.died(seen.slot)
        if seen.state in (SlotState.CONFIRMED, SlotState.FINALIZED):
            return self._tree.confirmed(seen.slot)
        return ()

    async def _follow_wallets(self) -> None:
        while True:
            try:
                await self.look_at_wallets()
            except SignalLogUnavailable as error:
                logger.warning("the watched wallets are not known: %s", error)
            await self._sleep(_WALLETS_SECONDS)

    async def look_at_wallets(self) -> None:
        """Take over which wallets are watched now."""
        wallets = await self._log.watched(self._clock.now())
        if wallets == self._wallet_texts:
            return
        self._wallet_texts = wallets
        self._wallets = frozenset(key for text in wallets if (key := key_bytes(text)) is not None)
        if self._source is not None:
            await self._source.watch(wallets)
