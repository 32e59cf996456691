"""Deliveries from the queue to a receiver, with a real database and real sockets."""

import asyncio
import datetime
import json

import pytest
from standardwebhooks.webhooks import Webhook

from actors.signals.api import LoggedSignal
from actors.signals.events import SignalEvent
from actors.webhooks.api import CreateWebhook
from actors.webhooks.core import FAILING_MS_MAX
from actors.webhooks.payloads import signal_event, signal_gap_event
from actors.webhooks.places import Places

from .outside import Delivered, Receiver
from .test_readme import receiver_code
from .world import WebhookWorld

SYSTEM = "1" * 32


@pytest.mark.threat(27)
async def test_failures_are_retried_by_the_schedule_with_one_event_id(world: WebhookWorld, target: Receiver) -> None:
    """Threat 27: 500, then 429 with Retry-After; free until the first success."""
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


@pytest.mark.threat(27)
async def test_a_webhook_that_failed_for_a_week_or_is_gone_is_disabled(world: WebhookWorld, target: Receiver) -> None:
    """Threat 27: with the reason on the record; its owner can enable it again, and what waited is sent."""
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


@pytest.mark.threat(27)
async def test_a_receiver_that_hangs_delays_nobody(world: WebhookWorld, target: Receiver, other: Receiver) -> None:
    """Threats 27 and 28: while eight requests hang, another webhook gets all its events."""
    hanging, quick = [await world.gateway.customer(500) for _ in range(2)]
    released = target.waits()
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


