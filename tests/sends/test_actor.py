"""The racer with a chain, legs and a ledger in the same process: one race, many callers, and what may be away."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from actors.methods.signed_transactions import SignedTransaction
from actors.sends import actor
from actors.sends.actor import POLL_SECONDS
from actors.sends.api import NO_ROOM, RaceRefused, RaceResult
from actors.sends.core import RaceState, RaceStep
from actors.sends.legs import Submission
from actors.sends.store import RacesUnavailable
from tests.sends.memory_store import MemoryRaceStore
from tests.sends.world import BASE, LANDING, World, audit, broadcasts_of, turns


class FakeNotices:
    def __init__(self) -> None:
        self.complete, self.noticed = False, asyncio.Event()


async def test_a_landed_send_is_confirmed_and_charged_once() -> None:
    world = World()
    sent = world.make()
    task = await world.call(sent)
    assert [leg for leg, _, _ in world.arrivals] == ["local_rpc", "jito", "tpu_quic"]  # At once, before any look.
    await world.pass_time(2)
    result = task.result()
    assert isinstance(result, RaceResult)
    assert (result.race.state, result.race.slot, result.ticket.charged) == (RaceState.CONFIRMED, sent.slot, LANDING)
    assert {report.leg for report in result.reports} == {"local_rpc", "jito", "tpu_quic"}
    assert len(broadcasts_of(world, sent)) == 1 and result.race.retries == 0
    audit(world)


async def test_the_age_of_the_oldest_window_is_told() -> None:
    """A window that stays open holds a customer's credits."""
    world = World()
    assert world.racer.oldest_window_seconds == 0
    await world.call(world.make(dead=True))
    world.clock.advance(3)
    await world.call(world.make(dead=True))
    world.clock.advance(2)
    assert world.racer.oldest_window_seconds == 5
    await world.pass_time(60)
    assert world.racer.oldest_window_seconds == 0


async def test_a_call_after_the_end_costs_base_and_sends_nothing() -> None:
    world = World()
    sent = world.make()
    await world.call(sent)
    await world.pass_time(2)
    again = await world.call(sent, 2)
    result = again.result()
    assert isinstance(result, RaceResult) and result.race.state is RaceState.CONFIRMED
    assert result.ticket.charged == BASE and len(broadcasts_of(world, sent)) == 1
    audit(world)


async def test_a_send_that_fails_on_the_chain_costs_base() -> None:
    world = World()
    task = await world.call(world.make(fails=True))
    await world.pass_time(2)
    result = task.result()
    assert isinstance(result, RaceResult)
    assert (result.race.state, result.race.error, result.ticket.charged) == (RaceState.FAILED, '"Custom"', BASE)
    audit(world)


async def test_a_send_that_does_not_land_is_sent_again_twice_then_unknown_until_proof() -> None:
    """Interface: re-send after 8 slots, at most 2, timeout at 30; decisions: failed only by proof, and then base."""
    world = World()
    sent = world.make(dead=True)
    task = await world.call(sent)
    await world.pass_time(11.5)
    assert not task.done()
    await world.pass_time(1)
    result = task.result()
    assert isinstance(result, RaceResult)
    assert result.over and result.race.state is RaceState.OPEN and result.ticket.charged is None
    begun = world.store.races[sent.transaction.signature].started_slot
    slots = [slot - begun for slot in broadcasts_of(world, sent)]
    assert len(slots) == 3 and slots[0] == 0 and 8 <= slots[1] <= 9 and 16 <= slots[2] <= 18
    await world.pass_time(70)
    kept = await world.racer.status(sent.transaction.signature, bytes([1]) * 32)
    assert kept is not None and kept.race.state is RaceState.EXPIRED and kept.ticket.charged == BASE
    assert len(broadcasts_of(world, sent)) == 3
    audit(world)


async def test_the_same_bytes_after_the_window_are_sent_again() -> None:
    """At most one broadcast in a window; another call opens another one, and still one landing is charged."""
    world = World()
    world.drop_share = 1.0
    sent = world.make()
    first = await world.call(sent)
    await world.pass_time(13)
    world.drop_share = 0.0
    second = await world.call(sent)
    await world.pass_time(5)
    assert first.done()
    result = second.result()
    assert isinstance(result, RaceResult) and result.race.state is RaceState.CONFIRMED
    assert len(broadcasts_of(world, sent)) == 4 and result.race.retries == 3
    assert sorted(world.ledger.posted.values()) == [BASE, LANDING]
    audit(world)


async def test_an_account_without_credits_takes_no_landing_over() -> None:
    """A durable nonce may wait until the hold of the first caller has expired. Then the second caller pays."""
    world = World()
    world.drop_share, world.ledger.poor = 1.0, True
    sent = world.make()
    sent.last_valid = 10_000
    await world.call(sent, account=1)
    await world.pass_time(70, recover=False)
    world.drop_share = 0.0
    await world.call(sent, account=2)
    await world.pass_time(5)
    assert list(world.ledger.posted.values()) == [LANDING]
    (payer,) = [ticket for ticket in world.store.tickets.values() if ticket.charged == LANDING]
    assert payer.pubkey == bytes([2]) * 32


