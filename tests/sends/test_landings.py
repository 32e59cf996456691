"""Landings: one before its race began, the confirmations that are told, and what counts as sent."""

import pytest

from actors.sends.api import RaceResult
from tests.sends.world import BASE, World, audit


@pytest.mark.parametrize("fails", [False, True])
async def test_a_transaction_that_landed_before_the_call_costs_base_and_is_not_sent(fails: bool) -> None:
    """Decisions, "A transaction that landed before its race", at every depth at which a landing counts."""
    for slots in (2, 40, 400):
        world = World()
        sent = world.make(fails=fails)
        sent.slot = world.slot + 1
        world.clock.advance(0.4 * (slots + 1))
        result = (await world.call(sent)).result()
        assert isinstance(result, RaceResult) and not world.arrivals
        assert (result.race.slot, result.ticket.charged) == (sent.slot, BASE)
        audit(world)


async def test_a_landing_is_told_with_its_confirmations() -> None:
    """As the node counts them at that moment, and again in each later status; the node's null once it is rooted."""
    world = World()
    sent = world.make()
    task = await world.call(sent)
    await world.pass_time(2)
    result, pubkey = task.result(), bytes([1]) * 32
    assert isinstance(result, RaceResult) and result.confirmations == 2
    world.clock.advance(4.0)
    kept = await world.racer.status(sent.transaction.signature, pubkey)
    assert kept is not None and sent.slot is not None and kept.confirmations == world.slot - sent.slot > 10
    world.clock.advance(60.0)
    kept = await world.racer.status(sent.transaction.signature, pubkey)
    assert kept is not None and kept.confirmations is None


async def test_only_what_was_sent_counts_as_sent() -> None:
    """A stored race is not enough: its racer may die before the first byte leaves."""
    world = World()
    sent, away = world.make(), world.make(dead=True)
    name = sent.transaction.signature
    assert not await world.racer.has_sent(name)
    world.refusing = True
    await world.call(sent)
    assert name in world.store.races and not await world.racer.has_sent(name)
    world.refusing = False
    await world.pass_time(4)
    assert await world.racer.has_sent(name)
    await world.pass_time(20)
    assert await world.racer.has_sent(name)  # It has landed.
    await world.call(away)
    assert await world.racer.has_sent(away.transaction.signature)
    await world.pass_time(20)
    assert not await world.racer.has_sent(away.transaction.signature)  # Its window is over, and it has not landed.
