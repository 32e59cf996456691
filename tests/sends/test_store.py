"""Both stores of races: one first ticket, no broadcast twice, one end, and everything open is found again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from actors.ownership.api import SliceLost
from actors.ownership.held import HeldSlices
from actors.ownership.store import OwnershipStore, PostgresOwnership
from actors.sends.core import (
    HOLD_MS,
    LEGS_ROWS_MAX,
    LOOK_OFTEN_MS,
    Race,
    RaceState,
    RaceStep,
    Ticket,
    broadcast_begins,
    ended,
    window_opens,
)
from actors.sends.slices import KIND, SLICES, slice_of
from actors.sends.store import KeptRace, LegReport, PostgresRaceStore, RaceStore, RacesUnavailable
from actors.storage.connections import connect_postgres
from actors.upstream.signature_status import SignatureStatus
from tests.databases import emptied
from tests.sends.making import NOW, a_race, a_ticket
from tests.sends.memory_store import MemoryRaceStore, Tables

MANY = 1_000
ACCOUNT = a_ticket().pubkey
CONFIRMED = SignatureStatus(105, None, confirmed=True, finalized=False)


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, postgres_url: str, owner_url: str) -> AsyncIterator[RaceStore]:
    if request.param == "memory":
        yield MemoryRaceStore()
        return
    async with emptied(postgres_url, owner_url, "TRUNCATE send_races, ownership CASCADE") as pool:
        held = HeldSlices()
        held.took(range(SLICES), await PostgresOwnership(pool).claim(KIND, range(SLICES), "racer"))
        yield PostgresRaceStore(pool, held)


async def opened(store: RaceStore, race: Race, ticket: Ticket, look_at_ms: int) -> Race:
    stored = await store.open(race, ticket, look_at_ms, MANY)
    assert stored is not None
    return stored


async def kept(store: RaceStore, number: int = 1) -> KeptRace:
    """The race, with the newest ticket of the one account."""
    found = await store.find(a_race(number).signature, ACCOUNT)
    assert found is not None
    return found


async def test_what_was_opened_is_found_whole(store: RaceStore) -> None:
    race, ticket = a_race(nonce_account="nonce"), a_ticket()
    assert await store.open(race, ticket, 0, MANY) == race
    assert await store.race(race.signature) == race
    assert await store.find(race.signature, ACCOUNT) == KeptRace(race, replace(ticket, first=True))
    assert await store.race(b"z" * 64) is None and await store.find(b"z" * 64, ACCOUNT) is None


async def test_an_account_finds_its_own_ticket(store: RaceStore) -> None:
    """The newest, or the one of an operation; never another account's."""
    race = await opened(store, a_race(), a_ticket(1), 0)
    await opened(store, race, a_ticket(2, opened_at_ms=NOW + 5), 0)
    await opened(store, race, a_ticket(3, opened_at_ms=NOW + 9, pubkey=b"q" * 32), 0)
    assert (await kept(store)).ticket == a_ticket(2, opened_at_ms=NOW + 5)
    found = await store.find(race.signature, ACCOUNT, a_ticket(1).operation)
    assert found is not None and found.ticket == a_ticket(1, first=True)
    assert await store.find(race.signature, ACCOUNT, a_ticket(3).operation) is None
    assert await store.find(race.signature, b"r" * 32) is None


async def test_a_ticket_keeps_the_number_of_the_key_that_pays(store: RaceStore) -> None:
    """Decisions, "Named keys": whichever racer ends the hold, and whoever has the account then."""
    await opened(store, a_race(), replace(a_ticket(), key=3), NOW)
    assert (await kept(store)).ticket.key == 3
    (waiting,) = await store.waiting(a_race().signature, b"", 10)
    assert waiting.key == 3


