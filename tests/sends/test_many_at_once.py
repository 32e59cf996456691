"""What a racer asks its store for many races at once: each has its own answer, and a bad one refuses no other."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from actors.ownership.api import SliceLost
from actors.ownership.held import HeldSlices
from actors.ownership.store import PostgresOwnership
from actors.sends.core import RaceStep, broadcast_begins, ended
from actors.sends.slices import KIND, SLICES, slice_of
from actors.sends.store import LegReport, PostgresRaceStore, RacesUnavailable
from actors.upstream.signature_status import SignatureStatus
from tests.databases import emptied
from tests.sends.making import NOW, a_race, a_ticket

MANY = 1_000
ACCOUNT = a_ticket().pubkey
CONFIRMED = SignatureStatus(105, None, confirmed=True, finalized=False)


@pytest.fixture
async def pool(postgres_url: str, owner_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with emptied(postgres_url, owner_url, "TRUNCATE send_races, ownership CASCADE") as pool:
        yield pool


@pytest.fixture
async def store(pool: asyncpg.Pool) -> PostgresRaceStore:
    held = HeldSlices()
    held.took(range(SLICES), await PostgresOwnership(pool).claim(KIND, range(SLICES), "racer"))
    return PostgresRaceStore(pool, held)


async def test_what_is_asked_at_once_is_answered_to_each(store: PostgresRaceStore) -> None:
    """More races than one statement takes, from the first call to the end, each with figures of its own."""
    numbers = range(1, 201)
    races = [a_race(number, started_slot=number) for number in numbers]
    tickets = [a_ticket(number, number) for number in numbers]
    opened_races = (store.open(race, ticket, 0, MANY) for race, ticket in zip(races, tickets, strict=True))
    assert await asyncio.gather(*opened_races) == races
    begun = [broadcast_begins(race, 100 + number) for number, race in zip(numbers, races, strict=True)]
    asked = (store.broadcast(race, after, 9) for race, after in zip(races, begun, strict=True))
    assert await asyncio.gather(*asked) == [True] * len(races)
    reports = [
        [LegReport(1, f"leg {leg}", number, None, f"{number}", number % 2 == 0) for leg in range(number % 3)]
        for number in numbers
    ]
    await asyncio.gather(*(store.report(one.signature, told) for one, told in zip(races, reports, strict=True)))
    found = await asyncio.gather(*(store.find(race.signature, ACCOUNT) for race in races))
    assert [kept.race for kept in found if kept] == [
        replace(after, sent=any(report.sent for report in told)) for after, told in zip(begun, reports, strict=True)
    ]
    assert [list(kept.reports) for kept in found if kept] == reports
    done = [ended(kept.race, RaceStep.CONFIRM, replace(CONFIRMED, slot=200), NOW) for kept in found if kept]
    assert await asyncio.gather(*map(store.end, done)) == [True] * len(races)
    assert await asyncio.gather(*map(store.end, done)) == [False] * len(races)
    waits = await asyncio.gather(*(store.waiting(race.signature, b"", 9) for race in races))
    assert [[ticket.operation for ticket in wait] for wait in waits] == [[ticket.operation] for ticket in tickets]
    await asyncio.gather(
        *(store.end_ticket(ticket, number % 50) for number, ticket in zip(numbers, tickets, strict=True))
    )
    assert await asyncio.gather(*(store.race(race.signature) for race in (*races, a_race(250)))) == [*done, None]
    found = await asyncio.gather(*(store.find(race.signature, ACCOUNT) for race in races))
    assert [kept.ticket.charged for kept in found if kept] == [number % 50 for number in numbers]


async def test_a_slice_that_has_moved_refuses_its_own_races_alone(store: PostgresRaceStore, pool: asyncpg.Pool) -> None:
    """Its race stands in one statement with others."""
    lost = slice_of(a_race(40).signature)
    numbers = [number for number in range(1, 40) if slice_of(a_race(number).signature) != lost]
    await PostgresOwnership(pool).claim(KIND, [lost], "another racer")
    asked = (store.open(a_race(number), a_ticket(number, number), 0, MANY) for number in (*numbers, 40))
    *others, moved = await asyncio.gather(*asked, return_exceptions=True)
    assert others == [a_race(number) for number in numbers] and isinstance(moved, SliceLost)
    assert await store.race(a_race(40).signature) is None


async def test_a_row_that_the_database_refuses_refuses_no_other(store: PostgresRaceStore) -> None:
    for bad in (a_race(2, error="\0"), a_race(2, slot=1 << 70), a_race(2, broadcasts=9)):
        races = [a_race(1), bad, a_race(3)]
        asked = (store.open(race, a_ticket(number, number), 0, MANY) for number, race in enumerate(races, 1))
        first, refused, last = await asyncio.gather(*asked, return_exceptions=True)
        assert (first, last) == (races[0], races[2]) and isinstance(refused, RacesUnavailable)
    assert await store.race(a_race(2).signature) is None
