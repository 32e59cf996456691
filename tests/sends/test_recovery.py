"""A racer that is killed at each step of a race: the next one finishes it, and every charge ends once."""

import asyncio

import pytest

from actors.sends.core import Proof, RaceState
from actors.upstream.signature_status import SignatureStatus
from tests.sends.world import World, audit, broadcasts_of, turns


async def killed_at(step: int, **fate: bool) -> World | None:
    """A race whose process is killed at this step, taken over by another after 3 s. None: it ended before."""
    world = World()
    world.start(crash_at=step)
    sent = world.make(**fate)
    task = await world.call(sent)
    await world.pass_time(14)
    if not world.process.dead:
        task.cancel()
        return None
    await turns()
    world.clock.advance(3)
    world.start()
    await world.take_over()
    await world.pass_time(100)
    await world.racer.close()
    return world


@pytest.mark.parametrize("fate", [{}, {"fails": True}, {"dead": True}], ids=["lands", "fails", "expires"])
async def test_a_racer_killed_at_any_step_leaves_nothing_pending(fate: dict[str, bool]) -> None:
    """Threat 18, step by step: outcomes are the chain's, and charges follow from them."""
    step = 0
    while (world := await killed_at(step := step + 1, **fate)) is not None:
        audit(world)
        for sent in world.sent.values():
            assert len(broadcasts_of(world, sent)) <= 3, "a restart is no new window"
    assert step > 15, "the walk ended too soon"


async def test_a_race_that_was_stored_and_never_sent_is_sent_by_the_next_racer() -> None:
    """Every one that can land lands."""
    world = World()
    world.start(crash_at=4)  # After the race was stored, before the first broadcast was.
    sent = world.make()
    await world.call(sent)
    assert world.process.dead and world.store.races and not world.arrivals
    world.start()
    await world.take_over()
    await world.pass_time(5)
    assert sent.slot is not None and world.store.races[sent.transaction.signature].state is RaceState.CONFIRMED
    audit(world)


async def test_a_race_that_is_old_is_only_proven() -> None:
    """After its window nothing is sent again."""
    world = World()
    world.drop_share = 1.0
    sent = world.make()
    await world.call(sent)
    before = len(world.arrivals)
    world.start()
    world.clock.advance(30)
    await world.take_over()
    await world.pass_time(80)
    assert len(world.arrivals) == before
    assert world.store.races[sent.transaction.signature].state is RaceState.EXPIRED
    audit(world)


async def test_recovery_finds_what_a_dead_racer_still_leases() -> None:
    """A restart does not wait for the lease of the race: its caller asks getSignatureStatus meanwhile."""
    world = World()
    await world.call(world.make())
    world.start()
    assert await world.recovery.take_over() == 1
    assert await world.recovery.carry_on() == 0


async def test_a_wall_clock_that_is_set_back_delays_nothing() -> None:
    """Threat 53: times of looks are of the wall clock, and would lie a day ahead."""
    world, beats = World(), 0
    world.clock.ahead_seconds = 86_400
    sent = world.make()
    await world.call(sent)

    async def sleep(seconds: float) -> None:
        nonlocal beats
        beats += 1
        world.clock.ahead_seconds, world.node_away = 0, False
        world.clock.advance(1)
        if beats > 5:
            await asyncio.Event().wait()

    world.start()
    world.clock.advance(30)
    world.node_away = True  # The first look proves nothing; the next one is planned for a day later.
    world.recovery._sleep = sleep
    run = asyncio.create_task(world.recovery.run())
    while beats <= 5:
        await turns()
    run.cancel()
    assert not world.kept(sent).state.open
    audit(world)


async def test_a_race_that_recovery_falls_over_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    bad, good = world.make(), world.make()
    for sent in (bad, good):
        await world.call(sent)
    world.start()
    right = world.recovery._chain.search

    async def search(signature: bytes, nonce_account: str | None) -> tuple[SignatureStatus | None, list[Proof]]:
        if signature == bad.transaction.signature:
            raise AssertionError("a bug")
        return await right(signature, nonce_account)

    monkeypatch.setattr(world.recovery._chain, "search", search)
    world.clock.advance(3)
    assert await world.recovery.take_over() == 2
    assert not world.store.races[good.transaction.signature].state.open
