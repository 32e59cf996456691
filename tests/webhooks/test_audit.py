"""Threat 56: a person with every right on the database changes webhooks, and the audit names it.

Real tables, a real owner of accounts over them, the customers' commands; then SQL with the rights of the tables' owner.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from actors.accounts import audit as ledger_audit
from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits
from actors.accounts.store import PostgresAccountStore
from actors.clock import ManualClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.units import base58_text
from actors.webhooks import audit
from actors.webhooks.fact_teller import FactTeller
from actors.webhooks.facts_store import PostgresFacts
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.registrations import Change, WebhookFilter
from tests.accounts.shards import SHARDS
from tests.databases import emptied, tamper
from tests.gateway.world import InProcessAccounts
from tests.identity.memory_store import MemoryIdentityStore

from .owned_webhooks import holding_all
from .test_facts_store import SIGNALS, webhook
from .test_store import ALICE, BOB, NOW
from .world import NO_WEBHOOKS

MINE = WebhookFilter("my_account", "own", "own")
TABLES = "TRUNCATE accounts, credit_batches, ledger, account_operations, account_facts, account_fact_heads"
EMPTY = f"{NO_WEBHOOKS}; {TABLES}"


@dataclass
class Books:
    """Two accounts. Told: wh_1 (changed), wh_2, wh_3 of Alice and wh_4 of Bob; wh_gone of Bob is deleted."""

    pool: asyncpg.Pool
    webhooks: PostgresWebhookStore
    facts: PostgresFacts
    teller: FactTeller
    owner_url: str

    async def tell(self) -> None:
        while await self.facts.waiting(0, 1):
            await self.teller.tell_once()

    async def faults(self) -> list[tuple[str, str]]:
        async with self.pool.acquire() as connection:
            return (await ledger_audit.audit(connection, None, [audit.audit])).faults

    async def tamper(self, *statements: str) -> None:
        await tamper(self.owner_url, *statements)


@pytest.fixture
async def books(postgres_url: str, owner_url: str) -> AsyncIterator[Books]:
    await tamper(owner_url, EMPTY)
    async with emptied(postgres_url, owner_url) as pool:
        clock, held = ManualClock(), await holding_all(pool)
        store = PostgresAccountStore(pool)
        await store.prepare(clock.now_ms())
        identity: Any = MemoryIdentityStore(clock)
        shard = AccountShard(
            AccountsConfig(), IdentityConfig(), PaymentsConfig(), store, identity, clock, "one", SHARDS
        )
        await shard.start()
        owners: Any = InProcessAccounts(shard)
        for pubkey in (ALICE, BOB):
            assert (await shard.ask(AdjustCredits(pubkey, 5, "test", "grant"))).value is not None
        facts = PostgresFacts(pool, held)
        found = Books(pool, PostgresWebhookStore(pool, held), facts, FactTeller(facts, owners), owner_url)
        for made in (
            *(webhook("wh_1"), webhook("wh_2", ALICE, MINE), webhook("wh_3", ALICE, MINE)),
            *(webhook("wh_4", BOB), webhook("wh_gone", BOB)),
        ):
            assert await found.webhooks.create(made, b"sealed")
        await found.tell()
        assert await found.webhooks.change(ALICE, "wh_1", Change(WebhookFilter("signal", None, "", mint="m")), NOW)
        assert await found.webhooks.rotate(ALICE, "wh_1", b"new", NOW, NOW + 9, 3) == 0
        assert await found.webhooks.delete(BOB, "wh_gone", NOW)
        await found.tell()
        try:
            yield found
        finally:
            await shard.stop()


async def test_true_webhooks_have_no_faults(books: Books) -> None:
    """Whatever waits, and whatever changes by itself or by its customer's leave."""
    assert await books.faults() == []
    kinds = await books.pool.fetchval("SELECT count(*) FROM ledger WHERE type = 6 AND method = 'webhook'")
    assert kinds == 8 and await books.facts.waiting(0, 9) == []
    assert await books.webhooks.create(webhook("wh_5"), b"sealed") and await books.webhooks.delete(ALICE, "wh_2", NOW)
    assert await books.webhooks.change(ALICE, "wh_1", Change(SIGNALS, enable=False), NOW)
    assert await books.faults() == [], "these wait"
    await books.tell()
    assert await books.faults() == []


async def test_a_fact_that_is_told_twice_or_late_changes_nothing(books: Books) -> None:
    """As by a dispatcher that was killed, or cut off, before it removed the fact."""
    assert await books.webhooks.change(BOB, "wh_4", Change(WebhookFilter("signal", None, "", mint="m")), NOW)
    rows = await books.pool.fetch("SELECT * FROM webhook_facts")
    assert await books.webhooks.change(BOB, "wh_4", Change(SIGNALS), NOW)
    await books.tell()
    for row in rows:
        await books.tamper(
            "INSERT INTO webhook_facts (id, pubkey, webhook_id, body) OVERRIDING SYSTEM VALUE"
            f" VALUES ({row['id']}, '\\x{row['pubkey'].hex()}', 'wh_4', '{row['body']}')"
        )
    await books.tell()
    assert rows and await books.faults() == []