async def test_an_account_has_only_so_many_tickets_that_have_not_ended(store: RaceStore) -> None:
    """A race that never lands would cost nothing while it is open. What is refused is not stored."""
    for number in (1, 2):
        assert await store.open(a_race(number), a_ticket(number, number), 0, 2) is not None
    assert await store.open(a_race(3), a_ticket(3, 3), 0, 2) is None
    assert await store.race(a_race(3).signature) is None
    assert await store.open(a_race(1), a_ticket(4, 1), 0, 2) is None  # Another call of an open race counts too.
    assert await store.open(a_race(1), a_ticket(1, 1), 0, 2) is not None  # The same call again does not.
    assert await store.open(a_race(3), a_ticket(3, 3, pubkey=b"q" * 32), 0, 2) is not None
    await store.end_ticket(a_ticket(1), 2)
    assert await store.open(a_race(5), a_ticket(5, 5), 0, 2) is not None


async def test_tickets_that_have_not_ended_are_read_in_parts(store: RaceStore) -> None:
    """One signature may have thousands of calls; its end must not read those that have ended before."""
    for number in (3, 1, 4, 2):
        await store.open(a_race(), a_ticket(number), 0, MANY)
    await store.end_ticket(a_ticket(2), 2)
    first = await store.waiting(a_race().signature, b"", 2)
    rest = await store.waiting(a_race().signature, first[-1].operation, 2)
    assert [ticket.operation[0] for ticket in (*first, *rest)] == [1, 3, 4]


async def test_of_many_calls_at_once_one_ticket_is_the_first(store: RaceStore) -> None:
    """Decisions, "same bytes sent again": concurrent calls share one race, and one of them pays for the landing."""
    races = [a_race(started_at_ms=NOW + number, window_at_ms=NOW + number) for number in range(20)]
    stored = await asyncio.gather(*(store.open(race, a_ticket(number), 0, MANY) for number, race in enumerate(races)))
    assert len(set(stored)) == 1 and stored[0] in races
    tickets = await store.waiting(races[0].signature, b"", MANY)
    assert len(tickets) == 20 and sum(ticket.first for ticket in tickets) == 1


async def test_a_call_that_is_opened_again_changes_nothing(store: RaceStore) -> None:
    """A message delivered twice takes no second ticket."""
    await store.open(a_race(), a_ticket(), 0, MANY)
    await store.end_ticket(a_ticket(), 2)
    await store.open(a_race(started_slot=7), a_ticket(landing=70), 0, MANY)
    assert await kept(store) == KeptRace(a_race(), a_ticket(first=True, charged=2))


async def test_a_call_after_the_hold_of_the_first_one_pays_for_the_landing(store: RaceStore) -> None:
    """Else an account whose credits are gone by then would take over the landing of another one, which pays base."""
    race = await opened(store, a_race(), a_ticket(1), 0)
    for number, later_ms in ((2, HOLD_MS - 1), (3, HOLD_MS), (4, HOLD_MS + 1)):
        await opened(store, race, a_ticket(number, opened_at_ms=NOW + later_ms), 0)
    await opened(store, race, a_ticket(1, opened_at_ms=NOW + 5 * HOLD_MS), 0)  # The same call again.
    firsts = [ticket.operation[0] for ticket in await store.waiting(race.signature, b"", MANY) if ticket.first]
    assert firsts == [3]
    await store.end(ended(race, RaceStep.CONFIRM, CONFIRMED, NOW + HOLD_MS + 2))
    await store.open(race, a_ticket(5, opened_at_ms=NOW + 9 * HOLD_MS), 0, MANY)
    firsts = [ticket.operation[0] for ticket in await store.waiting(race.signature, b"", MANY) if ticket.first]
    assert firsts == [3]  # What has ended costs what it cost.


async def test_a_broadcast_begins_once(store: RaceStore) -> None:
    """Of two racers that both hold the race, one sends."""
    race = await opened(store, a_race(), a_ticket(), 0)
    after = broadcast_begins(race, 101)
    assert sorted(await asyncio.gather(*(store.broadcast(race, after, 9) for _ in range(5)))) == [False] * 4 + [True]
    assert await store.race(race.signature) == after
    again = window_opens(after, 200, NOW + 40_000)
    assert await store.broadcast(after, again, 9)
    assert not await store.broadcast(after, broadcast_begins(after, 201), 9)
    assert await store.broadcast(again, broadcast_begins(again, 200), 9)