async def test_a_send_that_was_stored_though_the_store_failed_ends_as_it_was_told(monkeypatch: Any) -> None:
    """The caller hears unknown, not a refusal: a racer that starts in time sends it, and charges it."""
    world = World()
    sent = world.make()

    async def open_and_fail(*arguments: Any) -> Any:
        await MemoryRaceStore.open(world.store, *arguments)
        raise RacesUnavailable("the answer was lost")

    monkeypatch.setattr(world.store, "open", open_and_fail)
    task = await world.call(sent)
    result = task.result()
    assert isinstance(result, RaceResult) and result.over and result.race.state is RaceState.OPEN
    world.start()
    await world.take_over()
    await world.pass_time(3)
    assert world.kept(sent).state is RaceState.CONFIRMED and list(world.ledger.posted.values()) == [LANDING]
    audit(world)


async def test_what_every_leg_refused_costs_nothing() -> None:
    """Base is the price of a broadcast."""
    world = World()
    world.refusing = True
    sent = world.make()
    await world.call(sent)
    await world.pass_time(90)
    assert world.kept(sent).state is RaceState.EXPIRED and not world.arrivals and not world.ledger.posted
    assert [ticket.charged for ticket in world.store.tickets.values()] == [0]
    reports = world.store.reports[sent.transaction.signature]
    assert all(report.refused and not report.sent for report in reports)


async def test_a_report_that_the_store_did_not_take_is_stored_later() -> None:
    """Otherwise a broadcast would look like none, and an expiry would cost nothing."""
    world = World()
    sent = world.make(dead=True)
    right = world.store.report
    failed = []

    async def away(*arguments: Any) -> None:
        failed.append(arguments)
        raise RacesUnavailable("away")

    world.store.report = away  # type: ignore[method-assign]
    await world.call(sent)
    assert failed and not world.kept(sent).sent
    world.store.report = right  # type: ignore[method-assign]
    await world.pass_time(90)
    assert world.kept(sent).state is RaceState.EXPIRED and list(world.ledger.posted.values()) == [BASE]
    audit(world)


async def test_an_end_is_counted_once() -> None:
    """The driver and recovery may both find it."""
    world = World()
    sent = world.make()
    await world.call(sent)
    await world.pass_time(2)
    race = world.kept(sent)
    opened = replace(race, state=RaceState.OPEN, slot=0, ended_at_ms=0)
    await world.racer.end(opened, RaceStep.CONFIRM, world.seen(race.signature))
    assert world.racer.statistics.part(world.clock.now_ms(), [])["races"] == 1


async def test_a_store_that_goes_away_in_the_middle_holds_back_what_it_cannot_record() -> None:
    """Nothing is broadcast, ended or charged meanwhile; all of it happens when it is back."""
    world = World()
    world.drop_share = 1.0
    sent = world.make()
    task = await world.call(sent)
    world.store_away, world.drop_share = True, 0.0
    await world.pass_time(5)
    assert len(broadcasts_of(world, sent)) == 1 and not world.ledger.posted
    world.store_away = False
    await world.pass_time(5)
    result = task.result()
    assert isinstance(result, RaceResult) and result.ticket.charged == LANDING
    audit(world)


async def test_a_charge_waits_for_the_owner_of_the_account() -> None:
    """The outcome is told with its charge pending; recovery posts it."""
    world = World()
    world.owner_away = True
    task = await world.call(world.make())
    await world.pass_time(2)
    result = task.result()
    assert isinstance(result, RaceResult)
    assert result.race.state is RaceState.CONFIRMED and result.ticket.charged is None
    world.owner_away = False
    await world.pass_time(40)
    assert list(world.ledger.posted.values()) == [LANDING]
    audit(world)


async def test_a_charge_that_the_ledger_refuses_is_given_up() -> None:
    """The hold had expired and the credits were spent: in the customer's favour, and for good."""
    world = World()
    world.ledger.poor = world.owner_away = True
    await world.call(world.make())
    await world.pass_time(70)
    world.owner_away = False
    await world.pass_time(10)
    assert not world.ledger.posted
    assert [ticket.charged for ticket in world.store.tickets.values()] == [0]


@pytest.mark.parametrize("away", [0.3, 0.7])
async def test_a_node_that_often_says_nothing_delays_and_changes_nothing(away: float) -> None:
    world = World()
    sent = world.make()
    task = await world.call(sent)
    world.away_share = away
    await world.pass_time(12)
    result = task.result()
    assert isinstance(result, RaceResult) and result.race.state is RaceState.CONFIRMED
    assert len(broadcasts_of(world, sent)) <= 3
    audit(world)


