"""Accounts that pay for nothing now: no deliveries, few waiting jobs, and no places for long; until they pay again."""

import asyncio

from actors.accounts.api import SetStatus
from actors.webhooks.store import Dropped, WebhookStore

from .conftest import PAUSED_JOBS
from .outside import Receiver
from .test_store import ALICE, BOB, NOW, claim, hook, queue
from .world import WebhookWorld


async def test_without_credits_deliveries_pause_and_go_on_after_a_deposit(
    world: WebhookWorld, target: Receiver
) -> None:
    """No credit, no further delivery; lifecycle events go on."""
    customer = await world.gateway.customer(2)
    await world.register(customer, target.url)
    free = await world.register(
        customer, target.url + "/free", filter_type="lifecycle", lifecycle_events=["low_balance"]
    )
    await world.queue(customer.text, 3)
    await world.deliver()
    assert await world.gateway.balance(customer) == 0
    assert len(target.delivered) == 2
    await world.queue(customer.text, 5)
    await world.deliver()
    await world.dispatcher.collect_debts_once()
    await world.deliver()
    assert len(target.delivered) == 2
    await world.store.queue(
        [world.event(customer.text, "lifecycle")._replace(kind="low_balance")], world.clock.now_ms()
    )
    await world.deliver()
    assert target.delivered[-1].headers["X-Webhook-Id"] == free["id"]
    assert (await world.store.figures()).paused_accounts == 1
    await world.gateway.grant(customer, 10)
    world.clock.advance(11)
    await world.dispatcher.collect_debts_once()
    await world.deliver()
    assert len({each.event_id for each in target.delivered}) == len(target.delivered) == 9
    assert await world.gateway.balance(customer) == 10 - 1 - 5
    assert len(await world.gateway.debits(customer)) == 8


async def test_an_account_that_never_had_a_credit_is_delivered_nothing(world: WebhookWorld, target: Receiver) -> None:
    """Threat 68: it is asked whether the account pays before the first request, not after it."""
    customers = [await world.gateway.customer(0) for _ in range(3)]
    for customer in customers:
        for _ in range(3):
            await world.register(customer, target.url)
        await world.queue(customer.text, 100)
    for _ in range(3):
        await world.deliver()
        await world.dispatcher.collect_debts_once()
        world.clock.advance(11)
    assert target.delivered == [] and world.dispatcher.places.taken == 0
    assert (await world.store.figures()).paused_accounts == 3


async def test_credits_spent_meanwhile_leave_nothing_unpaid(world: WebhookWorld, target: Receiver) -> None:
    """What is under way or leased ahead, a tenth of the balance, is held: an account cannot spend it elsewhere
    meanwhile, and gets nothing more before it has credits again."""
    customer = await world.gateway.customer(120)
    await world.register(customer, target.url)
    await world.queue(customer.text, 100)
    released = target.waits()
    await world.dispatcher.claim_once()
    while len(target.delivered) < 8:  # noqa: ASYNC110 - the receiver is on real sockets.
        await asyncio.sleep(0.01)
    assert world.dispatcher.places.taken == 12
    await world.gateway.grant(customer, -120)
    released.set()
    while world.dispatcher._requests or world.dispatcher._has_ended.is_set():
        if world.dispatcher._requests:
            await asyncio.wait(tuple(world.dispatcher._requests), return_when=asyncio.FIRST_COMPLETED)
        await world.dispatcher.finish_once()
    paid = len(target.delivered)
    assert paid == 12 == len(await world.gateway.debits(customer)) and await world.gateway.balance(customer) == 0
    world.clock.advance(11)
    await world.dispatcher.collect_debts_once()
    await world.deliver()
    assert len(target.delivered) == paid and world.dispatcher.places.taken == 0
    await world.gateway.grant(customer, 1_000)
    world.clock.advance(11)
    await world.dispatcher.collect_debts_once()
    await world.deliver()
    assert len(target.delivered) == 100 and await world.gateway.balance(customer) == 912


async def test_a_suspended_account_gets_no_deliveries(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "account status": neither paid nor free ones; what waited goes on when it is resumed."""
    customer = await world.gateway.customer(10)
    await world.register(customer, target.url)
    await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["low_balance"])
    await world.gateway.shard.ask(SetStatus(customer.pubkey, "suspended", "abuse"))
    await world.queue(customer.text)
    low = [world.event(customer.text, "lifecycle")._replace(kind="low_balance")]
    await world.store.queue(low, world.clock.now_ms())
    for _ in range(3):
        await world.deliver()
        world.clock.advance(11)
        await world.dispatcher.collect_debts_once()
    assert target.delivered == []
    await world.gateway.shard.ask(SetStatus(customer.pubkey, "active", "mended"))
    world.clock.advance(11)
    await world.dispatcher.collect_debts_once()
    await world.deliver()
    assert len(target.delivered) == 2
    assert await world.gateway.debits(customer) == [("webhookDelivery", 1)]


async def test_an_account_that_is_paused_keeps_few_jobs_and_gives_its_places_back(store: WebhookStore) -> None:
    """Threat 68: its jobs are not leased, events beyond a number are counted, and after a while its wallets are
    not watched; until it pays again."""
    name = await hook(store, ALICE, "signal", wallets=("w",))
    await hook(store, BOB, "signal", wallets=("v",))
    assert set(await store.wallet_accounts()) == {ALICE, BOB}
    await store.pause([ALICE], NOW, NOW + 10)
    await store.pause([ALICE], NOW + 5_000, NOW)
    assert await store.wallet_accounts() == [BOB]
    assert await store.named_wallets(NOW) == {ALICE: {"w"}, BOB: {"v"}}
    assert await store.named_wallets(NOW + 1) == {BOB: {"v"}}
    mine = await hook(store, ALICE)
    await queue(store, PAUSED_JOBS + 3)
    assert await store.dropped(mine) == Dropped(3, NOW) and await claim(store) == []
    assert await store.debts(NOW + 9, NOW + 50, 9) == [] and await store.debts(NOW + 10, NOW + 50, 9) == [ALICE]
    assert await store.paid(ALICE, [])
    assert await store.named_wallets(NOW + 1) == {ALICE: {"w"}, BOB: {"v"}} and await store.dropped(name) == Dropped(
        0, None
    )
    assert {job.webhook_id for job in await claim(store)} == {mine}
