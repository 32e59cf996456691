"""What the database promises by itself: causes once, bounded queues, fair claims, one transaction with the outbox."""

import asyncpg
import pytest

from actors.webhooks import store as store_module
from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.store import JobResult, WebhooksUnavailable

from .outside import Receiver
from .world import WebhookWorld


async def test_a_cause_is_queued_once(world: WebhookWorld, target: Receiver) -> None:
    """An event that two sources see, or that is read again after a restart, is one event."""
    customer = await world.gateway.customer(5)
    await world.register(customer, target.url)
    event = world.event(customer.text)
    assert await world.store.queue([event], 1, slot=9) == 1
    assert await world.store.queue([event], 2, slot=7) == 0
    assert await world.store.cursor() == 9


async def test_events_that_nobody_waits_for_are_not_kept(world: WebhookWorld, target: Receiver) -> None:
    customer = await world.gateway.customer(5)
    await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["low_balance"])
    other = QueuedEvent("c", "lifecycle", customer.text, "api_key.rotated", None, 1, "{}")
    assert await world.store.queue([world.event(customer.text), other], 1) == 0
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_events") == 0


async def test_wallets_and_kinds_narrow_a_signal(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "watched wallets": AND with the kinds."""
    customer = await world.gateway.customer(5)
    made = await world.register(customer, target.url)
    await world.pool.execute(
        "UPDATE webhooks SET filter_type = 'signal', subject = '', kinds = '{newPair}', wallets = '{a,b}'"
        " WHERE id = $1",
        made["id"],
    )
    for cause, kind, wallets, jobs in (
        *(("1", "newPair", ["b", "c"], 1), ("2", "newPair", ["c"], 0), ("3", "newPair", None, 0)),
        ("4", "largeSwap", ["a"], 0),
    ):
        assert await world.store.queue([QueuedEvent(cause, "signal", "", kind, wallets, 1, "{}")], 1) == jobs


async def test_a_full_queue_of_one_webhook_takes_no_more_and_delays_no_other(
    world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded queues: what is above the bound makes no job; another webhook gets its own."""
    monkeypatch.setattr(store_module, "JOBS_WAITING_MAX", 3)
    customer = await world.gateway.customer(50)
    await world.register(customer, target.url)
    made = 0
    for _ in range(5):
        made += await world.queue(customer.text)
    assert made == 3
    await world.register(customer, target.url)
    assert await world.queue(customer.text) == 1


async def test_webhooks_take_turns(world: WebhookWorld, target: Receiver) -> None:
    """Hostile input 28: a claim takes a share of each, and two dispatchers never the same job."""
    first, second = await world.gateway.customer(5), await world.gateway.customer(5)
    await world.register(first, target.url)
    await world.register(second, target.url)
    await world.queue(first.text, 30)
    await world.queue(second.text, 2)
    now = world.clock.now_ms()
    claimed = await world.store.claim("one", now, now + 1_000, 100, 10, 9)
    assert [sum(job.pubkey == each.pubkey for job in claimed) for each in (first, second)] == [10, 2]
    assert await world.store.claim("two", now, now + 1_000, 100, 10, 9) == []
    await world.store.release([job.id for job in claimed], now)
    again = await world.store.claim("two", now, now + 1_000, 5, 10, 9)
    rest = await world.store.claim("one", now, now + 1_000, 100, 10, 9)
    assert len(again) == 5 and not {job.id for job in again} & {job.id for job in rest}
    assert all(job.lease == 2 for job in again)


async def test_events_of_accounts_leave_the_outbox_with_their_jobs_or_not_at_all(
    world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cause once across kills: what fails between taking and keeping is taken again, whole."""
    customer = await world.gateway.customer(0)
    await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["low_balance"])
    await world.pool.execute(
        "INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body)"
        " VALUES (0, $1, 'low_balance', 'a', 1700000000000, '{\"balance\": 999}')",
        customer.pubkey,
    )
    real = store_module._queue

    async def dies(*arguments: object) -> int:
        raise asyncpg.ConnectionDoesNotExistError("killed")

    monkeypatch.setattr(store_module, "_queue", dies)
    with pytest.raises(WebhooksUnavailable):
        await world.store.take_account_events(10, 1)
    monkeypatch.setattr(store_module, "_queue", real)
    assert await world.store.take_account_events(10, 1) == 1
    assert await world.store.take_account_events(10, 1) == 0
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_jobs") == 1


async def test_what_ended_long_ago_is_forgotten_and_what_waits_is_not(world: WebhookWorld, target: Receiver) -> None:
    customer = await world.gateway.customer(5)
    made = await world.register(customer, target.url)
    await world.queue(customer.text)
    await world.deliver()
    await world.queue(customer.text)
    world.clock.advance(8 * 86_400)
    await world.dispatcher.care_once()
    await world.dispatcher.care_once()
    assert [entry["status"] for entry in await world.log(customer, made)] == ["pending"]
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_events") == 1
    figures = await world.store.figures()
    assert figures.waiting == 1 and figures.oldest_ms is not None


async def test_webhooks_that_fail_leave_places_to_those_that_work(world: WebhookWorld, target: Receiver) -> None:
    """Hostile inputs 27 and 28: one request each, all of them together bounded, after those that work, with a rest."""
    customers = [await world.gateway.customer(5) for _ in range(4)]
    for customer in customers:
        await world.register(customer, target.url)
        await world.queue(customer.text, 5)
    await world.pool.execute(
        "UPDATE webhooks SET failing_since_ms = 1 WHERE pubkey = ANY ($1)", [each.pubkey for each in customers[:3]]
    )
    now = world.clock.now_ms()
    claimed = await world.store.claim("one", now, now + 1_000, 100, 10, 2)
    assert [job.pubkey for job in claimed[:5]] == [customers[3].pubkey] * 5
    assert len(claimed) == 7 and len({job.pubkey for job in claimed[5:]}) == 2
    assert await world.store.claim("one", now, now + 1_000, 100, 10, 0) == []
    failed = claimed[5]
    result = JobResult(failed.id, failed.lease, 0, now, 1, now, 5, 500, "", b"", None)
    await world.store.finish([result], now)
    rest = await world.store.claim("one", now + 59_000, now + 60_000, 100, 10, 9)
    assert failed.webhook_id not in {job.webhook_id for job in rest}
    again = await world.store.claim("one", now + 60_001, now + 70_000, 100, 10, 9)
    assert failed.webhook_id in {job.webhook_id for job in again}
