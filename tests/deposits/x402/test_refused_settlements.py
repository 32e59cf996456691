"""Payments that are not signed, or not credited: what they cost, and whether they may be tried again."""

import asyncio

from solders.transaction import VersionedTransaction

from actors.accounts.api import OwnerReply
from actors.deposits.x402 import settler
from actors.deposits.x402.network import Trial, Tried
from actors.deposits.x402.states import PaymentState
from actors.upstream import replies
from actors.x402_types import Lack, Settled
from tests.deposits.x402_world import USDC, lack


async def test_a_payment_that_landed_before_is_not_signed(world):
    """The node knows it, and the store does not. What its payer sent itself is looked up, and counts."""

    async def known(transaction: bytes) -> Tried:
        return Tried(Trial.ALREADY_LANDED)

    world.network.simulate = known
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert lack(found) is Lack.DUPLICATE and "landed before" in found.message and not found.may_land
    assert world.sponsor.signed == [] and world.accounts.credits == []
    own = world.self_paid(30_000)
    world.chain.land(VersionedTransaction.from_bytes(own))
    assert isinstance(await world.settler.relay(own, ""), Settled)


async def test_without_a_blockhash_nothing_is_claimed(world):
    """Its record could not say until when the payment may land; the same payment is good again at once."""
    world.node.before["getLatestBlockhash"] = replies.TIMED_OUT
    raw = world.standard()
    assert lack(await world.settler.pay(raw, 10_000, "")) is Lack.UNAVAILABLE
    assert world.store.records == {} and world.sponsor.signed == []
    world.node.before.clear()
    assert isinstance(await world.settler.pay(raw, 10_000, ""), Settled)


async def test_payments_under_way_are_bounded(world, monkeypatch):
    """One more is refused before its claim, so it is good again as soon as there is room."""
    monkeypatch.setattr(settler, "_UNDER_WAY_MAX", 1)
    first, second = world.standard(), world.standard(payer=world.chain.wallet(lamports=0, usdc_base_units=USDC))
    under_way = asyncio.create_task(world.settler.pay(first, 10_000, ""))
    await asyncio.sleep(0)
    assert lack(await world.settler.pay(second, 10_000, "")) is Lack.UNAVAILABLE
    assert isinstance(await under_way, Settled)
    assert isinstance(await world.settler.pay(second, 10_000, ""), Settled)


async def test_a_payment_worth_less_than_a_credit_is_closed_without_one(world):
    """At the operator's rate; it is not followed up for ever, and its call gets nothing for it."""

    async def worth_nothing(command):
        return OwnerReply(refusal="INVALID_REQUEST", detail="this amount is worth less than one credit")

    world.accounts.ask = worth_nothing
    found = await world.settler.pay(world.standard(10_000), 10_000, "")
    assert isinstance(found, Settled) and (found.credits_added, found.worth) == (0, 0)
    (record,) = world.store.records.values()
    assert (record.state, record.reason) == (PaymentState.FINAL, "this amount is worth less than one credit")


async def test_a_refusal_to_credit_leaves_the_payment_open(world):
    """The money has come: the credit is tried again until the owner gives it."""
    ask, refusals = world.accounts.ask, ["SERVICE_TEMPORARILY_UNAVAILABLE"] * 2

    async def busy(command):
        return OwnerReply(refusal=refusals.pop()) if refusals else await ask(command)

    world.accounts.ask = busy
    assert lack(await world.settler.pay(world.standard(), 10_000, "")) is Lack.PENDING
    await world.rounds(2)
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000
