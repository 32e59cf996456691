"""Stores races, the tickets of the calls that share them, and the reports of legs.

Implements: threat 18 (journalled before the first byte leaves); design, "What must survive what" and "Owners, for every
kind of actor". The port, and PostgreSQL. Decides nothing: a change names the state that it follows, and is refused in
any other; and it carries the epoch of its slice, and is refused once another racer has claimed that.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import asyncpg

from actors.gathered import Gathered
from actors.ownership.api import FENCED_SQLSTATE, SliceLost
from actors.ownership.held import HeldSlices
from actors.sends import statements
from actors.sends.core import LOOK_OFTEN_MS, Race, RaceState, Ticket
from actors.sends.slices import slice_of
from actors.storage.connections import away_as

AT_ONCE_MAX = 64  # Races in one statement, whose rows are made and read in one turn of the event loop.
# Errors that one row can cause, which must not refuse the others.
_OF_ONE_ROW = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.DeadlockDetectedError)

# The values of a row. `dataclasses.astuple` copies each of them, and takes ten times as long.
_OF_RACE = attrgetter(*(name for name, _ in statements.RACE))
_OF_TICKET = attrgetter(*(name for name, _ in statements.TICKET))
_OF_REPORT = attrgetter(*statements.REPORT_COLUMNS)
_STATE = [name for name, _ in statements.RACE].index("state")

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class RacesUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class _OneRefused(RacesUnavailable):
    """The database refused a whole statement, perhaps because of one row, and changed nothing."""


class _Fenced(_OneRefused):
    """One of the slices has another owner."""


@dataclass(frozen=True, slots=True)
class LegReport:
    """What a leg did with one broadcast. Times are Unix milliseconds, None where it did not come to that; error: empty
    where there was none. refused: the other side said that it does not take the transaction."""

    broadcast: int  # Counted from 1 over all windows.
    leg: str
    submitted_ms: int | None
    acknowledged_ms: int | None = None
    error: str = ""
    refused: bool = False

    @property
    def sent(self) -> bool:
        """Return whether the transaction may be on its way by this leg."""
        return self.submitted_ms is not None and not self.refused

    @property
    def result(self) -> str:
        """Return the end of this report in one word, for metrics."""
        if self.refused:
            return "refused"
        if self.submitted_ms is None:
            return "not_sent"
        return "unacknowledged" if self.acknowledged_ms is None else "acknowledged"


@dataclass(frozen=True, slots=True)
class KeptRace:
    """A race with the ticket of one call. reports: the newest LEGS_ROWS_MAX, oldest first."""

    race: Race
    ticket: Ticket
    reports: tuple[LegReport, ...] = ()


class RaceStore(Protocol):
    """What one racer reads and writes. Every write may raise SliceLost: it changed nothing, as its race is another
    racer's. What is due, hastened or forgotten is of the slices that this racer serves alone."""

    async def open(self, race: Race, ticket: Ticket, look_at_ms: int, open_max: int) -> Race | None:
        """Store a new race with its first ticket, or add the ticket to the race of this signature. Gives that race as
        it is stored. Asked again with the same operation, nothing changes. While the race is open, a ticket that comes
        after the hold of its first one has expired becomes the first.

        None: nothing was stored, because so many tickets of this account have not ended. Calls that come at the same
        moment are not counted by each other, so an account may get a few more."""
        ...

    async def broadcast(self, before: Race, after: Race, look_at_ms: int) -> bool:
        """Begin a broadcast or a window. False: the stored race is not `before` any more, and nothing may leave."""
        ...

    async def report(self, signature: bytes, reports: Sequence[LegReport]) -> None:
        """Store what legs did. One that sent the transaction makes an open race `sent`; an ended one stays as it is,
        since its charges follow from it. Asked again, nothing changes."""
        ...

    async def end(self, race: Race) -> bool:
        """Store the end of a race. False: it had ended before, and that end stands."""
        ...

    async def end_ticket(self, ticket: Ticket, charged: int) -> None:
        """Store that the hold of this ticket has ended, for good."""
        ...

    async def race(self, signature: bytes) -> Race | None: ...

    async def find(self, signature: bytes, pubkey: bytes, operation: bytes | None = None) -> KeptRace | None:
        """Find the race with this account's ticket of the operation, or with its newest one."""
        ...

    async def waiting(self, signature: bytes, after: bytes, limit: int) -> list[Ticket]:
        """List the tickets of a race that have not ended, by operation, from the first one above `after` on."""
        ...

    async def hasten(self, now_ms: int, slices: Collection[int]) -> None:
        """Make every race of these slices due that is not settled, whoever was to look at it and when."""
        ...

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Race]:
        """Take due races that are not settled, the longest waiting first. No other caller gets them until look_at_ms,
        and open ones of long ago until a quarter of their age past LOOK_OFTEN_MS later."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Remove settled races that ended before. Returns their number."""
        ...


