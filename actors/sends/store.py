"""What must survive of races: the races, the tickets of the calls that share them, and what each leg did.

Implements: hostile input 18 (journalled before the first byte leaves); design, section 5. The port, and PostgreSQL.
Decides nothing: a change names the state that it follows, and is refused in any other.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Protocol

import asyncpg

from actors.sends.core import LEGS_ROWS_MAX, LOOK_OFTEN_MS, Race, RaceState, Ticket
from actors.storage.connections import away_as

_RACE_COLUMNS = tuple(field.name for field in fields(Race))
_TICKET_COLUMNS = tuple(field.name for field in fields(Ticket))
_RACES, _TICKETS = ", ".join(_RACE_COLUMNS), ", ".join(_TICKET_COLUMNS)
_REPORTS = "broadcast, leg, submitted_ms, acknowledged_ms, error"


class RacesUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


@dataclass(frozen=True, slots=True)
class LegReport:
    """What a leg did with one broadcast. Times are Unix milliseconds, None where it did not come to that; error: empty
    where there was none."""

    broadcast: int  # Counted from 1 over all windows.
    leg: str
    submitted_ms: int | None
    acknowledged_ms: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class KeptRace:
    """tickets: in the order in which they came. reports: the newest LEGS_ROWS_MAX, oldest first."""

    race: Race
    tickets: tuple[Ticket, ...]
    reports: tuple[LegReport, ...] = ()


class RaceStore(Protocol):
    async def open(self, race: Race, ticket: Ticket, look_at_ms: int) -> Race:
        """Store a new race with its first ticket, or add the ticket to the race of this signature. Gives that race as
        it is stored. Asked again with the same operation, nothing changes."""
        ...

    async def broadcast(self, before: Race, after: Race, look_at_ms: int) -> bool:
        """A broadcast or a window begins. False: the stored race is not `before` any more, and nothing may leave."""
        ...

    async def report(self, signature: bytes, reports: Sequence[LegReport]) -> None:
        """What legs did. One that submitted anything makes the race `sent`."""
        ...

    async def end(self, race: Race) -> bool:
        """The race has ended. False: it had before, and that end stands."""
        ...

    async def end_ticket(self, operation: bytes, charged: int) -> None:
        """The hold of this ticket has ended, for good."""
        ...

    async def find(self, signature: bytes) -> KeptRace | None: ...

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Race]:
        """Races that are not settled and due, the longest waiting first. No other caller gets them until look_at_ms,
        and open ones of long ago until a quarter of their age past LOOK_OFTEN_MS later."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Remove settled races that ended before. Returns their number."""
        ...


class PostgresRaceStore:
    """In PostgreSQL. Every failure of the database raises RacesUnavailable."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def open(self, race: Race, ticket: Ticket, look_at_ms: int) -> Race:
        given = (*astuple(race), look_at_ms, False, *astuple(ticket))
        marks = [f"${number}" for number in range(1, len(given) + 1)]
        races = ", ".join(marks[: len(_RACE_COLUMNS) + 2])
        tickets = ", ".join(marks[len(_RACE_COLUMNS) + 2 :])
        with away_as(RacesUnavailable):
            row = await self._pool.fetchrow(
                f"SELECT {_RACES} FROM sends_open("  # noqa: S608 - our own names.
                f"ROW ({races})::send_races, ROW ({tickets})::send_tickets)",
                *given,
            )
        return _race(row)

    async def broadcast(self, before: Race, after: Race, look_at_ms: int) -> bool:
        with away_as(RacesUnavailable):
            done = await self._pool.execute(
                "UPDATE send_races SET window_at_ms = $4, window_slot = $5, last_slot = $6, broadcasts = $7, "
                "retries = $8, look_at_ms = $9 "
                "WHERE signature = $1 AND state = 0 AND window_at_ms = $2 AND broadcasts = $3",
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
        return bool(done == "UPDATE 1")

    async def report(self, signature: bytes, reports: Sequence[LegReport]) -> None:
        rows = list(zip(*(astuple(report) for report in reports), strict=True))
        with away_as(RacesUnavailable):
            await self._pool.execute(
                "WITH taken AS ("  # noqa: S608 - our own names.
                "    UPDATE send_races SET sent = sent OR $2 WHERE signature = $1 RETURNING signature) "
                f"INSERT INTO send_reports (signature, {_REPORTS}) "
                "SELECT taken.signature, new.* FROM taken, "
                "unnest($3::integer[], $4::text[], $5::bigint[], $6::bigint[], $7::text[]) AS new",
                signature,
                any(report.submitted_ms is not None for report in reports),
                *rows,
            )

    async def end(self, race: Race) -> bool:
        with away_as(RacesUnavailable):
            done = await self._pool.execute(
                "UPDATE send_races SET state = $2, slot = $3, error = $4, ended_at_ms = $5 "
                "WHERE signature = $1 AND state < 10",
                race.signature,
                race.state.value,
                race.slot,
                race.error,
                race.ended_at_ms,
            )
        return bool(done == "UPDATE 1")

    async def end_ticket(self, operation: bytes, charged: int) -> None:
        with away_as(RacesUnavailable):
            await self._pool.execute("SELECT sends_end_ticket($1, $2)", operation, charged)

    async def find(self, signature: bytes) -> KeptRace | None:
        with away_as(RacesUnavailable):
            async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
                race = await connection.fetchrow(
                    f"SELECT {_RACES} FROM send_races WHERE signature = $1",  # noqa: S608 - our own names.
                    signature,
                )
                if race is None:
                    return None
                tickets = await connection.fetch(
                    f"SELECT {_TICKETS} FROM send_tickets WHERE signature = $1 "  # noqa: S608 - our own names.
                    "ORDER BY NOT first, opened_at_ms, operation",
                    signature,
                )
                reports = await connection.fetch(
                    f"SELECT {_REPORTS} FROM send_reports WHERE signature = $1 "  # noqa: S608 - our own names.
                    "ORDER BY number DESC LIMIT $2",
                    signature,
                    LEGS_ROWS_MAX,
                )
        reports.reverse()
        return KeptRace(_race(race), tuple(Ticket(*row) for row in tickets), tuple(LegReport(*row) for row in reports))

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Race]:
        with away_as(RacesUnavailable):
            rows = await self._pool.fetch(
                "UPDATE send_races SET look_at_ms = $2 + "  # noqa: S608 - our own names.
                "CASE WHEN state = 0 THEN greatest(0, $1 - window_at_ms - $4) / 4 ELSE 0 END WHERE signature IN ("
                "SELECT signature FROM send_races WHERE NOT settled AND look_at_ms <= $1 "
                f"ORDER BY look_at_ms LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING {_RACES}",
                now_ms,
                look_at_ms,
                limit,
                LOOK_OFTEN_MS,
            )
        return [_race(row) for row in rows]

    async def forget(self, before_ms: int) -> int:
        with away_as(RacesUnavailable):
            done = await self._pool.execute("DELETE FROM send_races WHERE settled AND ended_at_ms < $1", before_ms)
        return int(done.rpartition(" ")[2])


def _race(row: Any) -> Race:
    race = Race(*row)
    return replace(race, state=RaceState(race.state))