@pytest.mark.threat(56)
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE webhooks SET url = 'https://thief.example/' WHERE id = 'wh_1'", "webhook wh_1: url_hash is "),
        (
            "UPDATE webhooks SET kinds = NULL, mint = 'n' WHERE id = 'wh_1'",
            "webhook wh_1: mint is 'n', by the facts 'm'",
        ),
        ("UPDATE webhooks SET min_lamports = 1 WHERE id = 'wh_1'", "wh_1: min_lamports is 1, by the facts 0"),
        ("UPDATE webhooks SET wallets = '{w9}' WHERE id = 'wh_2'", "wh_2: wallets is ['w9'], by the facts None"),
        ("UPDATE webhooks SET programs = '{p}' WHERE id = 'wh_2'", "wh_2: programs is ['p'], by the facts None"),
        ("UPDATE webhooks SET kinds = '{}' WHERE id = 'wh_2'", "wh_2: kinds is [], by the facts None"),
        ("UPDATE webhooks SET filter_type = 'account' WHERE id = 'wh_2'", "wh_2: filter_type is 'account'"),
        ("UPDATE webhooks SET filter_value = NULL WHERE id = 'wh_2'", "wh_2: filter_value is None, by the facts 'own'"),
        ("UPDATE webhooks SET subject = 'other' WHERE id = 'wh_2'", "wh_2: subject is 'other', by the facts 'own'"),
        ("DELETE FROM webhooks WHERE id = 'wh_2'", "webhook wh_2 is gone: the facts have it"),
        ("UPDATE webhooks SET status = 'deleted' WHERE id = 'wh_2'", "webhook wh_2 is gone: the facts have it"),
        (
            "INSERT INTO webhooks (id, pubkey, url, filter_type, subject, secret, created_ms)"
            " SELECT 'wh_0', pubkey, url, filter_type, subject, secret, 1 FROM webhooks WHERE id = 'wh_2'",
            "webhook wh_0 is there, and no fact tells of it",
        ),
    ],
)
async def test_a_webhook_that_was_changed_put_in_or_taken_away_is_named(
    books: Books, statement: str, words: str
) -> None:
    await books.tamper(statement)
    faults = await books.faults()
    assert {who for who, _ in faults} == {base58_text(ALICE)} and any(words in fault for _, fault in faults), faults
    if "thief" in statement:
        assert "thief" not in repr(faults), "a URL is not told, of which the facts have no text either"


@pytest.mark.threat(56)
async def test_a_deleted_webhook_that_is_there_again_is_named(books: Books) -> None:
    await books.tamper(
        "INSERT INTO webhooks (id, pubkey, url, filter_type, subject, secret, created_ms)"
        " SELECT 'wh_gone', pubkey, url, filter_type, subject, secret, 1 FROM webhooks WHERE id = 'wh_4'"
    )
    assert await books.faults() == [(base58_text(BOB), "webhook wh_gone is there: by the facts it was deleted")]


@pytest.mark.threat(56)
async def test_a_webhook_given_to_another_account_is_named_at_both(books: Books) -> None:
    await books.tamper(f"UPDATE webhooks SET pubkey = '\\x{BOB.hex()}' WHERE id = 'wh_2'")
    assert sorted(await books.faults()) == [
        (base58_text(ALICE), "webhook wh_2 is gone: the facts have it"),
        (base58_text(BOB), "webhook wh_2 is there, and no fact tells of it"),
    ]


@pytest.mark.threat(56)
async def test_a_changed_fact_is_named_by_the_chain(books: Books) -> None:
    """The row and its fact agree then, and the hash chain of the account does not."""
    await books.tamper(
        "UPDATE webhooks SET mint = 'n' WHERE id = 'wh_1'",
        """UPDATE ledger SET description = replace(description, '"mint":"m"', '"mint":"n"') WHERE method = 'webhook'"""
        f" AND pubkey = '\\x{ALICE.hex()}'",
    )
    faults = await books.faults()
    assert faults and all("chain" in fault for _, fault in faults), faults


@pytest.mark.threat(56)
async def test_a_fact_that_is_kept_from_the_ledger_is_named(books: Books) -> None:
    """Whoever puts a fact beside a changed row must leave it to be told, where the customer sees it."""
    assert await books.webhooks.change(BOB, "wh_4", Change(WebhookFilter("signal", None, "", mint="n")), NOW)
    await books.tamper("UPDATE webhook_facts SET at_ms = (SELECT max(last_ms) FROM accounts) - 3600000")
    assert await books.faults() == []
    await books.tamper("UPDATE webhook_facts SET at_ms = at_ms - 1")
    assert await books.faults() == [
        (base58_text(BOB), "webhook wh_4: a fact about it is not in the ledger after an hour")
    ]