class PostgresRaceStore:
    """The store in PostgreSQL, as one racer may write it. Every failure of the database raises RacesUnavailable.

    held: the racer's slices. Each write carries the epoch of its race's slice; one that is refused loses the slice.
    What is asked for races while a statement of its kind is under way goes into the next statement, in one transaction:
    a racer with thousands of races commits some dozen times a second, not thousands of times.
    """

    def __init__(self, pool: asyncpg.Pool, held: HeldSlices) -> None:
        self._pool, self._held = pool, held
        self._opens = self._together(self._open)
        self._broadcasts = self._together(self._broadcast)
        self._reports = self._together(self._report)
        self._ends = self._together(self._end)
        self._ticket_ends = self._together(self._end_tickets)
        self._races = self._together(self._read_races)
        self._finds = self._together(self._find)
        self._waits = self._together(self._waiting)

    @staticmethod
    def _together(work: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]) -> Gathered[Item, Answer]:
        return Gathered(work, AT_ONCE_MAX, alone=(_OneRefused,))

    # --- writes

    async def open(self, race: Race, ticket: Ticket, look_at_ms: int, open_max: int) -> Race | None:
        with self._writing(race.signature) as epoch:
            return await self._opens.ask((epoch, race, ticket, look_at_ms, open_max))

    async def _open(self, asked: Sequence[tuple[int, Race, Ticket, int, int]]) -> Sequence[Race | None]:
        rows = [
            (epoch, open_max, *_OF_RACE(race), look_at_ms, False, *_OF_TICKET(ticket), ticket.key)
            for epoch, race, ticket, look_at_ms, open_max in asked
        ]
        found: list[Race | None] = [None] * len(asked)
        for row in await self._each(statements.OPEN, rows):
            found[row["place"] - 1] = _race(tuple(row)[1:])
        return found

    async def broadcast(self, before: Race, after: Race, look_at_ms: int) -> bool:
        with self._writing(before.signature) as epoch:
            return await self._broadcasts.ask((epoch, before, after, look_at_ms))

    async def _broadcast(self, asked: Sequence[tuple[int, Race, Race, int]]) -> Sequence[bool]:
        rows = [
            (
                *(epoch, before.signature, before.window_at_ms, before.broadcasts),
                *(after.window_at_ms, after.window_slot, after.last_slot, after.broadcasts, after.retries, look_at_ms),
            )
            for epoch, before, after, look_at_ms in asked
        ]
        return await self._done(statements.BROADCAST, rows)

    async def report(self, signature: bytes, reports: Sequence[LegReport]) -> None:
        with self._writing(signature) as epoch:
            await self._reports.ask((epoch, signature, reports))

    async def _report(self, asked: Sequence[tuple[int, bytes, Sequence[LegReport]]]) -> Sequence[None]:
        """Store the reports. All races share one list; each race names its part of it."""
        every = [report for _, _, reports in asked for report in reports]
        columns = list(zip(*map(_OF_REPORT, every), strict=True)) or [()] * len(statements.REPORT_COLUMNS)
        ends = accumulate(len(reports) for _, _, reports in asked)
        rows = [
            (epoch, signature, any(report.sent for report in reports), end - len(reports) + 1, end)
            for (epoch, signature, reports), end in zip(asked, ends, strict=True)
        ]
        await self._each(statements.REPORT, rows, *columns)
        return [None] * len(asked)

    async def end(self, race: Race) -> bool:
        with self._writing(race.signature) as epoch:
            return await self._ends.ask((epoch, race))

    async def _end(self, asked: Sequence[tuple[int, Race]]) -> Sequence[bool]:
        rows = [
            (epoch, race.signature, race.state.value, race.slot, race.error, race.ended_at_ms) for epoch, race in asked
        ]
        return await self._done(statements.END, rows)

    async def end_ticket(self, ticket: Ticket, charged: int) -> None:
        with self._writing(ticket.signature) as epoch:
            await self._ticket_ends.ask((epoch, ticket.signature, ticket.operation, charged))

    async def _end_tickets(self, asked: Sequence[tuple[int, bytes, bytes, int]]) -> Sequence[None]:
        await self._each(statements.END_TICKET, asked)
        return [None] * len(asked)

    # --- reads

    async def race(self, signature: bytes) -> Race | None:
        return await self._races.ask((signature,))

    async def _read_races(self, asked: Sequence[tuple[bytes]]) -> Sequence[Race | None]:
        found: list[Race | None] = [None] * len(asked)
        for row in await self._each(statements.RACE_OF, asked):
            found[row["place"] - 1] = _race(tuple(row)[1:])
        return found

    async def find(self, signature: bytes, pubkey: bytes, operation: bytes | None = None) -> KeptRace | None:
        return await self._finds.ask((signature, pubkey, operation))

    async def _find(self, asked: Sequence[tuple[bytes, bytes, bytes | None]]) -> Sequence[KeptRace | None]:
        found: list[KeptRace | None] = [None] * len(asked)
        for row in await self._each(statements.FIND, asked):
            place, *values = row.values()
            *values, reports = values
            race, ticket = values[: len(statements.RACE)], values[len(statements.RACE) :]
            told = tuple(LegReport(*report) for report in reversed(reports))
            found[place - 1] = KeptRace(_race(race), Ticket(*ticket), told)
        return found

    async def waiting(self, signature: bytes, after: bytes, limit: int) -> list[Ticket]:
        return await self._waits.ask((signature, after, limit))

    async def _waiting(self, asked: Sequence[tuple[bytes, bytes, int]]) -> Sequence[list[Ticket]]:
        found: list[list[Ticket]] = [[] for _ in asked]
        for row in await self._each(statements.WAITING, asked):
            found[row["place"] - 1].append(Ticket(*list(row.values())[1:]))
        return found

    async def _done(self, statement: str, rows: Sequence[Sequence[Any]]) -> list[bool]:
        found = {row["place"]: bool(row["done"]) for row in await self._each(statement, rows)}
        return [found[place] for place in range(1, len(rows) + 1)]

    async def _each(self, statement: str, rows: Sequence[Sequence[Any]], *more: Any) -> list[Any]:
        """Run a statement for all of these rows, passed as columns."""
        with away_as(RacesUnavailable):
            try:
                return list(await self._pool.fetch(statement, *zip(*rows, strict=True), *more))
            except asyncpg.PostgresError as error:
                if error.sqlstate == FENCED_SQLSTATE:
                    raise _Fenced from error
                if isinstance(error, _OF_ONE_ROW):
                    raise _OneRefused(f"{type(error).__name__}: {error}") from error
                raise

    # --- what is due

    async def hasten(self, now_ms: int, slices: Collection[int]) -> None:
        numbers, epochs = self._serving(slices)
        with away_as(RacesUnavailable):
            await self._pool.execute("SELECT sends_hasten($1, $2, $3)", numbers, epochs, now_ms)

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Race]:
        with away_as(RacesUnavailable):
            rows = await self._pool.fetch(
                f"SELECT {statements.RACES} FROM sends_due($1, $2, $3, $4, $5, $6)",  # noqa: S608 - our own names.
                *self._serving(),
                now_ms,
                look_at_ms,
                limit,
                LOOK_OFTEN_MS,
            )
        return [_race(row) for row in rows]

    async def forget(self, before_ms: int) -> int:
        with away_as(RacesUnavailable):
            return int(await self._pool.fetchval("SELECT sends_forget($1, $2, $3)", *self._serving(), before_ms))

    def _serving(self, slices: Collection[int] | None = None) -> tuple[list[int], list[int]]:
        """Return those of these slices that are served, with their epochs."""
        found = {n: epoch for n, epoch in self._held.serving().items() if slices is None or n in slices}
        return list(found), list(found.values())

    @contextmanager
    def _writing(self, signature: bytes) -> Iterator[int]:
        """Give the epoch that the write carries. Raises SliceLost, also where the database refuses the epoch."""
        number = slice_of(signature)
        epoch = self._held.epoch(number)
        if epoch is None:
            raise SliceLost(f"slice {number} is not held")
        try:
            yield epoch
        except _Fenced as error:
            self._held.lose(number, epoch)
            raise SliceLost(f"slice {number} has another owner") from error


def _race(row: Iterable[Any]) -> Race:
    values = list(row)
    values[_STATE] = RaceState(values[_STATE])
    return Race(*values)
