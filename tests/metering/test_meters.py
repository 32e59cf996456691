"""Streams pay through the owner of their account."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from actors.accounts.api import AccountStanding, OwnerReply, OwnerUnavailable, ReadStanding
from actors.calls import HoldReply, ProvenProof
from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.metering.meter import refusal_of
from actors.metering.meters import HeldCharge, Meter, Meters
from actors.telemetry.metrics import Metrics
from tests.gateway.doubles import PROOF, PUBKEY, REPLICA, OneAccount, unavailable
from tests.gateway.world import a_world

NAME = "accountNotification"


class Stream:
    def __init__(self, meter: Meter) -> None:
        self.meter, self.covered, self.ended = meter, 0, None
        self.woken = asyncio.Event()
        meter.join(self, self._cover, self._end)

    def _cover(self) -> None:
        self.covered += 1
        self.woken.set()

    def _end(self, refusal: Refusal) -> None:
        self.ended = refusal

    async def spend(self, units: int) -> int:
        """One unit after the other, each tried again when it was not covered. How many were spent."""
        for done in range(units):
            while not self.meter.spend(1, self):
                await _quiet()
                if self.ended or not self.covered:
                    return done
                self.covered = 0
        return units


async def _quiet() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def clock() -> AsyncIterator[ManualClock]:
    yield ManualClock()


async def test_events_are_charged_one_credit_for_ten(clock: ManualClock) -> None:
    """Settled: 1 per 10 delivered notifications. Two streams of one account share the allowance."""
    owner = OneAccount(10_000)
    meters = Meters(owner, clock, REPLICA)
    one, two = (Stream(meters.open(ProvenProof(PUBKEY), NAME)) for _ in range(2))
    assert await one.spend(705) == 705 and await two.spend(300) == 300
    one.meter.leave(one)
    assert owner.available >= 10_000 - 100 - 50
    two.meter.leave(two)
    await meters.stop()
    assert owner.posted == {NAME: 100} and owner.held == {}
    assert set(owner.delivered_operations) == {key for key, end in owner.ends.items() if end.charged}


async def test_the_last_credits_are_spent_and_then_the_stream_ends(clock: ManualClock) -> None:
    """Balance out means a clear end, not silence, and never a credit below zero."""
    owner = OneAccount(30)
    meters = Meters(owner, clock, REPLICA)
    stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    assert await stream.spend(500) == 300
    assert stream.ended is None  # Another replica may hold credits that it will not spend.
    for _ in range(13):
        clock.advance(1)
        meters.look()
        await _quiet()
    assert stream.ended is not None and stream.ended.err is Err.INSUFFICIENT_CREDITS
    stream.meter.leave(stream)
    await meters.stop()
    assert owner.available == 0


async def test_streams_leave_the_last_credits_to_calls(clock: ManualClock) -> None:
    """A part that would take all that is left takes half of it, so calls beside an open stream are answered."""
    owner = OneAccount(11)
    meters = Meters(owner, clock, REPLICA)
    stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    assert await stream.spend(1) == 1
    assert owner.available == 5
    stream.meter.leave(stream)
    await meters.stop()


@pytest.mark.parametrize("refusal", [None, Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, Err.CONCURRENCY_LIMITED.name])
async def test_an_owner_that_is_away_delays_and_does_not_end(clock: ManualClock, refusal: str | None) -> None:
    """Money rule 9: nothing is delivered on trust; when the owner is back, the stream goes on. None: no answer."""
    owner = OneAccount(100)
    meters = Meters(owner, clock, REPLICA)
    stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    owner.before_hold, owner.refusal = (unavailable, None) if refusal is None else (None, refusal)
    assert await stream.spend(1) == 0
    owner.before_hold = owner.refusal = None
    clock.advance(1)
    meters.look()
    await _quiet()
    assert stream.covered == 1 and stream.ended is None and await stream.spend(1) == 1


async def test_a_post_that_stays_unknown_is_voided(clock: ManualClock) -> None:
    """Money rule 2: in doubt the customer keeps the credits."""
    owner = OneAccount(100)
    meters = Meters(owner, clock, REPLICA)
    stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    await stream.spend(100)

    async def away(request: object) -> None:
        raise OwnerUnavailable

    owner.before_settle = away
    stream.meter.leave(stream)
    await meters.stop()
    assert owner.voided and owner.available == 100


async def test_a_charge_is_held_before_the_work_and_posted_or_released(clock: ManualClock) -> None:
    """Money rule 1, for connect charges. The metrics count what was posted, and no call."""
    owner, metrics = OneAccount(5), Metrics()
    meters = Meters(owner, clock, REPLICA, metrics)
    charge = await meters.hold(PROOF, "accountSubscribe", 5)
    assert isinstance(charge, HeldCharge) and owner.available == 0
    refused = await meters.hold(PROOF, "accountSubscribe", 5)
    assert isinstance(refused, Refusal) and refused.err is Err.INSUFFICIENT_CREDITS
    await meters.release(charge)
    again = await meters.hold(PROOF, "accountSubscribe", 5)
    assert isinstance(again, HeldCharge) and await meters.post(again)
    assert owner.posted == {"accountSubscribe": 5}
    samples = [sample for family in metrics.families() for sample in family.samples]
    counted = {sample.name: sample.value for sample in samples if sample.labels.get("method") == "accountSubscribe"}
    assert counted == {"ledger_gateway_credits_charged_total": 5}


@pytest.mark.parametrize(
    ("key", "standing", "refused"),
    [
        (0, 15, None),  # What other streams hold ahead counts still.
        (0, 14, Err.INSUFFICIENT_CREDITS),
        (3, 14, Err.KEY_BUDGET_EXCEEDED),
        (0, None, Err.SERVICE_TEMPORARILY_UNAVAILABLE),
    ],
)
async def test_a_stream_that_would_end_at_once_is_not_begun(
    clock: ManualClock, key: int, standing: int | None, refused: Err | None
) -> None:
    """Below ten credits after its charge the watch would end it: nothing is charged, and nothing stays held."""
    owner = OneAccount(14)
    owner.key = key

    async def ask(command: ReadStanding) -> OwnerReply[AccountStanding]:
        assert command.proof == ProvenProof(PUBKEY, key)
        if standing is None:
            raise OwnerUnavailable("away")
        return OwnerReply(AccountStanding(PUBKEY, standing, is_active=True, key=key))

    owner.ask = ask
    begun = await Meters(owner, clock, REPLICA).begin(PROOF, "accountSubscribe", 5)
    if refused is None:
        assert isinstance(begun, HeldCharge) and owner.available == 9
    else:
        assert isinstance(begun, Refusal) and begun.err is refused
        assert (owner.available, owner.held, owner.posted) == (14, {}, {})


def test_a_key_that_may_open_no_streams_hears_why() -> None:
    """Decisions, "Named keys": its methods do not name STREAMS."""
    refusal = refusal_of(HoldReply(PUBKEY, 1, None, (Err.METHOD_NOT_ALLOWED.name,), None))
    assert refusal is not None and refusal.err is Err.METHOD_NOT_ALLOWED and "STREAMS" in refusal.detail


async def test_allowances_need_no_rate_unit_and_no_free_slot() -> None:
    """An open stream is not starved by the calls of its account; a new subscription is a call like others."""
    async with a_world(accounts={"requests_per_second": 1, "concurrency": 1}) as world:
        wallet = await world.customer(credits=1_000)
        meters = Meters(world.accounts, world.clock, REPLICA)
        proof = ProvenProof(wallet.pubkey)
        first = await meters.hold(proof, "slotSubscribe", 5)
        assert isinstance(first, HeldCharge)
        second = await meters.hold(proof, "slotSubscribe", 5)
        assert isinstance(second, Refusal) and second.err is Err.RATE_LIMITED
        minute = await meters.hold(proof, "Subscribe", 60, takes_rate_unit=False)
        assert isinstance(minute, HeldCharge) and await meters.post(minute)
        stream = Stream(meters.open(ProvenProof(wallet.pubkey), NAME))
        for _ in range(1_000):
            while not stream.meter.spend(1, stream):
                stream.woken.clear()
                await stream.woken.wait()
        stream.meter.leave(stream)
        await meters.release(first)
        await meters.stop()
        debits = await world.debits(wallet)
        assert sum(credits for method, credits in debits if method == NAME) == 100
        assert await world.balance(wallet) == 1_000 - 60 - 100


async def test_a_meter_that_was_closed_does_not_close_its_successor() -> None:
    """Else nobody looks at the successor: its parts are never posted for their age, and refused holds not repeated."""
    meters = Meters(OneAccount(1_000), ManualClock(), REPLICA)
    old = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    old.meter.leave(old)
    new = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    old.meter.leave(old)
    assert meters.open(ProvenProof(PUBKEY), NAME) is new.meter is not old.meter
    await meters.stop()


async def test_a_named_key_pays_for_its_own_streams(clock: ManualClock) -> None:
    """Its holds and posts name it; its streams and the account's share nothing; it ends when its budget is spent."""
    owner = OneAccount(10_000)
    meters = Meters(owner, clock, REPLICA)
    own, keyed = (Stream(meters.open(ProvenProof(PUBKEY, key), NAME)) for key in (0, 3))
    assert own.meter is not keyed.meter
    assert await own.spend(20) == 20 and await keyed.spend(70) == 70
    assert meters.unposted_credits(ProvenProof(PUBKEY, 3)) == 7
    assert meters.unposted_credits(ProvenProof(PUBKEY)) == 9  # Of the account: all of it.
    meters.post_spent(ProvenProof(PUBKEY, 3))
    await _quiet()
    assert {settle.key: settle.charged for settle in owner.ends.values() if settle.charged} == {3: 7}
    owner.refusal = Err.KEY_BUDGET_EXCEEDED.name
    for _ in range(14):
        await keyed.spend(1_000)
        clock.advance(1)
        meters.look()
        await _quiet()
    assert keyed.ended is not None and keyed.ended.err is Err.KEY_BUDGET_EXCEEDED
    for stream in (own, keyed):
        stream.meter.leave(stream)
    await meters.stop()