async def test_a_race_ends_once(store: RaceStore) -> None:
    race = await opened(store, a_race(), a_ticket(), 0)
    confirmed = ended(race, RaceStep.CONFIRM, CONFIRMED, NOW + 9)
    assert await store.end(confirmed)
    assert not await store.end(ended(race, RaceStep.EXPIRE, None, NOW + 10))
    assert not await store.broadcast(race, broadcast_begins(race, 101), 9)
    found = await store.race(race.signature)
    assert found == confirmed and found.state is RaceState.CONFIRMED


async def test_reports_are_kept_in_order_and_make_the_race_sent(store: RaceStore) -> None:
    """Nothing was sent while no leg could submit anything."""
    race = await opened(store, a_race(), a_ticket(), 0)
    failed = LegReport(1, "tpu_quic", None, None, "no connection")
    sent = [LegReport(2, "local_rpc", NOW + 3, NOW + 5), LegReport(2, "jito", NOW + 3, None, "429")]
    await store.report(race.signature, [failed])
    assert not (await kept(store)).race.sent
    await store.report(race.signature, sent)
    await store.report(race.signature, sent)  # Stored before, though the answer was lost.
    assert await kept(store) == KeptRace(replace(race, sent=True), a_ticket(first=True), (failed, *sent))
    await store.report(b"z" * 64, sent)  # Forgotten meanwhile.
    assert await store.race(b"z" * 64) is None


async def test_what_every_leg_refused_was_not_sent(store: RaceStore) -> None:
    """Base is the price of a broadcast, and nothing was broadcast."""
    race = await opened(store, a_race(), a_ticket(), 0)
    await store.report(race.signature, [LegReport(1, "local_rpc", NOW + 3, None, "-32602: no", refused=True)])
    assert not (await kept(store)).race.sent and (await kept(store)).reports[0].refused


async def test_a_report_that_comes_after_the_end_changes_no_charge(store: RaceStore) -> None:
    """Tickets that end later would cost something else than those before."""
    race = await opened(store, a_race(), a_ticket(), 0)
    await store.end(ended(race, RaceStep.EXPIRE, None, NOW + 9))
    await store.report(race.signature, [LegReport(1, "jito", NOW + 3)])
    assert not (await kept(store)).race.sent and len((await kept(store)).reports) == 1


async def test_an_open_race_of_long_ago_is_looked_at_seldom(store: RaceStore) -> None:
    """One with a durable nonce stays open for a day at no cost; many of them must not take the looks of the others."""
    race = await opened(store, a_race(), a_ticket(), NOW)
    now = NOW + LOOK_OFTEN_MS + 40_000
    assert await store.due(now, now + 5, 9) == [race]
    assert await store.due(now + 10_004, now + 20_000, 9) == []
    assert await store.due(now + 10_005, now + 20_000, 9) == [race]
    await store.end(ended(race, RaceStep.CONFIRM, CONFIRMED, now))  # A charge that is pending does not wait longer.
    much_later = now + 86_400_000
    assert len(await store.due(much_later, much_later + 5, 9)) == 1
    assert len(await store.due(much_later + 5, much_later + 9, 9)) == 1


async def test_the_newest_reports_are_shown(store: RaceStore) -> None:
    """A transaction with a durable nonce may be sent again for ever, and each look at it reads its timeline."""
    race = await opened(store, a_race(), a_ticket(), 0)
    many = [LegReport(number, "jito", None, None, "429") for number in range(LEGS_ROWS_MAX + 2)]
    for report in many:
        await store.report(race.signature, [report])
    assert (await kept(store)).reports == tuple(many[2:])


