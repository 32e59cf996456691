"""The signal log and its history in memory; they pass the same tests as the real ones."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from actors.signals.deliveries import Delivered, doubtful_since
from actors.signals.events import SignalEvent
from actors.signals.held_events import NO_OTHERS
from actors.signals.history import EVERYTHING, Archived, HistoryQuery
from actors.signals.log import (
    NO_CURSOR,
    SUBSCRIBED_WALLETS_MAX,
    DivisionChanged,
    LogEntry,
    NothingToDo,
    PartTaken,
    PositionLost,
    SignalGap,
    SignalLogUnavailable,
    Written,
    cursor_key,
    seen_slots,
)
from actors.signals.positions import SLICES, Claim, Division, arrange, begin, floors


class MemorySignalLog:
    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.fields: dict[str, str] = {}  # As positions.py names them.
        self.epochs: dict[str, int] = {}
        self.stored: Division | None = None
        self.seen: dict[tuple[str, str, str], list[int]] = {}
        self.wallets: dict[str, int] = {}
        self.webhook_wallets: dict[str, int] = {}
        self.has_begun = True
        self.numbers = 0  # Of the newest cursor; later cursors are higher even after a loss.
        self._changed = asyncio.Event()

    def _add(self, change: str, event: SignalEvent | None, gap: SignalGap | None = None) -> str:
        self.numbers += 1
        cursor = f"1700000000000-{self.numbers}"
        self.entries.append(LogEntry(cursor, change, event, gap))
        self._changed.set()
        return cursor

    @property
    def positions(self) -> dict[int, int]:
        return {int(name): int(slot) for name, slot in self.fields.items() if name.isdecimal()}

    async def division(self) -> Division | None:
        return self.stored

    async def divide(self, parts: int) -> Division:
        if self.stored is None or self.stored.parts != parts:
            self._divide_anew(parts, 0)
        assert self.stored is not None
        return self.stored

    def _divide_anew(self, parts: int, epoch: int) -> None:
        arranged = arrange(self.fields, parts)
        if self.stored is None:
            self.epochs |= {name: self.epochs[name] + 1 for name in SLICES if name in self.epochs}
        self.fields = {name: str(slot) for name, slot in arranged.floors.items()}
        for part, position in enumerate(arranged.positions):
            self.fields |= {str(part): str(position), f"r{part}": str(position + 1)}
        older = 0 if self.stored is None else self.stored.epoch
        self.stored = Division(epoch if epoch > older else older + 1, parts)

    async def claim(self, part: int, parts: int, known: Claim | None) -> Claim:
        lost = Division(0, parts) if known is None else known.division
        if self.stored is None or self.stored.epoch < lost.epoch:
            self._divide_anew(lost.parts, lost.epoch)
        assert self.stored is not None
        if part >= self.stored.parts:
            raise NothingToDo
        remembered = known.position if known is not None and known.division == self.stored else 0
        begins = begin(self.fields, part, remembered, is_empty=not self.entries)
        if begins is None:
            raise NothingToDo
        self.epochs[str(part)] = self.epochs.get(str(part), 0) + 1
        epoch = self.epochs[str(part)]
        return Claim(self.stored, part, epoch, begins.position, begins.is_lost, floors(self.fields))

    def _guard(self, claim: Claim) -> None:
        stored = self.stored or Division(0, 0)
        if stored.epoch > claim.division.epoch:
            raise DivisionChanged
        newest = self.epochs.get(str(claim.part), 0)
        if newest > claim.epoch and stored == claim.division:
            raise PartTaken(str(claim.part))
        if stored != claim.division or newest < claim.epoch or self.positions.get(claim.part, 0) < claim.position:
            raise PositionLost(str(claim.part))

    def _move(self, claim: Claim, position: int, reached: int) -> None:
        before = self.positions.get(claim.part, 0)
        if position > before:
            self.fields[str(claim.part)] = str(position)
        if reached > int(self.fields.get(f"r{claim.part}", "0")):
            self.fields[f"r{claim.part}"] = str(reached)
        if not before and position:
            for other in range(claim.division.parts):
                self.fields.setdefault(str(other), str(position))

    async def append(self, claim: Claim, position: int, reached: int, events: Sequence[SignalEvent]) -> Written:
        self._guard(claim)
        given: list[str | None] = []
        for event in events:
            slots = self.seen.get(event.identity)
            if not slots:
                given.append(self._add("event" if slots is None else "restored", event))
                self.seen[event.identity] = [event.slot]
            else:
                given.append(None)
                if event.slot not in slots:
                    slots.append(event.slot)
        self._move(claim, position, reached)
        others = [other for other in range(claim.division.parts) if other != claim.part]
        return Written(given, min((int(self.fields.get(f"r{other}", "0")) for other in others), default=NO_OTHERS))

    async def correct(self, claim: Claim, lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        self._guard(claim)
        given = []
        for event in events:
            slots = self.seen.get(event.identity, [])
            if lost_slot not in slots:
                continue
            was_first = slots[0] == lost_slot
            slots.remove(lost_slot)
            if not slots:
                self._add("removed", msgspec.structs.replace(event, slot=lost_slot))
                given.append("removed")
            elif was_first:
                self._add("moved", msgspec.structs.replace(event, slot=slots[0]))
                given.append("moved")
        return given

    async def report_gap(self, claim: Claim, gap: SignalGap) -> None:
        self._guard(claim)
        told = [each.gap for each in self.entries if each.gap is not None][-1:]
        if not any(each.from_slot <= gap.from_slot and each.to_slot >= gap.to_slot for each in told):
            self._add("gap", None, gap)
        self._move(claim, gap.to_slot, gap.to_slot + 1)

    async def is_whole(self) -> bool:
        return self.has_begun

    async def restore(self, positions: Mapping[str, int], entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if not self.entries or cursor_key(entry.cursor) > cursor_key(self.entries[-1].cursor):
                self.entries.append(entry)
                self.numbers = max(self.numbers, cursor_key(entry.cursor)[1])
        for entry in entries:
            if entry.event is not None:
                slots = seen_slots(entries)[entry.event.identity]
                self.seen.setdefault(entry.event.identity, [] if slots == "-" else [int(slots)])
        self.has_begun = True
        if self.stored is None:
            self.fields = {**{name: str(slot) for name, slot in positions.items()}, **self.fields}

    def lose_everything(self) -> None:
        """Redis comes back empty."""
        self.entries, self.seen, self.wallets, self.has_begun = [], {}, {}, False
        self.webhook_wallets = {}
        self.fields, self.epochs, self.stored = {}, {}, None

    async def read(self, after: str, count: int, wait_ms: int = 0) -> list[LogEntry]:
        found = [entry for entry in self.entries if cursor_key(entry.cursor) > cursor_key(after)][:count]
        if not found and wait_ms:
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                return []
            return await self.read(after, count)
        return found

    async def latest(self, count: int) -> list[LogEntry]:
        return self.entries[::-1][:count]

    async def oldest(self) -> str | None:
        return self.entries[0].cursor if self.entries else None

    async def trim(self, before_ms: int) -> None:
        self.entries = [entry for entry in self.entries if cursor_key(entry.cursor)[0] >= before_ms]

    async def watch(self, wallets: Sequence[str], now: int, *, for_webhooks: bool = False) -> None:
        (self.webhook_wallets if for_webhooks else self.wallets).update(dict.fromkeys(wallets, now + 60))

    async def watch_more(self, wallets: Sequence[str], now: int, most: int = SUBSCRIBED_WALLETS_MAX) -> bool:
        watched = {wallet for wallet, until in self.wallets.items() if until >= now}
        if len(watched.union(wallets)) > max(len(watched), most):
            return False
        await self.watch(wallets, now)
        return True

    async def watched(self, now: int) -> frozenset[str]:
        both = (*self.wallets.items(), *self.webhook_wallets.items())
        return frozenset(wallet for wallet, until in both if until >= now)

    async def subscribed_wallets(self, now: int) -> int:
        return sum(until >= now for until in self.wallets.values())


class MemorySignalHistory:
    def __init__(self) -> None:
        self.entries: dict[str, LogEntry] = {}
        self.cursor, self.kept_from_ms = NO_CURSOR, 0

    async def archived(self) -> Archived:
        return Archived(self.cursor, self.kept_from_ms)

    async def add(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            self.entries.setdefault(entry.cursor, entry)
            self.cursor = max(self.cursor, entry.cursor, key=cursor_key)

    async def keep(self, now_ms: int, days: int) -> None:
        day_ms = 86_400_000
        self.kept_from_ms = max(self.kept_from_ms, (now_ms // day_ms - days) * day_ms)
        kept = {c: e for c, e in self.entries.items() if cursor_key(c)[0] >= self.kept_from_ms}
        self.entries = kept

    async def read(self, after: str, count: int, query: HistoryQuery = EVERYTHING) -> list[LogEntry]:
        found = sorted(self.entries.values(), key=lambda entry: cursor_key(entry.cursor))
        return [entry for entry in found if _fits(entry, after, query)][:count]


def _fits(entry: LogEntry, after: str, query: HistoryQuery) -> bool:
    cursor, event = cursor_key(entry.cursor), entry.event
    if cursor <= cursor_key(after) or (query.until_ms is not None and cursor[0] >= query.until_ms):
        return False
    if event is None:
        return query == HistoryQuery(until_ms=query.until_ms)
    return (
        (query.kinds is None or event.kind in query.kinds)
        and (query.programs is None or event.program in query.programs)
        and (query.mint is None or event.mint == query.mint)
    )


class MemoryDeliveries:
    def __init__(self) -> None:
        self.records: dict[bytes, dict[str, Delivered]] = {}
        self.time_ms = 1_700_000_000_000
        self.is_away = False
        self.began_ms = 0

    async def now_ms(self) -> int:
        self._check()
        return self.time_ms

    async def record(self, records: Sequence[tuple[bytes, str, Delivered]]) -> None:
        self._check()
        for pubkey, name, record in records:
            self.records.setdefault(pubkey, {})[name] = record

    async def delivered(self, pubkey: bytes) -> dict[str, Delivered]:
        self._check()
        return dict(self.records.get(pubkey, {}))

    async def doubtful(self) -> Delivered:
        self._check()
        return doubtful_since(self.began_ms)

    async def tidy(self, pubkey: bytes, changed: Mapping[str, Delivered], gone: set[str]) -> None:
        mine = self.records.setdefault(pubkey, {})
        mine.update(changed)
        for name in gone:
            del mine[name]

    def _check(self) -> None:
        if self.is_away:
            raise SignalLogUnavailable("away")
