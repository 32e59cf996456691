"""One suite for facts in memory and in PostgreSQL: what a customer chooses of a webhook waits to be told to its ledger.
Rule: decisions, "One chain of facts"."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from actors.ownership.held import HeldSlices
from actors.webhooks.facts_store import FactsStore, PostgresFacts
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.registrations import WEBHOOKS_MAX, Change, Webhook, WebhookFilter
from actors.webhooks.slices import SLICES, slice_of
from actors.webhooks.store import WebhookStore, WebhooksUnavailable
from tests.databases import as_role, emptied

from .memory_facts import MemoryFacts, NotingWebhookStore, chosen
from .test_store import ALICE, BOB, NOW
from .world import NO_WEBHOOKS

SIGNALS = WebhookFilter("signal", None, "", ("graduation",), ("w1", "w2"), "m", None, (1 << 64) - 1)


class Kept(NamedTuple):
    webhooks: WebhookStore
    facts: FactsStore
    held: HeldSlices

    async def bodies(self) -> list[dict[str, Any]]:
        return [fact.body for fact in await self.facts.waiting(0, 1_000)]


@pytest.fixture(params=["memory", "postgres"])
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    held = HeldSlices()
    held.took(range(SLICES), 1)
    if request.param == "memory":
        noting: Any = NotingWebhookStore()
        yield Kept(noting, MemoryFacts(noting, held.serving), held)
        return
    urls = (request.getfixturevalue(name) for name in ("postgres_url", "owner_url"))
    async with emptied(*urls, NO_WEBHOOKS) as pool:
        yield Kept(PostgresWebhookStore(pool, held), PostgresFacts(pool, held), held)


def webhook(name: str, pubkey: bytes = ALICE, wanted: WebhookFilter = SIGNALS) -> Webhook:
    return Webhook(name, pubkey, f"https://e.example/{name}?token=s3cret", wanted, "active", None, NOW)


async def test_registrations_changes_rotations_and_deletions_wait_in_their_order(kept: Kept) -> None:
    """Each is there as soon as the change is, with a hash in place of the URL, and stays until it is told."""
    first, narrow = webhook("wh_1"), replace(SIGNALS, wallets=None, min_lamports=5)
    assert await kept.webhooks.create(first, b"sealed")
    assert await kept.webhooks.change(ALICE, "wh_1", Change(narrow), NOW)
    assert await kept.webhooks.rotate(ALICE, "wh_1", b"new", NOW + 1, NOW + 9, 3) == 0
    assert await kept.webhooks.delete(ALICE, "wh_1", NOW)
    waiting = await kept.facts.waiting(0, 9)
    assert [fact.body for fact in waiting] == [
        chosen(first),
        chosen(replace(first, filter=narrow)),
        {"id": "wh_1", "rotated_ms": NOW + 1},
        {"id": "wh_1", "deleted": True},
    ]
    ids = [fact.id for fact in waiting]
    assert ids == sorted(set(ids)) and {fact.pubkey for fact in waiting} == {ALICE}
    assert "s3cret" not in repr(waiting) and waiting[0].numbered == chosen(first) | {"number": ids[0]}
    assert await kept.facts.waiting(ids[0], 2) == waiting[1:3]
    await kept.facts.told([ids[0], ids[2]])
    assert await kept.facts.waiting(0, 9) == [waiting[1], waiting[3]]


async def test_a_change_that_waits_gives_way_to_the_next_one(kept: Kept) -> None:
    """Changes are free: whoever changes a webhook again and again has one of them waiting."""
    first, other = webhook("wh_1"), webhook("wh_2")
    assert await kept.webhooks.create(first, b"") and await kept.webhooks.create(other, b"")
    for least in (3, 4, 5):
        for name in ("wh_1", "wh_2"):
            assert await kept.webhooks.change(ALICE, name, Change(replace(SIGNALS, min_lamports=least)), NOW)
    newest = replace(SIGNALS, min_lamports=5)
    assert await kept.bodies() == [
        *(chosen(first), chosen(other)),
        *(chosen(replace(first, filter=newest)), chosen(replace(other, filter=newest))),
    ]


async def test_where_nothing_that_was_chosen_changes_there_is_no_fact(kept: Kept) -> None:
    """Status, what another account asks, and what is refused."""
    for number in range(WEBHOOKS_MAX):
        assert await kept.webhooks.create(webhook(f"wh_{number}"), b"")
    before = await kept.bodies()
    assert not await kept.webhooks.create(webhook("wh_beyond"), b"")
    for change in (Change(enable=False), Change(enable=True), Change(SIGNALS)):
        assert await kept.webhooks.change(ALICE, "wh_1", change, NOW) is not None
    assert await kept.webhooks.change(BOB, "wh_1", Change(replace(SIGNALS, mint=None)), NOW) is None
    assert not await kept.webhooks.delete(BOB, "wh_1", NOW)
    for _ in range(3):
        assert await kept.webhooks.rotate(ALICE, "wh_1", b"", NOW, NOW + 9, 2) is not None
    assert (await kept.bodies())[WEBHOOKS_MAX:] == [{"id": "wh_1", "rotated_ms": NOW}] * 2
    assert (await kept.bodies())[:WEBHOOKS_MAX] == before


async def test_a_dispatcher_reads_the_facts_of_its_slices(kept: Kept) -> None:
    assert slice_of(ALICE) != slice_of(BOB)
    assert await kept.webhooks.create(webhook("wh_1"), b"") and await kept.webhooks.create(webhook("wh_2", BOB), b"")
    kept.held.lose(slice_of(ALICE), 1)
    assert [fact.pubkey for fact in await kept.facts.waiting(0, 9)] == [BOB]
    kept.held.lose(slice_of(BOB), 1)
    assert await kept.facts.waiting(0, 9) == []


async def test_a_change_and_its_fact_are_written_together_or_not_at_all(postgres_url: str, owner_url: str) -> None:
    """One transaction: a kill between the two leaves neither."""
    refusing = "ALTER TABLE webhook_facts ADD CONSTRAINT refusing CHECK (false) NOT VALID"
    held = HeldSlices()
    async with emptied(postgres_url, owner_url, NO_WEBHOOKS) as pool:
        store, facts = PostgresWebhookStore(pool, held), PostgresFacts(pool, held)
        assert await store.create(webhook("wh_1"), b"sealed")
        before = await pool.fetch("SELECT * FROM webhooks")
        await as_role(owner_url, refusing)
        try:
            for change in (
                store.create(webhook("wh_2"), b"sealed"),
                store.change(ALICE, "wh_1", Change(replace(SIGNALS, mint="n")), NOW),
                store.rotate(ALICE, "wh_1", b"new", NOW, NOW + 9, 3),
                store.delete(ALICE, "wh_1", NOW),
            ):
                with pytest.raises(WebhooksUnavailable):
                    await change
        finally:
            await as_role(owner_url, "ALTER TABLE webhook_facts DROP CONSTRAINT refusing")
        assert await pool.fetch("SELECT * FROM webhooks") == before
        assert await pool.fetchval("SELECT count(*) FROM webhook_facts") == 1
        await facts.told([await pool.fetchval("SELECT id FROM webhook_facts")])
        assert await pool.fetchval("SELECT count(*) FROM webhook_facts") == 0
