"""What the database promises beyond the suite of all stores (test_store.py): one transaction with the outbox."""

import asyncpg
import pytest

from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.store import WebhooksUnavailable

from .outside import Receiver
from .world import WebhookWorld


async def test_events_of_accounts_leave_the_outbox_with_their_jobs_or_not_at_all(
    world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cause once across kills: what fails between taking and keeping is taken again, whole."""
    customer = await world.gateway.customer(0)
    await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["low_balance"])
    other = QueuedEvent("c", "lifecycle", customer.text, "api_key.rotated", None, 1, "{}")
    assert await world.store.queue([world.event(customer.text), other], 1) == 0
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_events") == 0, "nobody waits for them"
    await world.pool.execute(
        "INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body)"
        " VALUES (0, $1, 'low_balance', 'a', 1700000000000, '{\"balance\": 999}')",
        customer.pubkey,
    )
    real = PostgresWebhookStore._queue

    async def dies(*arguments: object) -> int:
        raise asyncpg.ConnectionDoesNotExistError("killed")

    monkeypatch.setattr(PostgresWebhookStore, "_queue", dies)
    with pytest.raises(WebhooksUnavailable):
        await world.store.take_account_events(10, 1)
    monkeypatch.setattr(PostgresWebhookStore, "_queue", real)
    assert await world.store.take_account_events(10, 1) == 1
    assert await world.store.take_account_events(10, 1) == 0
    assert await world.pool.fetchval("SELECT count(*) FROM webhook_jobs") == 1
