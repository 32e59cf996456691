"""Leases of an engine's rate: together never above it, whatever racers come, go and are cut off."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.clock import ManualClock
from actors.sends.engine import BlockEngineClient
from actors.sends.leases import LEASE_SECONDS, RENEW_SECONDS, EngineLeases, LeaseStore, PostgresLeases
from actors.sends.store import RacesUnavailable
from actors.storage.connections import connect_postgres
from tests.databases import as_role, emptied


class MemoryLeases:
    """By the rules of sends_lease()."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self.away = clock, set[str]()
        self._rows: dict[tuple[str, str], tuple[str, int, float]] = {}

    async def racers(self) -> set[str]:
        return {racer for racer, _, until in self._rows.values() if until > self._clock.monotonic()}

    async def lease(self, engine: str, racer: str, process: str, wanted_milli: int, rate_milli: int) -> int:
        if process in self.away:
            raise RacesUnavailable("cut off")
        now = self._clock.monotonic()
        self._rows = {key: row for key, row in self._rows.items() if row[2] > now}
        others = sum(row[1] for key, row in self._rows.items() if key[0] == engine and key[1] != process)
        granted = max(0, min(wanted_milli, rate_milli - others))
        self._rows[engine, process] = (racer, granted, now + LEASE_SECONDS + 0.5)
        return granted


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, postgres_url: str, owner_url: str) -> AsyncIterator[LeaseStore]:
    if request.param == "memory":
        yield MemoryLeases(ManualClock())
        return
    async with emptied(postgres_url, owner_url, "TRUNCATE send_leases") as pool:
        yield PostgresLeases(pool)


async def test_what_is_left_of_the_rate_is_granted(store: LeaseStore) -> None:
    assert await store.racers() == set()
    assert await store.lease("e", "one", "p1", 5_000, 5_000) == 5_000
    assert await store.lease("e", "two", "p2", 2_500, 5_000) == 0
    assert await store.racers() == {"one", "two"}  # The second one has a lease of nothing, so the first one makes room.
    assert await store.lease("e", "one", "p1", 2_500, 5_000) == 2_500
    assert await store.lease("e", "two", "p2", 2_500, 5_000) == 2_500
    assert await store.lease("f", "two", "p2", 9_000, 9_000) == 9_000  # Another engine has a rate of its own.


async def test_a_process_of_before_counts_under_its_own_name(store: LeaseStore) -> None:
    """A racer that was cut off may still ask; its successor of the same name waits until that lease has ended."""
    assert await store.lease("e", "one", "p1", 5_000, 5_000) == 5_000
    assert await store.lease("e", "one", "p2", 5_000, 5_000) == 0
    assert await store.racers() == {"one"}


async def test_a_lease_that_has_ended_is_free(postgres_url: str, owner_url: str) -> None:
    async with emptied(postgres_url, owner_url, "TRUNCATE send_leases") as pool:
        store = PostgresLeases(pool)
        await store.lease("e", "one", "p1", 5_000, 5_000)
        await as_role(owner_url, "UPDATE send_leases SET until = clock_timestamp()")
        assert await store.racers() == set()
        assert await store.lease("e", "two", "p2", 5_000, 5_000) == 5_000


async def test_leases_asked_for_at_once_stay_within_the_rate(postgres_url: str, owner_url: str) -> None:
    async with emptied(postgres_url, owner_url, "TRUNCATE send_leases") as pool:
        store = PostgresLeases(pool)
        granted = await asyncio.gather(*(store.lease("e", f"r{n}", f"p{n}", 3_000, 10_000) for n in range(8)))
        assert sum(granted) == 10_000


async def test_a_database_that_is_away_leases_nothing(postgres_url: str) -> None:
    pool = await connect_postgres(postgres_url, connections_max=1, application="test")
    await pool.close()
    with pytest.raises(RacesUnavailable):
        await PostgresLeases(pool).racers()
    with pytest.raises(RacesUnavailable):
        await PostgresLeases(pool).lease("e", "one", "p", 1, 1)


