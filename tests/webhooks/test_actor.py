"""Deliveries from the queue to a receiver, with a real database and real sockets."""

import asyncio
import datetime
import json

from aiohttp import web
from standardwebhooks.webhooks import Webhook

from actors.accounts.api import SetStatus
from actors.webhooks.actor import LEASE_MS, charge_operation
from actors.webhooks.core import FAILING_MS_MAX, KEPT_MS_MAX

from .outside import Delivered, Receiver
from .world import WebhookWorld


async def test_an_event_is_delivered_signed_and_charged_once(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "webhook delivery price": one credit at the first success; replays cost nothing more."""
    customer = await world.gateway.customer(10)
    webhook = await world.register(customer, target.url)
    await world.queue(customer.text)
    await world.deliver()
    (delivered,) = target.delivered
    assert delivered.event_id.startswith(f"evt_{webhook['id']}_")
    assert delivered.headers["X-Webhook-Id"] == webhook["id"]
    assert await world.gateway.balance(customer) == 9
    replay = await world.request(
        customer, "POST", f"/webhooks/{webhook['id']}/replay", {"event_ids": [delivered.event_id]}
    )
    assert replay.json()["replayed"] == 1
    await world.deliver()
    assert [each.event_id for each in target.delivered] == [delivered.event_id] * 2
    assert target.delivered[0].body == target.delivered[1].body
    assert await world.gateway.balance(customer) == 9
    assert await world.gateway.debits(customer) == [("webhookDelivery", 1)]
    (entry,) = await world.log(customer, webhook)
    assert entry["status"] == "delivered" and len(entry["attempts"]) == 2
    record = await world.record(customer, webhook)
    assert record["last_delivery"]["event_id"] == delivered.event_id
    assert (record["last_delivery"]["status"], record["last_delivery"]["http_status"]) == ("delivered", 204)


async def test_row_27_failures_are_retried_by_the_schedule_with_one_event_id(
    world: WebhookWorld, target: Receiver
) -> None:
    """Hostile input 27: 500, then 429 with Retry-After; free until the first success."""
    customer = await world.gateway.customer(10)
    webhook = await world.register(customer, target.url)
    await world.queue(customer.text)
    target.answers(500)
    await world.deliver()
    await world.deliver()
    assert len(target.delivered) == 1
    world.clock.advance(5)
    target.answers(429, **{"Retry-After": "3600"})
    await world.deliver()
    world.clock.advance(3_599)
    await world.deliver()
    assert len(target.delivered) == 2
    assert await world.gateway.balance(customer) == 10
    target.behaviour = None
    world.clock.advance(2)
    await world.deliver()
    assert len({each.event_id for each in target.delivered}) == 1 and len(target.delivered) == 3
    assert await world.gateway.balance(customer) == 9
    (entry,) = await world.log(customer, webhook)
    assert [each["http_status"] for each in entry["attempts"]] == [500, 429, 204]
    assert entry["attempts"][0]["response"] == "said"


async def test_row_27_a_webhook_that_failed_for_a_week_or_is_gone_is_disabled(
    world: WebhookWorld, target: Receiver
) -> None:
    """Hostile input 27: with the reason on the record; its owner can enable it again, and what waited is sent."""
    customer = await world.gateway.customer(10)
    gone = await world.register(customer, target.url)
    target.answers(410)
    await world.queue(customer.text)
    await world.deliver()
    record = await world.record(customer, gone)
    assert record["status"] == "disabled" and "410" in record["disabled_reason"]
    assert await world.queue(customer.text) == 0
    target.answers(500)
    await world.request(customer, "PATCH", f"/webhooks/{gone['id']}", {"status": "active"})
    await world.queue(customer.text)
    for seconds in (0, 30, 150, 700, 4_000, 15_000, FAILING_MS_MAX // 1_000):
        world.clock.advance(seconds)
        await world.deliver()
    record = await world.record(customer, gone)
    assert record["status"] == "disabled" and "3 days" in record["disabled_reason"]
    target.behaviour, count = None, len(target.delivered)
    await world.deliver()
    assert len(target.delivered) == count
    enabled = await world.request(customer, "PATCH", f"/webhooks/{gone['id']}", {"status": "active"})
    assert enabled.json()["webhook"]["disabled_reason"] is None
    world.clock.advance(50_000)
    await world.deliver()
    assert len(target.delivered) > count
    assert (await world.log(customer, gone))[0]["status"] == "delivered"


async def test_row_27_a_receiver_that_hangs_delays_nobody(
    world: WebhookWorld, target: Receiver, other: Receiver
) -> None:
    """Hostile inputs 27 and 28: while eight requests hang, another webhook gets all its events."""
    hanging, released = await world.gateway.customer(500), asyncio.Event()
    quick = await world.gateway.customer(500)

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response(status=204)

    target.behaviour = hang
    await world.register(hanging, target.url)
    await world.register(quick, other.url)
    await world.queue(hanging.text, 100)
    await world.queue(quick.text, 100)
    finishing = asyncio.ensure_future(_finish_for_ever(world))
    while len(other.delivered) < 100:
        await world.dispatcher.claim_once()
        await asyncio.sleep(0.001)
    assert len(target.delivered) == 8
    released.set()
    while len(target.delivered) < 100:
        await world.dispatcher.claim_once()
        await asyncio.sleep(0.001)
    finishing.cancel()


async def _finish_for_ever(world: WebhookWorld) -> None:
    while True:
        await world.dispatcher.finish_once()


async def test_row_28_one_event_for_ten_thousand_webhooks(world: WebhookWorld, target: Receiver) -> None:
    """Hostile input 28: one row of the event, a job for each webhook, billed for each delivery; leases are bounded."""
    customer = await world.gateway.customer(20_000)
    webhook = await world.register(customer, target.url)
    await world.pool.execute(
        "INSERT INTO webhooks (id, pubkey, url, filter_type, subject, secret, created_ms)"
        " SELECT 'wh_copy_' || n, pubkey, url, filter_type, subject, secret, created_ms"
        " FROM webhooks, generate_series(1, 9999) AS n WHERE id = $1",
        webhook["id"],
    )
    assert await world.queue(customer.text) == 10_000
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_events") == 1
    await world.dispatcher.claim_once()
    assert world.dispatcher._unfinished <= 2_000
    assert world.dispatcher._lanes.under_way <= 2_000


async def test_row_29_a_retry_that_waited_through_a_rotation_is_signed_with_both_secrets(
    world: WebhookWorld, target: Receiver
) -> None:
    """Hostile input 29: for a day; then the old secret is gone."""
    customer = await world.gateway.customer(10)
    webhook = await world.register(customer, target.url)
    target.answers(500)
    await world.queue(customer.text)
    await world.deliver()
    rotated = (await world.request(customer, "POST", f"/webhooks/{webhook['id']}/rotate-secret", {})).json()
    assert rotated["secret"] not in ("", webhook["secret"])
    world.clock.advance(5)
    await world.deliver()
    sent = target.delivered[-1]
    assert {"X-Webhook-Signature-Previous"} <= set(sent.headers)
    assert _is_signed_by(webhook["secret"], sent) and _is_signed_by(rotated["secret"], sent)
    world.clock.advance(86_400)
    await world.deliver()
    sent = target.delivered[-1]
    assert "X-Webhook-Signature-Previous" not in sent.headers
    assert _is_signed_by(rotated["secret"], sent) and not _is_signed_by(webhook["secret"], sent)


def _is_signed_by(secret: str, sent: Delivered) -> bool:
    """By the library of Standard Webhooks, at the time that the delivery names."""
    at = datetime.datetime.fromtimestamp(int(sent.headers["webhook-timestamp"]), datetime.UTC)
    expected = Webhook(secret).sign(sent.headers["webhook-id"], at, sent.body.decode())
    return expected in sent.headers["webhook-signature"].split(" ")


async def test_without_credits_deliveries_pause_and_go_on_after_a_deposit(
    world: WebhookWorld, target: Receiver
) -> None:
    """No credit, no further delivery; what was delivered unpaid is charged first; lifecycle events go on."""
    customer = await world.gateway.customer(2)
    await world.register(customer, target.url)
    free = await world.register(
        customer, target.url + "/free", filter_type="lifecycle", lifecycle_events=["low_balance"]
    )
    await world.queue(customer.text, 3)
    await world.deliver()
    assert await world.gateway.balance(customer) == 0
    assert len(target.delivered) == 3
    await world.queue(customer.text, 5)
    await world.deliver()
    await world.dispatcher.collect_debts_once()
    await world.deliver()
    assert len(target.delivered) == 3
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
    assert len(target.delivered) == 9
    assert await world.gateway.balance(customer) == 10 - 1 - 5
    assert len(await world.gateway.debits(customer)) == 8


async def test_paused_jobs_are_kept_for_three_days(world: WebhookWorld, target: Receiver) -> None:
    customer = await world.gateway.customer(0)
    webhook = await world.register(customer, target.url)
    await world.queue(customer.text)
    await world.deliver()
    await world.queue(customer.text, 2)
    world.clock.advance(KEPT_MS_MAX / 1_000 - 60)
    assert not await world.dispatcher.care_once()
    world.clock.advance(120)
    assert await world.dispatcher.care_once()
    assert [entry["status"] for entry in await world.log(customer, webhook)] == ["expired", "expired", "delivered"]


async def test_a_suspended_account_gets_no_deliveries(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "account status": nothing that is paid for."""
    customer = await world.gateway.customer(10)
    await world.register(customer, target.url)
    await world.gateway.shard.ask(SetStatus(customer.pubkey, "suspended", "abuse"))
    await world.queue(customer.text)
    await world.deliver()
    await world.queue(customer.text)
    await world.deliver()
    assert len(target.delivered) == 1
    assert await world.gateway.debits(customer) == []


async def test_a_dispatcher_that_dies_after_sending_bills_once(world: WebhookWorld, target: Receiver) -> None:
    """At least once, and one charge: the charge is named by the event."""
    customer = await world.gateway.customer(10)
    await world.register(customer, target.url)
    await world.queue(customer.text)
    await world.dispatcher.claim_once()
    await asyncio.wait(tuple(world.dispatcher._requests))
    (job, _), *_ = world.dispatcher._ended
    await world.dispatcher._charge([job])  # Sent and charged; dead before it is kept.
    world.dispatcher = world.new_dispatcher()
    await world.deliver()
    assert len(target.delivered) == 1  # Another dispatcher of this name does not begin by itself.
    assert await world.store.release_of("dispatcher", world.clock.now_ms()) == 1
    await world.deliver()
    assert [each.event_id for each in target.delivered] == [target.delivered[0].event_id] * 2
    assert await world.gateway.debits(customer) == [("webhookDelivery", 1)]


async def test_a_lease_that_ended_lets_another_dispatcher_send_and_refuses_the_late_result(
    world: WebhookWorld, target: Receiver
) -> None:
    """Skip-locked claims and leases: a dispatcher that was frozen cannot undo what another one did."""
    customer = await world.gateway.customer(10)
    webhook = await world.register(customer, target.url)
    target.answers(500)
    await world.queue(customer.text)
    frozen = world.new_dispatcher("frozen")
    await frozen.claim_once()
    await asyncio.wait(tuple(frozen._requests))
    target.behaviour = None
    await world.deliver()
    assert len(target.delivered) == 1
    world.clock.advance(LEASE_MS / 1_000 + 1)
    await world.deliver()
    await frozen.finish_once()
    (entry,) = await world.log(customer, webhook)
    assert entry["status"] == "delivered"
    assert await world.gateway.balance(customer) == 9


async def test_events_of_accounts_reach_lifecycle_webhooks_once(world: WebhookWorld, target: Receiver) -> None:
    """Interface, "Lifecycle events": from the outbox of accounts to the receiver, free, only those that were chosen."""
    customer = await world.gateway.customer(0)
    await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["api_key.rotated"])
    await world.pool.execute(
        "INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body) VALUES"
        " (0, $1, 'api_key.rotated', 'a', 1700000000000, '{\"key_prefix\": \"srpc_live_abc\"}'),"
        " (0, $1, 'low_balance', 'b', 1700000000000, '{\"balance\": 999}')",
        customer.pubkey,
    )
    for _ in range(2):
        await world.dispatcher.take_events_once()
        await world.deliver()
    (delivered,) = target.delivered
    assert json.loads(delivered.body) == {
        "event": "api_key.rotated",
        "pubkey": customer.text,
        "at": 1_700_000_000,
        "data": {"key_prefix": "srpc_live_abc"},
    }
    assert await world.gateway.debits(customer) == []


async def test_a_secret_that_cannot_be_read_is_a_failure_with_a_reason(world: WebhookWorld, target: Receiver) -> None:
    """After a change of the cluster's secret nothing is sent unsigned, and the log says what to do."""
    customer = await world.gateway.customer(10)
    webhook = await world.register(customer, target.url)
    await world.pool.execute("UPDATE webhooks SET secret = 'nonsense'")
    await world.queue(customer.text)
    await world.deliver()
    assert target.delivered == []
    (entry,) = await world.log(customer, webhook)
    assert "rotate" in entry["attempts"][0]["error"]


def test_the_charge_of_an_event_has_one_name() -> None:
    assert charge_operation("evt_a_1") == charge_operation("evt_a_1") != charge_operation("evt_a_2")
    assert len(charge_operation("evt_a_1")) == 16
