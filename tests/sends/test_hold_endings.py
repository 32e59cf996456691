"""The ends of holds: in parts, each once, and an owner that is away holds up nobody else."""

from actors.sends.core import RaceState
from actors.sends.hold_endings import _AT_ONCE
from tests.sends.world import BASE, LANDING, World, audit


async def test_many_calls_of_one_race_all_end() -> None:
    """More than are read at once: one landing, the others base."""
    world = World()
    sent = world.make()
    for account in range(_AT_ONCE + 9):
        await world.call(sent, account)
    await world.pass_time(2)
    charges = sorted(world.ledger.posted.values())
    assert charges == [BASE] * (_AT_ONCE + 8) + [LANDING]
    assert world.kept(sent).state is RaceState.CONFIRMED
    samples = [sample for family in world.racer._metrics.families() for sample in family.samples]
    counted = {sample.name: sample.value for sample in samples if sample.labels.get("outcome") == "answered"}
    assert counted == {
        "ledger_gateway_calls_total": len(charges),
        "ledger_gateway_credits_charged_total": sum(charges),
    }
    audit(world)


async def test_asked_again_nothing_changes() -> None:
    world = World()
    sent = world.make()
    await world.call(sent)
    await world.pass_time(2)
    before = dict(world.ledger.posted)
    world.owner_away = True  # Nobody is asked: every ticket has ended.
    await world.racer.endings.settle_all(world.kept(sent))
    assert world.ledger.posted == before


async def test_the_account_is_shown_the_slot_of_its_send() -> None:
    """Decisions, "Monotonic reads": a bound at confirmed, as the racer was not told what its account has read. One that
    has not landed shows nothing."""
    world = World()
    sent = world.make()
    await world.call(sent)
    await world.pass_time(2)
    landed = world.kept(sent)
    assert landed.state is RaceState.CONFIRMED and landed.slot > 0
    assert list(world.ledger.shown.values()) == [(0, -landed.slot, 0)]