class Racer:
    """A racer with a client of each engine, as far as rates go. goes_on: False while its process is stopped."""

    def __init__(self, store: MemoryLeases, name: str, process: str, rates: list[float], clock: ManualClock) -> None:
        self.process, self.clock, self.goes_on = process, clock, True
        self.engines = [
            BlockEngineClient(f"http://engine-{number}", clock, requests_per_second=rate, leased=True)
            for number, rate in enumerate(rates)
        ]
        self.leases = EngineLeases(store, self.engines, name, process, clock)

    async def renew(self) -> None:
        if self.goes_on:
            try:
                await self.leases.renew()
            except RacesUnavailable:
                pass

    def take_all(self, engine: int) -> int:
        """Ask for as much as may leave now."""
        taken = 0
        while self.engines[engine]._bucket.take(self.clock.monotonic()) == 0:
            taken += 1
        return taken


actions = st.lists(
    st.tuples(st.sampled_from(["start", "restart", "stop", "cut off", "back", "pass", "pass"]), st.integers(0, 2)),
    max_size=25,
)


@settings(deadline=None)
@given(st.sampled_from([0.5, 1.0, 2.0, 7.0, 30.0]), actions)
async def test_no_engine_gets_more_than_its_rate(rate: float, steps: list[tuple[str, int]]) -> None:
    """Racers that take all that they may, at any moment: over any time no more than a second's worth and the rate."""
    clock = ManualClock()
    store, began = MemoryLeases(clock), clock.monotonic()
    racers: dict[int, Racer] = {}
    former, taken, processes = list[Racer](), 0, 0
    for action, number in [("start", 0), *steps, ("pass", 0)]:
        if action in ("start", "restart"):
            if number in racers:
                former.append(racers[number])  # It was cut off, and goes on asking as long as its lease lasts.
                store.away.add(former[-1].process)
            processes += 1
            racers[number] = Racer(store, f"r{number}", f"p{processes}", [rate], clock)
        elif number in racers and action != "pass":
            racers[number].goes_on = action == "back"
            (store.away.add if action == "cut off" else store.away.discard)(racers[number].process)
        for _ in range(4):
            clock.advance(RENEW_SECONDS / 3)
            for racer in (*racers.values(), *former):
                taken += racer.take_all(0)
                await racer.renew()
                taken += racer.take_all(0)
        assert taken <= max(1.0, rate) + (clock.monotonic() - began) * rate + 1e-6


async def test_the_rate_is_shared_and_taken_over() -> None:
    """Equal shares after each has renewed twice; when one has gone, the other has all after the lease has ended."""
    clock = ManualClock()
    store = MemoryLeases(clock)
    one, two = (Racer(store, name, name, [10.0, 1.0], clock) for name in ("r0", "r1"))
    await one.renew()
    assert [engine.leased_per_second for engine in one.engines] == [10.0, 1.0]
    for _ in range(2):
        for racer in (two, one):
            await racer.renew()
    assert [engine.leased_per_second for engine in one.engines] == [5.0, 0.0]
    await two.renew()
    assert [engine.leased_per_second for engine in two.engines] == [5.0, 1.0]
    clock.advance(LEASE_SECONDS)
    assert [engine.leased_per_second for engine in one.engines] == [0.0, 0.0]
    clock.advance(1)
    await one.renew()
    assert [engine.leased_per_second for engine in one.engines] == [10.0, 1.0]


async def test_a_store_that_is_away_ends_no_loop(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    store = MemoryLeases(clock)
    racer = Racer(store, "r0", "p0", [1.0], clock)
    store.away.add("p0")
    beats = 0

    async def sleep(_: float) -> None:
        nonlocal beats
        beats += 1
        store.away.clear()
        if beats == 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await racer.leases.keep(sleep)
    assert "is not leased: cut off" in caplog.text and racer.engines[0].leased_per_second == 1.0