async def test_the_end_of_a_ticket_stands(store: RaceStore) -> None:
    """A hold ends once."""
    await store.open(a_race(), a_ticket(), 0, MANY)
    await store.end_ticket(a_ticket(), 50)
    await store.end_ticket(a_ticket(), 0)
    assert (await kept(store)).ticket == a_ticket(first=True, charged=50)


async def test_races_are_due_until_they_and_all_their_tickets_have_ended(store: RaceStore) -> None:
    """Recovery finds every race that is open, and every charge that is pending."""
    race = await opened(store, a_race(), a_ticket(), NOW)
    await store.open(a_race(), a_ticket(2), NOW, MANY)
    assert await store.due(NOW - 1, NOW + 5, 9) == []
    assert await store.due(NOW, NOW + 5, 9) == [race]
    assert await store.due(NOW, NOW + 5, 9) == []
    done = ended(race, RaceStep.CONFIRM, CONFIRMED, NOW + 9)
    await store.end(done)
    await store.end_ticket(a_ticket(), 50)
    assert await store.due(NOW + 5, NOW + 10, 9) == [done]
    await store.end_ticket(a_ticket(2), 2)
    assert await store.due(NOW + 10, NOW + 15, 9) == []
    await store.open(a_race(), a_ticket(3), NOW, MANY)  # Joined after its end: its ticket has to end too.
    assert await store.due(NOW + 10, NOW + 15, 9) == [done]


async def test_all_that_is_not_settled_can_be_made_due(store: RaceStore) -> None:
    """A wall clock that was set back a day would leave every charge pending for a day."""
    for number, look_at_ms in ((1, NOW + 86_400_000), (2, NOW - 5)):
        await store.open(a_race(number), a_ticket(number, number), look_at_ms, MANY)
    await store.hasten(NOW, range(SLICES))
    assert set(await store.due(NOW, NOW + 5, 9)) == {a_race(1), a_race(2)}


async def test_the_longest_waiting_races_are_due_first(store: RaceStore) -> None:
    for number in (3, 1, 2):
        await store.open(a_race(number), a_ticket(number, number), NOW + number, MANY)
    assert set(await store.due(NOW + 9, NOW + 20, 2)) == {a_race(1), a_race(2)}
    assert await store.due(NOW + 9, NOW + 20, 2) == [a_race(3)]


async def test_only_settled_races_are_forgotten(store: RaceStore) -> None:
    for number in (1, 2, 3):
        race = await opened(store, a_race(number), a_ticket(number, number), NOW)
        if number < 3:
            await store.end(ended(race, RaceStep.CONFIRM, CONFIRMED, NOW + 9))
    await store.end_ticket(a_ticket(1), 50)
    assert await store.forget(NOW + 9) == 0
    assert await store.forget(NOW + 10) == 1
    assert await store.race(a_race(1).signature) is None
    assert await store.race(a_race(2).signature) is not None


@dataclass
class Two:
    """Two racers' views of one store. other_claims: as the mover has the second one take slices."""

    mine: RaceStore
    others: RaceStore
    ownership: OwnershipStore
    held: HeldSlices

    async def other_claims(self, *slices: int) -> None:
        self.held.took(slices, await self.ownership.claim(KIND, slices, "other"))


@pytest.fixture(params=["memory", "postgres"])
async def two(request: pytest.FixtureRequest, postgres_url: str, owner_url: str) -> AsyncIterator[Two]:
    mine, others = HeldSlices(), HeldSlices()
    if request.param == "memory":
        tables = Tables()
        mine.took(range(SLICES), await tables.ownership.claim(KIND, range(SLICES), "mine"))
        stores = MemoryRaceStore(tables, mine), MemoryRaceStore(tables, others)
        yield Two(*stores, tables.ownership, others)
        return
    async with emptied(postgres_url, owner_url, "TRUNCATE send_races, ownership CASCADE") as pool:
        ownership = PostgresOwnership(pool)
        mine.took(range(SLICES), await ownership.claim(KIND, range(SLICES), "mine"))
        yield Two(PostgresRaceStore(pool, mine), PostgresRaceStore(pool, others), ownership, others)