async def test_a_send_that_is_on_its_way_is_unknown_while_the_store_is_away() -> None:
    """A refusal would say that nothing was sent, and void the hold of a transaction that may land."""
    world = World()
    world.late_share = 1.0
    task = await world.call(world.make())
    world.store_away = True
    await world.pass_time(26)
    result = task.result()
    assert isinstance(result, RaceResult) and result.over and result.race.state is RaceState.OPEN
    world.store_away = False
    await world.pass_time(130)
    audit(world)


async def test_signatures_are_asked_for_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question takes 256. Where the node hangs, the last of many races would wait for every question before."""
    world = World()
    for number in range(257):
        await world.call(world.make(dead=True), account=number % 256)
    under_way = asyncio.Barrier(2)

    async def statuses(signatures: list[bytes]) -> list[None]:
        await under_way.wait()
        return [None] * len(signatures)

    monkeypatch.setattr(world.racer._chain, "statuses", statuses)
    async with asyncio.timeout(30):
        await world.racer.look()
    await world.racer.close()


def test_a_slot_far_ahead_is_corrected_by_the_next_ones() -> None:
    """Otherwise one wrong answer would end the windows of all races for good."""
    racer = World().racer
    for told, believed in [(1_000, 1_000), (990, 1_000), (10**12, 10**12), (1_002, 1_002), (None, 1_002)]:
        racer._learn(told)
        assert racer.slot == believed


async def test_the_words_of_a_leg_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL takes no NUL, and would refuse what the other legs did with it."""
    world = World()

    async def send(transaction: SignedTransaction) -> Submission:
        return Submission(None, None, "a\0b")

    monkeypatch.setattr(world.racer._legs[0], "send", send)
    sent = world.make()
    await world.call(sent)
    await world.pass_time(2)
    assert [report.error for report in world.store.reports[sent.transaction.signature]] == ["ab", "", ""]


async def test_a_notice_is_followed_by_a_look_at_once() -> None:
    """With a whole stream of notices polls are rare; without it they go on as before."""
    world, slept = World(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    racer, notices = world.racer, FakeNotices()
    racer._sleep, racer._notices = sleep, notices  # type: ignore[assignment]
    await racer._until_next_look()
    assert slept == [POLL_SECONDS]
    notices.complete = True
    waiting = asyncio.create_task(racer._until_next_look())
    await turns()
    assert not waiting.done()
    notices.noticed.set()
    await turns()
    assert waiting.done() and max(slept[1:]) < POLL_SECONDS and not notices.noticed.is_set()


async def test_the_watch_outlives_a_chain_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no race would take another step."""
    world, asked = World(), asyncio.Event()
    right = world.racer._chain.slot

    async def slot() -> int | None:
        if not asked.is_set():
            asked.set()
            raise ValueError
        return await right()

    monkeypatch.setattr(world.racer._chain, "slot", slot)
    watch = asyncio.create_task(world.racer.watch())
    async with asyncio.timeout(30):
        while world.racer.slot is None and not watch.done():  # noqa: ASYNC110 - a slot tells nobody.
            await asyncio.sleep(0.01)
    assert world.racer.slot is not None
    watch.cancel()


async def test_a_racer_takes_so_many_sends_at_once_and_refuses_more_unstored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that come in one moment, before the first of them is stored. Their replica releases their holds."""
    monkeypatch.setattr(actor, "RACES_MAX", 3)
    world = World()
    sends = [world.make() for _ in range(5)]
    told = [asyncio.create_task(world.racer.race(world.wanted(sent, number))) for number, sent in enumerate(sends)]
    await turns()
    assert [task.result() for task in told if task.done()] == [RaceRefused(NO_ROOM)] * 2
    assert len(world.store.races) == 3 == len({signature for _, signature, _ in world.arrivals})
    await world.pass_time(10)
    later = await world.call(sends[4])
    await world.pass_time(10)
    assert isinstance(later.result(), RaceResult) and len(world.store.races) == 4
    await world.pass_time(130)
    audit(world)


async def test_of_many_races_those_with_nothing_to_do_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(20):
        await world.call(world.make(dead=True), number)
    await world.pass_time(1)
    steps = list[bytes]()
    right = world.racer._step

    async def step(running: Any) -> bool:
        steps.append(running.race.signature)
        return await right(running)

    monkeypatch.setattr(world.racer, "_step", step)
    landing = next(iter(world.sent.values()))
    landing.slot = world.slot + 1
    await world.pass_time(1.8)
    assert set(steps) == {landing.transaction.signature} and world.kept(landing).state is RaceState.CONFIRMED
    await world.pass_time(130)
    audit(world)


async def test_the_more_races_the_rarer_are_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the number of questions does not grow with the races without an end."""
    world, pauses = World(), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(world.racer, "_sleep", sleep)
    for races in (1, 1_024, 2_048, 5_000):
        monkeypatch.setattr(world.racer, "_running", dict.fromkeys(range(races)))
        await world.racer._until_next_look()
    assert pauses == pytest.approx([0.15, 0.15, 0.3, 0.75])
