"""A store of races in memory; it passes the tests of the one in PostgreSQL (test_store.py)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from actors.ownership.api import SliceLost
from actors.ownership.held import HeldSlices
from actors.sends.core import HOLD_MS, LEGS_ROWS_MAX, LOOK_OFTEN_MS, Race, RaceState, Ticket
from actors.sends.slices import KIND, SLICES, slice_of
from actors.sends.store import KeptRace, LegReport
from tests.ownership.memory_store import MemoryOwnership


@dataclass
class Tables:
    """What all racers share."""

    ownership: MemoryOwnership = field(default_factory=MemoryOwnership)
    races: dict[bytes, Race] = field(default_factory=dict)
    tickets: dict[bytes, Ticket] = field(default_factory=dict)
    reports: dict[bytes, list[LegReport]] = field(default_factory=dict)
    look_at: dict[bytes, int] = field(default_factory=dict)


class MemoryRaceStore:
    """As one racer writes it. Without arguments: of the only one, which holds every slice."""

    def __init__(self, tables: Tables | None = None, held: HeldSlices | None = None) -> None:
        self.tables = tables or Tables()
        self.races, self.tickets = self.tables.races, self.tables.tickets
        self.reports, self._look_at = self.tables.reports, self.tables.look_at
        if held is None:
            held = HeldSlices()
            held.took(range(SLICES), self.tables.ownership.claim_now(KIND, range(SLICES), "racer"))
        self.held = held

    def _check(self, signature: bytes) -> None:
        number = slice_of(signature)
        epoch = self.held.epoch(number)
        if epoch is None:
            raise SliceLost(f"slice {number}")
        try:
            self.tables.ownership.check(KIND, number, epoch)
        except SliceLost:
            self.held.lose(number, epoch)
            raise

    def _is_served(self, signature: bytes) -> bool:
        number, serving = slice_of(signature), self.held.serving()
        return number in serving and self.tables.ownership.epoch(KIND, number) == serving[number]

    async def open(self, race: Race, ticket: Ticket, look_at_ms: int, open_max: int) -> Race | None:
        self._check(race.signature)
        waiting = [each for each in self.tickets.values() if each.pubkey == ticket.pubkey and each.charged is None]
        if ticket.operation not in self.tickets and len(waiting) >= open_max:
            return None
        if race.signature not in self.races:
            self.races[race.signature] = race
            self._look_at[race.signature] = look_at_ms
        if ticket.operation not in self.tickets:
            for each in self._tickets_of(race.signature):
                is_late = ticket.opened_at_ms - each.opened_at_ms >= HOLD_MS
                if each.first and is_late and self.races[race.signature].state.open:
                    self.tickets[each.operation] = replace(each, first=False)
            first = not any(each.first for each in self._tickets_of(race.signature))
            self.tickets[ticket.operation] = replace(ticket, first=first, charged=None)
        return self.races[race.signature]

    async def broadcast(self, before: Race, after: Race, look_at_ms: int) -> bool:
        self._check(before.signature)
        kept = self.races[before.signature]
        if (kept.state, kept.window_at_ms, kept.broadcasts) != (RaceState.OPEN, before.window_at_ms, before.broadcasts):
            return False
        self.races[before.signature] = replace(
            kept,
            window_at_ms=after.window_at_ms,
            window_slot=after.window_slot,
            last_slot=after.last_slot,
            broadcasts=after.broadcasts,
            retries=after.retries,
        )
        self._look_at[before.signature] = look_at_ms
        return True

    async def report(self, signature: bytes, reports: Sequence[LegReport]) -> None:
        self._check(signature)
        if signature not in self.races:
            return
        kept = self.reports.setdefault(signature, [])
        known = {(report.broadcast, report.leg) for report in kept}
        kept.extend(report for report in reports if (report.broadcast, report.leg) not in known)
        if self.races[signature].state.open and any(report.sent for report in reports):
            self.races[signature] = replace(self.races[signature], sent=True)

    async def end(self, race: Race) -> bool:
        self._check(race.signature)
        kept = self.races[race.signature]
        if not kept.state.open:
            return False
        self.races[race.signature] = replace(
            kept, state=race.state, slot=race.slot, error=race.error, ended_at_ms=race.ended_at_ms
        )
        return True

    async def end_ticket(self, ticket: Ticket, charged: int) -> None:
        self._check(ticket.signature)
        kept = self.tickets[ticket.operation]
        if kept.charged is None:
            self.tickets[kept.operation] = replace(kept, charged=charged)

    async def race(self, signature: bytes) -> Race | None:
        return self.races.get(signature)

    async def find(self, signature: bytes, pubkey: bytes, operation: bytes | None = None) -> KeptRace | None:
        mine = [
            ticket
            for ticket in self._tickets_of(signature)
            if ticket.pubkey == pubkey and operation in (None, ticket.operation)
        ]
        if not mine:
            return None
        newest = max(mine, key=lambda ticket: (ticket.opened_at_ms, ticket.operation))
        return KeptRace(self.races[signature], newest, tuple(self.reports.get(signature, [])[-LEGS_ROWS_MAX:]))

    async def waiting(self, signature: bytes, after: bytes, limit: int) -> list[Ticket]:
        found = [ticket for ticket in self._tickets_of(signature) if ticket.charged is None]
        return sorted((one for one in found if one.operation > after), key=lambda one: one.operation)[:limit]

    async def hasten(self, now_ms: int, slices: Collection[int]) -> None:
        for signature, at in self._look_at.items():
            if slice_of(signature) in slices and self._is_served(signature):
                self._look_at[signature] = min(at, now_ms)

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Race]:
        waiting = sorted(
            (at, signature)
            for signature, at in self._look_at.items()
            if at <= now_ms and not self._is_settled(signature) and self._is_served(signature)
        )
        for _, signature in waiting[:limit]:
            race = self.races[signature]
            extra = max(0, now_ms - race.window_at_ms - LOOK_OFTEN_MS) // 4 if race.state.open else 0
            self._look_at[signature] = look_at_ms + extra
        return [self.races[signature] for _, signature in waiting[:limit]]

    async def forget(self, before_ms: int) -> int:
        old = [
            signature
            for signature, race in self.races.items()
            if self._is_settled(signature) and race.ended_at_ms < before_ms and self._is_served(signature)
        ]
        for signature in old:
            for ticket in self._tickets_of(signature):
                del self.tickets[ticket.operation]
            del self.races[signature], self._look_at[signature]
            self.reports.pop(signature, None)
        return len(old)

    def _tickets_of(self, signature: bytes) -> list[Ticket]:
        return [ticket for ticket in self.tickets.values() if ticket.signature == signature]

    def _is_settled(self, signature: bytes) -> bool:
        if self.races[signature].state.open:
            return False
        return all(ticket.charged is not None for ticket in self._tickets_of(signature))
