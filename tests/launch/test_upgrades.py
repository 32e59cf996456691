"""A database of an earlier release, with live balances, becomes one of this release: the same to every statement as a
new one, nothing taken from the release before, and every credit where it was.

fixtures/databases/ has what each release left. The chain of its deposits is made again here, as a node would have it.
"""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from actors.accounts import audit as accounts_audit
from actors.accounts.actor import AccountShard
from actors.accounts.store import PostgresAccountStore
from actors.calls import HoldItem, HoldRequest, KeyProof, SettleRequest
from actors.clock import ManualClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.deposits import audit as deposits_audit
from actors.launch.assembly.migrations import CONTEXTS, migrate_all, planned_steps, try_out
from actors.release import FIRST_RELEASE
from actors.storage.connections import connect_postgres
from actors.storage.migration_files import MigrationKind
from actors.storage.schema import read_layout
from actors.storage.schema_plan import SchemaMismatch
from actors.units import routing_bytes
from actors.webhooks import audit as webhooks_audit
from tests.accounts.shards import SHARDS, ask
from tests.databases import as_role
from tests.deposits.world import FakeChain, key_of
from tests.identity.memory_store import MemoryIdentityStore
from tests.launch.assembly.test_migrations import settings_of
from tests.storage.catalog import Catalog, broken_by, catalog, differences
from tests.tidy.sources import ROOT

