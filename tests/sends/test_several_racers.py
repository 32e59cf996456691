"""Races while slices move, racers die and are cut off: each call has one outcome and one charge."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from actors.ownership.api import SliceLost
from actors.sends.api import RaceResult
from actors.sends.core import RaceState
from actors.sends.slices import SLICES, racer_names, slice_of
from tests.sends.several_racers import Heard, Racers
from tests.sends.world import BASE, LANDING, Sent, audit, broadcasts_of, turns

ONE, TWO, THREE = racer_names(3)


@pytest.fixture
async def racers() -> AsyncIterator[Racers]:
    made = Racers()
    yield made
    await made.close()


async def settled(racers: Racers, asked: "list[asyncio.Task[Heard]]") -> list[RaceResult]:
    """Pass time until all calls are answered; every answer is a result."""
    await racers.pass_time(4)
    async with asyncio.timeout(20):
        heard = await asyncio.gather(*asked)
    assert all(isinstance(one, RaceResult) for one in heard), heard
    return [one for one in heard if isinstance(one, RaceResult)]


async def ask_many(racers: Racers, count: int) -> "tuple[list[Sent], list[asyncio.Task[Heard]]]":
    sents = [racers.make() for _ in range(count)]
    return sents, [await racers.ask(sent, number % 9) for number, sent in enumerate(sents)]


async def test_each_send_goes_to_the_racer_of_its_signature(racers: Racers) -> None:
    await racers.scale(ONE, TWO, THREE)
    await racers.client.start()
    assert sorted(racers.shares.values()) == [85, 85, 86]
    sents, asked = await ask_many(racers, 30)
    for sent in sents:
        (member,) = [one for one in racers.members.values() if one.racer.drives(sent.transaction.signature)]
        assert member.held.serves(slice_of(sent.transaction.signature))
    results = await settled(racers, asked)
    assert {result.ticket.charged for result in results} == {LANDING}
    audit(racers)


@pytest.mark.threat(69)
async def test_one_three_and_two_racers_under_load_lose_nothing(racers: Racers) -> None:
    """A call whose slice moves while it waits is answered by the next racer, and its transaction is not sent anew."""
    await racers.scale(ONE)
    await racers.client.start()
    all_sents, all_asked = [], []
    for names in ((ONE,), (ONE, TWO, THREE), (ONE, TWO), (TWO, THREE)):
        sents, asked = await ask_many(racers, 12)
        await racers.scale(*names)
        more, asked_more = await ask_many(racers, 4)
        all_sents += sents + more
        all_asked += asked + asked_more
        await racers.pass_time(0.3)
    assert racers.shares == {TWO: 128, THREE: 128}
    results = await settled(racers, all_asked)
    assert {(result.race.state, result.ticket.charged) for result in results} == {(RaceState.CONFIRMED, LANDING)}
    assert {len(broadcasts_of(racers, sent)) for sent in all_sents} == {1}
    assert sorted(racers.ledger.posted.values()) == [LANDING] * len(all_sents)
    audit(racers)


async def test_a_killed_racer_is_followed_by_its_successor(racers: Racers) -> None:
    """Its callers hear that nothing is known; the outcome is proven, and charged once, by the next process."""
    await racers.scale(ONE, TWO)
    await racers.client.start()
    sents, asked = await ask_many(racers, 16)
    await racers.restart(TWO)
    await racers.pass_time(5)
    async with asyncio.timeout(20):
        heard = await asyncio.gather(*asked)
    unknown = [one for one in heard if not isinstance(one, RaceResult)]
    assert 0 < len(unknown) < 16
    assert {racers.kept(sent).state for sent in sents} == {RaceState.CONFIRMED}
    assert list(racers.ledger.posted.values()) == [LANDING] * 16
    audit(racers)


async def test_a_racer_that_was_cut_off_writes_nothing_when_it_goes_on(racers: Racers) -> None:
    """Another one took its slices meanwhile; every kind of write of the former one is refused, and it lets go."""
    await racers.scale(ONE, TWO)
    await racers.client.start()
    racers.drop_share = 1.0  # Nothing lands, so that each race has further broadcasts to make.
    sents, _ = await ask_many(racers, 16)
    former = racers.members[TWO]
    mine = [sent for sent in sents if former.racer.drives(sent.transaction.signature)]
    lost = set(former.held.serving())
    assert mine and len(lost) == SLICES // 2
    former.process.goes_on.clear()
    await racers.members[ONE].keeper.take(sorted(lost))
    await racers.pass_time(4.5)  # The new owner broadcasts for the second time.
    racers.drop_share = 0.0
    former.process.goes_on.set()
    await former.racer.look()
    await turns()
    assert not any(former.racer.drives(sent.transaction.signature) for sent in mine)
    for sent in mine:
        kept = racers.kept(sent)
        with pytest.raises(SliceLost):
            await former.store.broadcast(kept, kept, 0)
        with pytest.raises(SliceLost):
            await former.store.end(kept)
    await former.keeper.look()
    assert former.held.serving() == {} and len(racers.members[ONE].held.serving()) == SLICES
    await racers.pass_time(20)
    assert {racers.kept(sent).state for sent in sents} == {RaceState.CONFIRMED}
    assert all(len(broadcasts_of(racers, sent)) <= 3 for sent in sents)
    assert sorted(racers.ledger.posted.values()) == [LANDING] * 16
    audit(racers)


async def test_a_call_that_waits_for_a_racer_that_was_cut_off_follows_its_slice(
    racers: Racers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.sends.client._LOOK_SECONDS", 0.05)
    await racers.scale(ONE, TWO)
    await racers.client.start()
    racers.members[TWO].process.goes_on.clear()
    sents, asked = await ask_many(racers, 12)
    await racers.members[ONE].keeper.take(range(SLICES))
    async with asyncio.timeout(20):
        while racers.members[ONE].racer.under_way < 12:  # noqa: ASYNC110 - a racer tells nobody.
            await asyncio.sleep(0.01)
    results = await settled(racers, asked)
    assert {result.ticket.charged for result in results} == {LANDING} and len(results) == len(sents)
    audit(racers)


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_moves_and_dies_the_books_agree_with_the_chain(seed: int) -> None:
    """Kills, moves and cut-off racers in any order, with losses on every leg and calls for the same bytes."""
    racers = Racers(seed)
    racers.drop_share, racers.late_share = racers.random.choice([(0.1, 0.1), (0.5, 0.5), (0.9, 0.5)])
    await racers.scale(ONE)
    await racers.client.start()
    sents, asked = list[Sent](), []
    for _ in range(12):
        for _ in range(racers.random.randrange(4)):
            fate = racers.random.random()
            sents.append(racers.make(fails=fate < 0.15, dead=fate > 0.85))
        for sent in racers.random.sample(sents, min(len(sents), 4)):
            asked.append(await racers.ask(sent, racers.random.randrange(1, 4)))
        match racers.random.randrange(5):
            case 0:
                await racers.scale(*racers.random.choice([(ONE,), (ONE, TWO), (ONE, TWO, THREE), (TWO, THREE)]))
            case 1:
                await racers.restart(racers.random.choice(list(racers.members)))
            case 2 if len(racers.members) > 1:
                cut_off, other = racers.random.sample(list(racers.members), 2)
                slices = list(racers.members[cut_off].held.serving())
                racers.members[cut_off].process.goes_on.clear()
                await racers.members[other].keeper.take(slices)
                await racers.pass_time(racers.random.uniform(0.3, 6))
                racers.members[cut_off].process.goes_on.set()
                await racers.members[cut_off].keeper.look()
        await racers.pass_time(racers.random.uniform(0.3, 8))
    await racers.pass_time(200)
    async with asyncio.timeout(60):
        await asyncio.gather(*asked)
    assert sum(racers.shares.values()) == SLICES
    audit(racers)
    assert set(racers.ledger.posted.values()) <= {BASE, LANDING}
    await racers.close()
