"""Deliveries that are paid: a credit is held before each, posted by a success, released by anything else."""

import asyncio

import pytest
from aiohttp import web

from actors.accounts.api import AccountStanding
from actors.methods.price_lists import PriceList
from actors.webhooks.payments import BEGIN_SECONDS, charge_operation

from .outside import Receiver
from .world import WebhookWorld


@pytest.mark.threat(68)
async def test_an_account_with_three_credits_gets_three_of_many_events(world: WebhookWorld, target: Receiver) -> None:
    """Credits that are spent while slow requests are under way: nothing leaves that is not held, so the ledger has as
    many debits as the receiver has events."""
    customer = await world.gateway.customer(3)
    for _ in range(2):
        await world.register(customer, target.url)
    await world.queue(customer.text, 211)

    async def spend(_: web.Request) -> web.Response:
        if len(target.delivered) == 2:
            await world.gateway.grant(customer, -3)  # All that is not held.
        return web.Response(status=204)

    target.behaviour = spend
    for _ in range(4):
        await world.deliver()
        await world.dispatcher.collect_debts_once()
        world.clock.advance(11)
    assert 2 <= len(target.delivered) <= 3 and await world.gateway.balance(customer) == 0
    assert await world.gateway.debits(customer) == [("webhookDelivery", 1)] * len(target.delivered)
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_jobs WHERE state = 5") == 0


async def test_a_failure_releases_what_was_held(world: WebhookWorld, target: Receiver) -> None:
    customer = await world.gateway.customer(10)
    await world.register(customer, target.url)
    await world.queue(customer.text)
    target.answers(500)
    await world.deliver()
    assert len(target.delivered) == 1 and (await _available(world, customer.pubkey)) == 10


async def test_a_killed_dispatcher_leaves_holds_that_expire(world: WebhookWorld, target: Receiver) -> None:
    customer = await world.gateway.customer(10)
    target.waits()
    await world.register(customer, target.url)
    await world.queue(customer.text)
    await world.dispatcher.claim_once()
    assert await _available(world, customer.pubkey) == 9
    await world.dispatcher.stop()
    world.clock.advance(61)
    await world.gateway.shard.tick()
    assert await _available(world, customer.pubkey) == 10
    assert await world.gateway.debits(customer) == []


async def test_a_job_that_waited_too_long_for_its_request_is_held_anew(world: WebhookWorld, target: Receiver) -> None:
    """No request begins whose hold may end before its charge."""
    customer, released = await world.gateway.customer(200), target.waits()
    await world.register(customer, target.url)
    await world.queue(customer.text, 20)
    await world.dispatcher.claim_once()
    while len(target.delivered) < 8:  # noqa: ASYNC110 - the receiver is on real sockets.
        await asyncio.sleep(0.01)
    world.clock.advance(BEGIN_SECONDS)
    released.set()
    await asyncio.wait(tuple(world.dispatcher._requests))
    assert len(target.delivered) == 8 and len(world.dispatcher._given_back) == 12
    await world.dispatcher.finish_once()
    await world.deliver()
    assert len(target.delivered) == 20 and await world.gateway.balance(customer) == 180


async def _available(world: WebhookWorld, pubkey: bytes) -> int:
    standing = await world.dispatcher._standings.one(pubkey)
    assert isinstance(standing, AccountStanding)
    return standing.available


def test_the_charge_of_an_event_has_one_name() -> None:
    assert charge_operation("evt_a_1") == charge_operation("evt_a_1") != charge_operation("evt_a_2")
    assert len(charge_operation("evt_a_1")) == 16


async def test_a_delivery_costs_what_the_list_of_its_account_says(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "Price lists": what is held is charged, though the list changes meanwhile; whole credits, rounded
    up."""
    world.dispatcher._payments._lists = {"dear": PriceList("dear", 250), "cheap": PriceList("cheap", 30)}
    customer = await world.gateway.customer(100)
    await world.register(customer, target.url)
    for name, cost in (("dear", 3), ("cheap", 1), ("dear", 3), ("gone", 1), ("", 1)):
        await world.gateway.give_list(customer, name)
        known = len(await world.gateway.debits(customer))
        await world.queue(customer.text, 2)
        await world.deliver()
        assert (await world.gateway.debits(customer))[known:] == [("webhookDelivery", cost)] * 2
    await world.gateway.give_list(customer, "dear")

    async def change(_: web.Request) -> web.Response:
        await world.gateway.give_list(customer, "")
        return web.Response(status=204)

    target.behaviour = change
    await world.queue(customer.text, 1)
    await world.deliver()
    assert (await world.gateway.debits(customer))[-1] == ("webhookDelivery", 3)
    assert await world.gateway.balance(customer) == 100 - 6 - 2 - 6 - 2 - 2 - 3


async def test_an_account_with_dear_deliveries_has_a_tenth_of_its_balance_held_and_waits_for_a_whole_price(
    world: WebhookWorld, target: Receiver
) -> None:
    """Decisions, "Price lists"; threat 68: its places are counted by what a delivery costs it, and what is left of a
    price pays for nothing, so its deliveries do not begin again every ten seconds."""
    world.dispatcher._payments._lists = {"dear": PriceList("dear", 250)}
    customer = await world.gateway.customer(123)
    await world.register(customer, target.url)
    await world.gateway.give_list(customer, "dear")
    await world.queue(customer.text, 1)
    await world.deliver()
    await world.queue(customer.text, 100)
    await world.dispatcher.claim_once()
    assert world.dispatcher.places.taken == 120 // 3 // 10
    await world.deliver()
    left = await world.gateway.balance(customer)
    await world.gateway.grant(customer, 2 - left)
    for _ in range(2):
        await world.deliver()
        world.clock.advance(11)
        await world.dispatcher.collect_debts_once()
        assert (await world.store.figures()).paused_accounts == 1