async def test_a_racer_whose_slice_was_claimed_writes_nothing(two: Two) -> None:
    """Each kind of write of the former owner is refused, and the new owner goes on from the last one before."""
    race = await opened(two.mine, a_race(), a_ticket(), NOW)
    report = [LegReport(1, "jito", NOW + 3)]
    done = ended(race, RaceStep.EXPIRE, None, NOW + 9)
    await two.other_claims(slice_of(race.signature))
    for write in (
        two.mine.open(race, a_ticket(2), NOW, MANY),
        two.mine.broadcast(race, broadcast_begins(race, 101), 9),
        two.mine.report(race.signature, report),
        two.mine.end(done),
        two.mine.end_ticket(a_ticket(), 2),
    ):
        with pytest.raises(SliceLost):
            await write
    assert await two.others.race(race.signature) == race
    assert await kept(two.others) == KeptRace(race, a_ticket(first=True))
    after = broadcast_begins(race, 101)
    assert await two.others.broadcast(race, after, 9) and await two.others.end(done)
    await two.others.end_ticket(a_ticket(), 2)
    assert await two.others.find(race.signature, ACCOUNT, a_ticket(2).operation) is None


async def test_each_racer_gets_what_is_due_in_its_own_slices(two: Two) -> None:
    """Also where it does not know yet that it has lost one."""
    races = [await opened(two.mine, a_race(number), a_ticket(number, number), NOW + 50) for number in range(1, 9)]
    theirs = {slice_of(race.signature) for race in races[:3]}
    await two.other_claims(*theirs)
    others = {race for race in races if slice_of(race.signature) in theirs}
    assert await two.mine.due(NOW, NOW + 9, MANY) == []
    await two.others.hasten(NOW, range(SLICES))
    assert set(await two.others.due(NOW, NOW + 9, MANY)) == others
    await two.mine.hasten(NOW, {slice_of(race.signature) for race in races} - {slice_of(races[7].signature)})
    assert set(await two.mine.due(NOW, NOW + 9, MANY)) == set(races[:7]) - others
    assert set(await two.mine.due(NOW + 50, NOW + 90, MANY)) >= {races[7]}


async def test_each_racer_forgets_its_own_slices(two: Two) -> None:
    race = await opened(two.mine, a_race(), a_ticket(), NOW)
    await two.mine.end(ended(race, RaceStep.CONFIRM, CONFIRMED, NOW + 9))
    await two.mine.end_ticket(a_ticket(), 50)
    await two.other_claims(slice_of(race.signature))
    assert await two.mine.forget(NOW + 10) == 0 and await two.mine.race(race.signature) is not None
    assert await two.others.forget(NOW + 10) == 1


async def test_a_slice_that_is_not_held_is_not_written(two: Two) -> None:
    with pytest.raises(SliceLost):
        await two.others.open(a_race(), a_ticket(), 0, MANY)
    assert await two.mine.race(a_race().signature) is None


async def test_the_database_cuts_slices_as_racers_do(postgres_url: str) -> None:
    """Else every write would be refused, or checked against another slice's epoch."""
    pool = await connect_postgres(postgres_url, connections_max=1, application="test")
    signatures = [bytes([number]) * 64 for number in range(64)]
    asked = "SELECT get_byte(sha256(one), 0) FROM unnest($1::bytea[]) AS one"
    assert [row[0] for row in await pool.fetch(asked, signatures)] == list(map(slice_of, signatures))
    await pool.close()


async def test_a_store_that_is_away_raises_its_own_exception(postgres_url: str) -> None:
    pool = await connect_postgres(postgres_url, connections_max=1, application="test")
    await pool.close()
    with pytest.raises(RacesUnavailable):
        held = HeldSlices()
        held.took(range(SLICES), 1)
        await PostgresRaceStore(pool, held).open(a_race(), a_ticket(), 0, MANY)