@pytest.mark.threat(28)
async def test_fifty_slow_webhooks_of_one_account_leave_the_others_their_places(
    world: WebhookWorld, target: Receiver, other: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threats 27 and 28: receivers that are slow and succeed hold a place each second of their time. Eight
    requests to each are under way, none waits for a place, and another account gets all its events meanwhile."""
    slow, quick = await world.gateway.customer(5_000), await world.gateway.customer(500)
    released = target.waits()
    monkeypatch.setattr("actors.webhooks.sender._CONNECT_SECONDS_MAX", 120.0)  # A busy machine is no slow receiver.
    await world.have_patience(120.0)
    for _ in range(50):
        wanted = {"url": target.url, "filter_type": "my_account"}
        assert isinstance(await world.commands.ask(CreateWebhook(slow.pubkey, fields=wanted)), dict)
    await world.register(quick, other.url)
    world.dispatcher.places = Places(800)  # At 32 for each webhook the slow ones would take all.
    await world.queue(slow.text, 40)
    finishing = asyncio.ensure_future(_finish_for_ever(world))
    while await world.dispatcher.claim_once():
        pass
    assert world.dispatcher._lanes.under_way == 50 * 8
    assert world.dispatcher.places.of(slow.pubkey) <= 800 // 8 + 32 + 50 * 8
    await world.queue(quick.text, 300)
    while len(other.delivered) < 300:
        await world.dispatcher.claim_once()
        await asyncio.sleep(0.001)
    released.set()
    while len(target.delivered) < 600:
        await world.dispatcher.claim_once()
        await asyncio.sleep(0.001)
    assert len({each.event_id for each in target.delivered}) == len(target.delivered)
    finishing.cancel()


@pytest.mark.threat(28)
async def test_one_event_for_ten_thousand_webhooks(world: WebhookWorld, target: Receiver) -> None:
    """Threat 28: one row of the event, a job for each webhook, billed for each delivery; leases are bounded."""
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
    assert world.dispatcher.places.taken <= 2_000
    assert world.dispatcher._lanes.under_way <= 2_000


async def test_a_dispatcher_that_dies_after_sending_bills_once(world: WebhookWorld, target: Receiver) -> None:
    """At least once, and one charge: the charge is named by the event."""
    customer = await world.gateway.customer(10)
    await world.register(customer, target.url)
    await world.queue(customer.text)
    await world.dispatcher.claim_once()
    await asyncio.wait(tuple(world.dispatcher._requests))
    (job, _), *_ = world.dispatcher._ended
    await world.dispatcher._payments.settle([job], [])  # Sent and charged; dead before it is kept.
    world.dispatcher = world.new_dispatcher()
    await world.deliver()  # What was leased of its slices is given back first.
    assert [each.event_id for each in target.delivered] == [target.delivered[0].event_id] * 2
    assert await world.gateway.debits(customer) == [("webhookDelivery", 1)]


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


async def test_each_type_is_delivered_signed_and_charged_once(world: WebhookWorld, target: Receiver) -> None:
    """Interface, "Webhook deliveries"; decisions, "webhook delivery price": one credit at the first success, but for
    lifecycle events, corrections and gaps. The receiver of the README and the library verify each; replays are free."""
    customer, start = await world.gateway.customer(100), world.clock.now()
    secrets: dict[str, str] = {}
    for fields in (
        *({"filter_type": kind, "filter_value": SYSTEM} for kind in ("account", "program")),
        {"filter_type": "my_account"},
        {"filter_type": "lifecycle", "lifecycle_events": ["api_key.rotated"]},
        {"filter_type": "signal", "signal_events": ["largeSwap"], "min_lamports": 5},
    ):
        made = await world.register(customer, target.url, **fields)
        secrets[made["id"]] = made["secret"]
    await world.pool.execute(
        "INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body) VALUES"
        " (0, $1, 'api_key.rotated', 'a', 1700000000000, '{\"key_prefix\": \"srpc_live_abc\"}'),"
        " (0, $1, 'low_balance', 'b', 1700000000000, '{\"balance\": 999}')",
        customer.pubkey,
    )
    for _ in range(2):
        await world.dispatcher.take_events_once()
    await world.queue(customer.text)
    await world.queue(SYSTEM, filter_type="account")
    await world.queue(SYSTEM, filter_type="program")
    event = SignalEvent("largeSwap", "P", "S", 7, "M", ("a",), lamports=5)
    swap = LoggedSignal(
        *("1-1", "signal:S", "largeSwap", "M", "P", ("a",), (), 1, json.dumps(event.body()).encode(), True, 5)
    )
    told = [swap, swap._replace(cursor="1-2", is_first=False), swap._replace(cause="signal:T", lamports=4)]
    now_ms = world.clock.now_ms()
    await world.store.queue([signal_gap_event(b'{"gap":{}}', now_ms), *(signal_event(e, now_ms) for e in told)], now_ms)
    await world.deliver()
    assert len(target.delivered) == 7 and {each.headers["X-Webhook-Id"] for each in target.delivered} == set(secrets)
    for each in target.delivered:
        secret = secrets[each.headers["X-Webhook-Id"]]
        assert each.event_id.startswith(f"evt_{each.headers['X-Webhook-Id']}_")
        assert receiver_of_the_page(secret, each) and signed_by(secret, each)
    assert json.loads(target.delivered[-1].body) == event.body()
    rotated = next(
        body for each in target.delivered if (body := json.loads(each.body)).get("event") == "api_key.rotated"
    )
    assert (rotated["pubkey"], rotated["data"]) == (customer.text, {"key_prefix": "srpc_live_abc"})
    assert await world.gateway.debits(customer) == [("webhookDelivery", 1)] * 4
    for name in secrets:
        path = f"/webhooks/{name}/replay"
        assert (await world.request(customer, "POST", path, {"from": start, "to": start + 99})).json()["replayed"] >= 1
    await world.deliver()
    assert sorted(each.event_id for each in target.delivered[7:]) == sorted(
        each.event_id for each in target.delivered[:7]
    )
    assert await world.gateway.balance(customer) == 96
    for record in (await world.request(customer, "GET", "/webhooks")).json()["webhooks"]:
        last = record["last_delivery"]
        assert (last["status"], last["http_status"]) == ("delivered", 204)
        for entry in await world.log(customer, record):
            assert entry["status"] == "delivered" and len(entry["attempts"]) == 2


@pytest.mark.threat(29)
async def test_a_retry_is_signed_with_each_secret_for_its_day_however_often_it_is_rotated(
    world: WebhookWorld, target: Receiver
) -> None:
    """Threat 29: through three rotations of one day; a fourth waits, as it would end an earlier promise."""
    customer = await world.gateway.customer(10)
    webhook = await world.register(customer, target.url)
    target.answers(500)
    await world.queue(customer.text)
    await world.deliver()
    path, secrets = f"/webhooks/{webhook['id']}/rotate-secret", [webhook["secret"]]
    for _ in range(3):
        world.clock.advance(20)
        secrets.append((await world.request(customer, "POST", path, {})).json()["secret"])
    refused = await world.request(customer, "POST", path, {})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RATE_LIMITED")
    assert "3 earlier secrets" in refused.json()["error"]["message"]
    await world.deliver()
    sent = target.delivered[-1]
    assert len(set(secrets)) == 4
    assert all(signed_by(secret, sent) and receiver_of_the_page(secret, sent) for secret in secrets)
    world.clock.advance(86_400 - 35)  # The first has ended, the second not yet.
    await world.deliver()
    sent = target.delivered[-1]
    assert [signed_by(secret, sent) for secret in secrets] == [False, True, True, True]
    assert [receiver_of_the_page(secret, sent) for secret in secrets] == [False, True, True, True]
    assert (await world.request(customer, "POST", path, {})).status_code == 200
    world.clock.advance(200_000)
    await world.deliver()
    assert "X-Webhook-Signature-Previous" not in target.delivered[-1].headers


def signed_by(secret: str, sent: Delivered) -> bool:
    """By the library of Standard Webhooks, at the time that the delivery names."""
    at = datetime.datetime.fromtimestamp(int(sent.headers["webhook-timestamp"]), datetime.UTC)
    expected = Webhook(secret).sign(sent.headers["webhook-id"], at, sent.body.decode())
    return expected in sent.headers["webhook-signature"].split(" ")


def receiver_of_the_page(secret: str, sent: Delivered) -> bool:
    """By the ten lines of README.md, at the time that the delivery names."""
    is_ours = receiver_code(secret, int(sent.headers["X-Webhook-Timestamp"]))
    return bool(is_ours(sent.headers, sent.body))
