"""Many sends from one seed, with losses on every leg, outages and crashes; an auditor that knows the truth."""

import pytest

from actors.sends.core import RaceState
from tests.sends.world import World, audit, turns


async def test_of_2000_sends_with_losses_on_every_leg_all_that_can_land_land() -> None:
    """30 % of each leg's sends are dropped: three legs and three broadcasts are enough for all of them."""
    world = World(seed=7)
    world.drop_share = 0.3
    sents = []
    for _ in range(10):
        for _ in range(200):
            sents.append(sent := world.make())
            await world.call(sent, account=len(sents) % 256)
        await world.pass_time(13, recover=False)
    await world.pass_time(3)
    assert sum(sent.slot is not None for sent in sents) == 2_000
    states = {race.state for race in world.store.races.values()}
    assert states == {RaceState.CONFIRMED}
    audit(world)


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_crashes_and_goes_away_the_books_agree_with_the_chain(seed: int) -> None:
    """None is charged landing without being on chain, none is told failed and found landed, no charge stays pending."""
    world = World(seed)
    world.drop_share, world.late_share = world.random.choice([(0.1, 0.1), (0.5, 0.5), (0.9, 0.5), (0.3, 1.0)])
    sents = []
    for _ in range(25):
        world.away_share = world.random.choice([0.0, 0.3, 0.8])
        world.store_away = world.random.random() < 0.1
        world.owner_away = world.random.random() < 0.2
        for _ in range(world.random.randrange(4)):
            fate = world.random.random()
            sents.append(world.make(fails=fate < 0.15, dead=fate > 0.85))
        for sent in world.random.sample(sents, min(len(sents), 5)):
            await world.call(sent, world.random.randrange(1, 4))
        if world.random.random() < 0.4:
            world.process.crash_at = world.process.steps + world.random.randrange(1, 60)
        await world.pass_time(world.random.uniform(0.3, 8))
        if world.process.dead or world.random.random() < 0.1:
            world.process.dead = True
            await turns()
            world.start()
            if not world.store_away:
                await world.take_over()
    world.away_share, world.store_away, world.owner_away, world.process.crash_at = 0.0, False, False, 0
    await world.pass_time(200)
    audit(world)
