"""The classifier: follows the chain, writes the signals of its programs into the log.

Implements: interface, "Signal kinds"; threats 32 (signals of lost forks are corrected) and 69. A shell: classify.py
says what a signal is, slots.py which slots are lost, log.py writes each signal once.

It has one of the parts into which the work is divided (positions.py): of the transactions of all programs, those whose
signatures fall into its part. A part has a stored position, a final slot: every signal up to it is in the log, and
nothing of it can change. A new classifier claims its part and resumes there. It reads again what is not final yet; the
log knows those signals, so nothing is lost or doubled. A lost position is reported as a gap, and the classifier
continues with live updates. A classifier whose part another one has claimed ends. When the work is divided anew, it
goes on with its part of the new division, or does nothing where that has fewer parts.

Signals wait until all other parts have come to their slot (part_writer.py), so that the log has them in the order of
their slots. While too many of them wait, it reads nothing more.

The stream is the preferred source. While it is unavailable, blocks are polled; slots that the stream no longer has are
read as blocks; slots that no node has any more become a gap in the log, which subscribers receive.

A plain class. host.py makes it a Ray actor; tests use it directly.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.clock import Clock
from actors.signals.classify import FAMILIES, classify
from actors.signals.events import SignalEvent
from actors.signals.history import HistoryUnavailable, SignalHistory
from actors.signals.log import (
    DivisionChanged,
    LogEntry,
    NothingToDo,
    PartTaken,
    PositionLost,
    SignalGap,
    SignalLog,
    SignalLogUnavailable,
)
from actors.signals.part_writer import PartWriter
from actors.signals.positions import WALLETS_SLICE, Claim
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
    with_pauses,
)
from actors.signals.transaction import key_bytes, key_text

logger = logging.getLogger(__name__)

_AHEAD_SLOTS_MAX = 432_000  # Slots of one epoch: two days.
_SLOT_MAX = 1 << 52  # Redis counts in floats; PostgreSQL has signed numbers.
_WRITTEN_MAX = 5_000
_TAIL_ENTRIES = 2_000
_WALLETS_SECONDS = 1.0
_POLLING_SECONDS = 10.0  # Without a stream, blocks are polled for this long; then the stream is tried again.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
_CANCEL_AGAIN_SECONDS = 1.0
_LOST_IN_A_ROW_MAX = 3  # After this many failures in a row, a position that Redis does not keep is given up.
_IDLE_SECONDS = 0.25  # Interval of looking for a part while there is none.
_POSITION_LOST = "the position in the chain was lost"
_ALL_PROGRAMS = frozenset(FAMILIES)
# Opens the source of blocks up to a slot, or without an end.
OpenBlocks = Callable[[int | None], ChainSource]


class SignalClassifier:
    """Classifies one part. parts: number of parts, where the log has none. on_fenced: called when another classifier
    has claimed this part; this one then stops."""

    def __init__(
        self,
        part: int,
        parts: int,
        stream: ChainSource | None,
        open_blocks: OpenBlocks,
        log: SignalLog,
        history: SignalHistory,
        clock: Clock,
        *,
        large_swap_lamports: int,
        on_fenced: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._part, self._parts = part, parts
        self._stream, self._open_blocks, self._log, self._history = stream, open_blocks, log, history
        self._clock, self._sleep = clock, sleep
        self._large, self._on_fenced = large_swap_lamports, on_fenced
        self._wallets: frozenset[bytes] = frozenset()
        self._wallet_texts: frozenset[str] = frozenset()
        self._source: ChainSource | None = None
        self._tree = SlotTree()
        self._by_slot: dict[int, list[SignalEvent]] = {}  # Events of slots that are not final.
        self._writer: PartWriter | None = None
        # True at the start, when the work was divided again, and once Redis has lost a position.
        self._must_claim = True
        self._all_due_after = 0  # Up to this slot, some program has a floor.
        self._slot = 0  # Newest slot read.
        self._gap_after: int | None = None  # Set when the position is lost: signals after this slot are missing.
        self._lost_in_a_row = 0
        self.fault = ""
        self.counts = {"transactions": 0, "signals": 0, "corrections": 0}
        self._written: deque[LogEntry] = deque(maxlen=_WRITTEN_MAX)  # Entries that may exist only in a lost log.
        self._newest_gap: SignalGap | None = None
        self._heard = clock.monotonic()  # Time of the source's last update.
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._follow_wallets())]

    async def stop(self) -> None:
        """End the tasks.

        A cancelled gRPC read may end like a broken stream, so that its task continues with the next source; it is then
        cancelled again."""
        left = set(self._tasks)
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_SECONDS)

    def health(self) -> dict[str, Any]:
        """part, parts, division: of the newest claim; None: it has none. held: signals that wait for other parts.

        source: none, yellowstone or blocks. lag_slots: how far this classifier is behind it; None: it has none.

        source_away_seconds: how long it has had none; 0: it has one. gap: the newest one that it reported.
        """
        head = None if self._source is None else self._source.head()
        writer, claim = self._writer, self._claim
        away = 0.0 if self._source is not None else self._clock.monotonic() - self._heard
        gap = self._newest_gap
        return {
            "part": None if claim is None else claim.part,
            "parts": None if claim is None else claim.division.parts,
            "division": None if claim is None else claim.division.epoch,
            "held": 0 if writer is None else writer.held,
            "source_away_seconds": away,
            "gap": None if gap is None else {"from_slot": gap.from_slot, "to_slot": gap.to_slot, "reason": gap.reason},
            "source": "none" if self._source is None else self._source.name,
            "slot": self._slot,
            "position": 0 if writer is None else writer.position,
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
            except PartTaken as error:
                self.fault = f"another classifier has claimed part {error}"
                logger.error("signals of part %d end: %s", self._part, self.fault)
                self._on_fenced()
                return
            except DivisionChanged as error:
                self._writer, self._must_claim, attempt = None, True, 0
                logger.info("signals of part %d: the work is divided anew: %s", self._part, error)
                continue
            except NothingToDo as error:
                self._writer, self._must_claim, self.fault = None, True, str(error)
                self._lose_source()
                await self._sleep(_IDLE_SECONDS)
                continue
            except (SignalLogUnavailable, HistoryUnavailable, PositionLost, SourceUnavailable) as error:
                self._must_claim = isinstance(error, PositionLost) or self._writer is None
                self._lost_in_a_row += isinstance(error, PositionLost)
                self.fault = f"{type(error).__name__}: {error}"
                logger.warning("signals of part %d wait: %s", self._part, self.fault)
            except Exception as error:  # A bug must not end the classifier; health and logs report it.
                self.fault = f"{type(error).__name__}: {error}"
                logger.exception("the classifier of signals of part %d failed", self._part)
            finally:
                self._lose_source()
            attempt = 0 if self._slot > slot else attempt + 1
            await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])

    async def follow(self) -> None:
        """Resume at the stored position and follow the chain until the source ends."""
        claim, is_lost = self._claim, False
        if not await self._log.is_whole():
            self._must_claim = True
            await restore(self._log, self._history, tuple(self._written), claim)
        if self._must_claim or claim is None:
            claim = await self._log.claim(self._part, self._parts, claim)
            self._must_claim = False
            is_lost = claim.is_lost or self._lost_in_a_row >= _LOST_IN_A_ROW_MAX
        self._writer = writer = PartWriter(self._log, claim, self._written)
        latest = await self._log.latest(_TAIL_ENTRIES)
        self._resume(claim, latest)
        if is_lost:
            newest = max((entry.event.slot for entry in latest if entry.event is not None), default=0)
            self._gap_after = writer.position or newest
            logger.error(
                "signals of part %d: the position is lost; slots from %d to now are a gap", self._part, self._gap_after
            )
        if self._gap_after is not None:
            writer.begin_now()
        from_slot = writer.position + 1 if writer.position else None
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
            logger.warning("signals: blocks are polled, as the stream is away: %s", self.fault)
        await self._poll()

    async def _poll(self) -> None:
        """Follow blocks; if there is a stream, only for a while."""
        position = self._part_writer().position
        limit = contextlib.nullcontext() if self._stream is None else asyncio.timeout(_POLLING_SECONDS)
        try:
            async with limit:
                await self._consume(self._open_blocks(None), position + 1 if position else None)
        except TimeoutError:
            return
        except SlotsGone as error:
            await self._note_gap(position, error.first)

    async def _catch_up(self, from_slot: int, first: int) -> None:
        """Read slots as blocks that the stream no longer has."""
        try:
            await self._consume(self._open_blocks(first), from_slot)
        except SlotsGone as error:
            await self._note_gap(from_slot - 1, error.first)

    async def _note_gap(self, position: int, first: int) -> None:
        await self._tell_gap(SignalGap(position + 1, first - 1, "no node has these slots any more"))

    async def _tell_gap(self, gap: SignalGap) -> None:
        logger.error("signals: slots %d to %d are missing: %s", gap.from_slot, gap.to_slot, gap.reason)
        await self._part_writer().report_gap(gap)
        self._newest_gap = gap

    @property
    def _claim(self) -> Claim | None:
        return None if self._writer is None else self._writer.claim

    def _part_writer(self) -> PartWriter:
        assert self._writer is not None
        return self._writer

    async def _consume(self, source: ChainSource, from_slot: int | None) -> None:
        self._lose_source()
        writer, division = self._part_writer(), self._part_writer().claim.division
        source.narrow(self._is_mine if division.parts > 1 else None)
        await source.watch(self._wallet_texts)
        async with contextlib.aclosing(
            with_pauses(source.updates(from_slot), lambda: writer.pause_seconds if writer.held else None)
        ) as found:
            async for updates in found:
                if updates is None:
                    await self._write(writer)
                    continue
                self._source = source  # Not earlier: a source without updates does not count.
                if self._gap_after is not None:
                    await self._begin_now(self._gap_after, source.head())
                await self.take(updates)
                self.fault = ""

    def _is_mine(self, signature: bytes) -> bool:
        claim = self._part_writer().claim
        return claim.division.part_of(signature) == claim.part

    async def _begin_now(self, gap_after: int, head: int) -> None:
        """Report a gap after a lost position.

        The source may have sent part of its newest slot before this classifier listened."""
        if gap_after < head < _SLOT_MAX:
            await self._tell_gap(SignalGap(gap_after + 1, head, _POSITION_LOST))
        self._gap_after, self._lost_in_a_row = None, 0

    def _lose_source(self) -> None:
        if self._source is not None:
            self._source, self._heard = None, self._clock.monotonic()

    def _resume(self, claim: Claim, latest: Sequence[LogEntry]) -> None:
        """Begin at the position.

        A program with a floor does not get its signals up to it again: they may be so old that the log has forgotten
        them. latest: the newest entries of the log."""
        self._all_due_after = max(claim.floors.values(), default=0)
        self._tree = SlotTree()
        self._by_slot = {}
        for entry in latest:
            if entry.event is not None and entry.change != "removed" and entry.event.slot > claim.position:
                self._by_slot.setdefault(entry.event.slot, []).append(entry.event)

    async def take(self, updates: Sequence[Update]) -> None:
        """Classify a batch, write its signals, and then correct signals of lost slots."""
        lost, writer = list[int](), self._part_writer()
        for update in updates:
            slot = _slot_of(update)
            if not self._is_plausible(slot):
                self.fault = f"the source told slot {slot} after slot {self._slot}; it is ignored"
                continue
            writer.has_read(slot)
            self._slot = max(self._slot, slot)
            if isinstance(update, TransactionSeen):
                writer.add(self._classified(update))
            else:
                lost += self._noted(update)
                if update.state is SlotState.FINALIZED:
                    writer.final = max(writer.final, update.slot)
        await self._write(writer)
        for slot in lost:
            if fallen := self._by_slot.pop(slot, None):
                self.counts["corrections"] += await writer.correct(slot, fallen)
        for slot in [slot for slot in self._by_slot if slot <= writer.position]:
            del self._by_slot[slot]
        while writer.is_full:
            await self._sleep(writer.pause_seconds)
            await self._write(writer)

    async def _write(self, writer: PartWriter) -> None:
        before = writer.count
        await writer.write()
        self.counts["signals"] += writer.count - before
        self._lost_in_a_row = 0

    def _is_plausible(self, slot: int) -> bool:
        """Reject a slot far ahead, from a faulty node: it would move the position to where nothing follows."""
        known = max(self._slot, self._part_writer().position)
        return slot <= (known + _AHEAD_SLOTS_MAX if known else _SLOT_MAX)

    def _classified(self, update: TransactionSeen) -> Sequence[SignalEvent]:
        transaction, claim = update.transaction, self._part_writer().claim
        if claim.division.parts > 1 and not self._is_mine(transaction.signature):
            return ()
        self.counts["transactions"] += 1
        programs, wallets = _ALL_PROGRAMS, self._wallets
        if transaction.slot <= self._all_due_after:
            floors = claim.floors
            programs = frozenset(each for each in programs if floors.get(key_text(each), 0) < transaction.slot)
            wallets = wallets if floors.get(WALLETS_SLICE, 0) < transaction.slot else frozenset()
        events = classify(transaction, large_swap_lamports=self._large, watched_wallets=wallets, programs=programs)
        if events:
            self._by_slot.setdefault(transaction.slot, []).extend(events)
        return events

    def _noted(self, seen: SlotSeen) -> Sequence[int]:
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
        """Update the set of watched wallets."""
        wallets = await self._log.watched(self._clock.now())
        if wallets == self._wallet_texts:
            return
        self._wallet_texts = wallets
        self._wallets = frozenset(key for text in wallets if (key := key_bytes(text)) is not None)
        if self._source is not None:
            await self._source.watch(wallets)


def _slot_of(update: Update) -> int:
    return update.transaction.slot if isinstance(update, TransactionSeen) else update.slot