_DATABASES = ROOT / "tests/fixtures/databases"
_EMPTY = ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO PUBLIC")
_RELEASES = sorted(_DATABASES.glob("release-*.sql"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def catalog_of(url: str) -> Catalog:
    connection = await asyncpg.connect(url)
    try:
        return await catalog(connection)
    finally:
        await connection.close()


@pytest.fixture(params=_RELEASES, ids=lambda path: path.stem)
async def before(request: pytest.FixtureRequest, owner_url: str) -> Catalog:
    """The catalog of a database that an earlier release left, which is now in this module's database."""
    await as_role(owner_url, *_EMPTY, _text(request.param))
    return await catalog_of(owner_url)


async def test_an_upgraded_database_is_the_same_as_a_new_one(
    before: Catalog, postgres_url: str, owner_url: str
) -> None:
    """So schema.sql and the migrations tell the same; and the release before misses nothing, while none that this
    release contracts for is it."""
    config = settings_of(postgres_url, owner_url)
    await migrate_all(config)
    upgraded = await catalog_of(owner_url)
    assert await planned_steps(config) == ()
    contracts = [one for context in CONTEXTS for one in read_layout(context).migrations if one.contract_from]
    if not contracts:
        assert broken_by(before, upgraded) == []
    await as_role(owner_url, *_EMPTY)
    await migrate_all(config)
    assert differences(upgraded, await catalog_of(owner_url)) == []


async def test_each_expansion_only_adds(owner_url: str) -> None:
    """Migration by migration, as each is applied beside running processes of the release before."""
    await as_role(owner_url, *_EMPTY)
    connection = await asyncpg.connect(owner_url)
    try:
        for layout in map(read_layout, CONTEXTS):
            for migration in layout.migrations:
                was = await catalog(connection)
                # Nobody writes meanwhile, and an index of a partitioned table is made in parts else (migrating.py).
                await connection.execute(migration.sql.replace(" CONCURRENTLY", ""))
                if migration.kind in (MigrationKind.EXPAND, MigrationKind.INDEX):
                    assert broken_by(was, await catalog(connection)) == [], (layout.context, migration.name)
    finally:
        await connection.close()


async def test_a_dry_run_changes_nothing(before: Catalog, postgres_url: str, owner_url: str) -> None:
    """It makes all of it, and rolls it back; and the product's role alone cannot even try."""
    config = settings_of(postgres_url, owner_url)
    planned = [step for step in await planned_steps(config) if step.migration is None or step.migration.index is None]
    assert list(await try_out(config)) == planned
    assert differences(before, await catalog_of(owner_url)) == []
    if planned:
        with pytest.raises(SchemaMismatch, match="a dry run needs the role that owns the tables"):
            await try_out(settings_of(postgres_url, None))


@pytest.fixture
async def owner_of_accounts(before: Catalog, postgres_url: str, owner_url: str) -> AsyncIterator[AccountShard]:
    """Of all accounts of the upgraded database."""
    await migrate_all(settings_of(postgres_url, owner_url))
    pool = await connect_postgres(postgres_url, connections_max=4, application="tests")
    clock = ManualClock()
    store, identity = PostgresAccountStore(pool), MemoryIdentityStore(clock)
    await store.prepare(clock.now_ms())
    shard = AccountShard(AccountsConfig(), IdentityConfig(), PaymentsConfig(), store, identity, clock, "new", SHARDS)
    await shard.start()
    yield shard
    await shard.stop()
    await pool.close()


async def called(shard: AccountShard, name: str, number: int, charged: int) -> int:
    """One paid call by the account's API key; returns what the account has left."""
    pubkey = key_of(name)
    proof = KeyProof(hashlib.sha256(b"key of " + pubkey).digest(), routing_bytes(pubkey))
    operation = b"replica2" + number.to_bytes(8, "big")
    held: Any = await ask(shard.hold_now, HoldRequest(operation, proof, (HoldItem("getBalance", charged),)))
    assert held.refusal is None, held
    settled: Any = await ask(
        shard.settle_now, SettleRequest(operation, pubkey, 1, "getBalance", charged, charged, 0, ManualClock().now())
    )
    assert settled.ok, settled
    return int(held.figures.credits_remaining)


def chain_of_first_release() -> FakeChain:
    """The transfers of the fixture, in their order."""
    chain = FakeChain()
    chain.pay(("alice", 10_000_000), ("bob", 2_000_000))
    chain.pay(("alice", 9_999))
    chain.pay(("vault", 70_000), signed=False)
    chain.pay(("carol", 30_000), failed=True)
    chain.pay(("bob", 10_000), unexplained=77)
    return chain


async def test_balances_are_exact_and_calls_go_on(owner_of_accounts: AccountShard, postgres_url: str) -> None:
    """Both audits, after paid calls by keys that the release before had made."""
    assert await called(owner_of_accounts, "alice", 1, 3) == 999_960 - 3
    assert await called(owner_of_accounts, "alice", 2, 4) == 999_960 - 7
    assert await called(owner_of_accounts, "bob", 3, 5) == 207_960 - 5
    connection = await asyncpg.connect(postgres_url)
    try:
        rows = await connection.fetch("SELECT pubkey, balance FROM accounts")
        assert dict(map(tuple, rows)) == {key_of("alice"): 999_953, key_of("bob"): 207_955}  # type: ignore[arg-type]
        ledger = await accounts_audit.audit(connection, None, [webhooks_audit.audit])
        assert ledger.faults == [] and ledger.accounts == 2 and ledger.balance == 999_953 + 207_955
        deposits = await deposits_audit.audit(connection, chain_of_first_release())
        assert deposits.faults == [] and (deposits.transfers, deposits.credited) == (5, 12_080_000)
    finally:
        await connection.close()


async def test_what_waited_is_still_there(before: Catalog, postgres_url: str, owner_url: str) -> None:
    """Races, webhooks with their deliveries, answers of Idempotency-Keys, signals; a webhook's fact waits."""
    await migrate_all(settings_of(postgres_url, owner_url))
    connection = await asyncpg.connect(postgres_url)
    try:
        for table, rows in (
            *(("send_races", 2), ("send_tickets", 2), ("webhooks", 1), ("webhook_jobs", 1)),
            *(("idempotency_keys", 1), ("signals", 1), ("referral_codes", 1), ("deposits", 7), ("webhook_facts", 1)),
        ):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == rows, table
    finally:
        await connection.close()


def test_every_release_before_this_one_left_a_database() -> None:
    """The first did; a release that is made adds its own."""
    assert _RELEASES[0].stem == f"release-{FIRST_RELEASE}"
