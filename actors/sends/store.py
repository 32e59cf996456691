"""What must survive of races: the races, the tickets of the calls that share them, and what each leg did.

Implements: threat 18 (journalled before the first byte leaves); design, "What must survive what" and "Owners, for every
kind of actor". The port, and PostgreSQL. Decides nothing: a change names the state that it follows, and is refused in
any other; and it carries the epoch of its slice, and is refused once another racer has claimed that.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Protocol

import asyncpg

from actors.ownership.api import FENCED_SQLSTATE, SliceLost
from actors.ownership.held import HeldSlices
from actors.sends.core import HOLD_MS, LEGS_ROWS_MAX, LOOK_OFTEN_MS, Race, RaceState, Ticket
from actors.sends.slices import slice_of
from actors.storage.connections import away_as

_RACE_COLUMNS = tuple(field.name for field in fields(Race))
_TICKET_COLUMNS = tuple(field.name for field in fields(Ticket))
_RACES, _TICKETS = ", ".join(_RACE_COLUMNS), ", ".join(_TICKET_COLUMNS)
_REPORTS = "broadcast, leg, submitted_ms, acknowledged_ms, error, refused"  # In the order of LegReport's fields.


class RacesUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


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
    """

    def __init__(self, pool: asyncpg.Pool, held: HeldSlices) -> None:
        self._pool, self._held = pool, held

    async def open(self, race: Race, ticket: Ticket, look_at_ms: int, open_max: int) -> Race | None:
        given = (*astuple(race), look_at_ms, False, *astuple(ticket))
        marks = [f"${number}" for number in range(4, len(given) + 4)]
        races = ", ".join(marks[: len(_RACE_COLUMNS) + 2])
        tickets = ", ".join(marks[len(_RACE_COLUMNS) + 2 :])
        statement = (
            f"SELECT {_RACES} FROM sends_open_owned("  # noqa: S608 - our own names.
            f"$1, ROW ({races})::send_races, ROW ({tickets})::send_tickets, $2, $3)"
        )
        with self._writing(race.signature) as epoch:
            row = await self._pool.fetchrow(statement, epoch, open_max, HOLD_MS, *given)
        return None if row is None else _race(row)

    async def broadcast(self, before: Race, after: Race, look_at_ms: int) -> bool:
        with self._writing(before.signature) as epoch:
            done = await self._pool.fetchval(
                "SELECT sends_broadcast($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                epoch,
                before.signature,
                before.window_at_ms,
                before.broadcasts,
                after.window_at_ms,
                after.window_slot,
                after.last_slot,
                after.broadcasts,
                after.retries,
                look_at_ms,
            )
        return bool(done)

    async def report(self, signature: bytes, reports: Sequence[LegReport]) -> None:
        rows = list(zip(*(astuple(report) for report in reports), strict=True)) or [()] * len(fields(LegReport))
        is_sent = any(report.sent for report in reports)
        with self._writing(signature) as epoch:
            await self._pool.execute(
                "SELECT sends_report($1, $2, $3, $4, $5, $6, $7, $8, $9)", epoch, signature, is_sent, *rows
            )

    async def end(self, race: Race) -> bool:
        with self._writing(race.signature) as epoch:
            done = await self._pool.fetchval(
                "SELECT sends_end($1, $2, $3, $4, $5, $6)",
                epoch,
                race.signature,
                race.state.value,
                race.slot,
                race.error,
                race.ended_at_ms,
            )
        return bool(done)

    async def end_ticket(self, ticket: Ticket, charged: int) -> None:
        with self._writing(ticket.signature) as epoch:
            await self._pool.execute(
                "SELECT sends_end_ticket_owned($1, $2, $3, $4)", epoch, ticket.signature, ticket.operation, charged
            )

    async def race(self, signature: bytes) -> Race | None:
        with away_as(RacesUnavailable):
            row = await self._pool.fetchrow(
                f"SELECT {_RACES} FROM send_races WHERE signature = $1",  # noqa: S608 - our own names.
                signature,
            )
        return None if row is None else _race(row)

    async def find(self, signature: bytes, pubkey: bytes, operation: bytes | None = None) -> KeptRace | None:
        with away_as(RacesUnavailable):
            async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
                ticket = await connection.fetchrow(
                    f"SELECT {_TICKETS} FROM send_tickets WHERE signature = $1 AND pubkey = $2 "  # noqa: S608
                    "AND ($3::bytea IS NULL OR operation = $3) ORDER BY opened_at_ms DESC, operation DESC LIMIT 1",
                    signature,
                    pubkey,
                    operation,
                )
                if ticket is None:
                    return None
                race = await connection.fetchrow(
                    f"SELECT {_RACES} FROM send_races WHERE signature = $1",  # noqa: S608 - our own names.
                    signature,
                )
                reports = await connection.fetch(
                    f"SELECT {_REPORTS} FROM send_reports WHERE signature = $1 "  # noqa: S608 - our own names.
                    "ORDER BY number DESC LIMIT $2",
                    signature,
                    LEGS_ROWS_MAX,
                )
        reports.reverse()
        return KeptRace(_race(race), Ticket(*ticket), tuple(LegReport(*row) for row in reports))

    async def waiting(self, signature: bytes, after: bytes, limit: int) -> list[Ticket]:
        with away_as(RacesUnavailable):
            rows = await self._pool.fetch(
                f"SELECT {_TICKETS} FROM send_tickets WHERE signature = $1 AND charged IS NULL "  # noqa: S608
                "AND operation > $2 ORDER BY operation LIMIT $3",
                signature,
                after,
                limit,
            )
        return [Ticket(*row) for row in rows]

    async def hasten(self, now_ms: int, slices: Collection[int]) -> None:
        numbers, epochs = self._serving(slices)
        with away_as(RacesUnavailable):
            await self._pool.execute("SELECT sends_hasten($1, $2, $3)", numbers, epochs, now_ms)

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Race]:
        with away_as(RacesUnavailable):
            rows = await self._pool.fetch(
                f"SELECT {_RACES} FROM sends_due($1, $2, $3, $4, $5, $6)",  # noqa: S608 - our own names.
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
        """Return the slices that are served, of these, and their epochs."""
        found = {n: epoch for n, epoch in self._held.serving().items() if slices is None or n in slices}
        return list(found), list(found.values())

    @contextmanager
    def _writing(self, signature: bytes) -> Iterator[int]:
        """Give the epoch that the write carries. Raises SliceLost, also where the database refuses the epoch."""
        number = slice_of(signature)
        epoch = self._held.epoch(number)
        if epoch is None:
            raise SliceLost(f"slice {number} is not held")
        with away_as(RacesUnavailable):
            try:
                yield epoch
            except asyncpg.PostgresError as error:
                if error.sqlstate != FENCED_SQLSTATE:
                    raise
                self._held.lose(number, epoch)
                raise SliceLost(f"slice {number} has another owner") from error


def _race(row: Any) -> Race:
    race = Race(*row)
    return replace(race, state=RaceState(race.state))
