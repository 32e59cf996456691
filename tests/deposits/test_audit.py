"""The audit: agreement of books and chain to the unit, and every kind of difference is found."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from actors.accounts.actor import AccountShard
from actors.accounts.api import CreditDeposit, TakeBackDeposit
from actors.accounts.store import PostgresAccountStore
from actors.clock import ManualClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.deposits import audit
from actors.deposits.core import FindingStatus
from actors.deposits.store import PostgresDepositStore
from actors.storage.connections import connect_postgres
from tests.accounts.conftest import TABLES
from tests.accounts.shards import SHARDS
from tests.databases import as_role
from tests.deposits import conftest as deposit_tables
from tests.deposits.world import ACCOUNT, World, key_of
from tests.identity.memory_store import MemoryIdentityStore

BOB = key_of("bob")


@pytest.fixture
async def world(postgres_url: str, owner_url: str) -> AsyncIterator[Any]:
    """A watcher and an owner of accounts over one real database, and deposits of every kind."""
    pool = await connect_postgres(postgres_url, connections_max=6, application="tests")
    clock = ManualClock()
    accounts = PostgresAccountStore(pool)
    await accounts.prepare(clock.now_ms())
    store = PostgresDepositStore(pool)
    await store.prepare()
    await as_role(owner_url, f"TRUNCATE {TABLES}, {deposit_tables.TABLES}")
    shard = AccountShard(
        AccountsConfig(),
        IdentityConfig(),
        PaymentsConfig(),
        accounts,
        MemoryIdentityStore(clock),
        clock,
        "audit",
        SHARDS,
    )
    await shard.start()
    world: Any = World(store, clock, accounts=shard)
    world.url, world.owner_url, world.shard = postgres_url, owner_url, shard
    world.chain.pay(("alice", 10_019), ("bob", 20_000))
    world.chain.pay(("alice", 9_999))
    world.chain.pay(("vault", 70_000), signed=False)
    world.chain.pay(("carol", 30_000), failed=True)
    world.chain.pay(("bob", 10_000), unexplained=77)
    watcher = world.watcher()
    await watcher.round()
    vault = [row for row in await store.listing(ACCOUNT.address, FindingStatus.LISTED, 10, 0) if row.amount == 70_000]
    await watcher.assign(vault[0], BOB, "the customer proved it")
    yield world
    await shard.stop()
    await pool.close()


async def audited(world: Any) -> audit.DepositsReport:
    connection = await asyncpg.connect(world.url)
    try:
        return await audit.audit(connection, world.chain)
    finally:
        await connection.close()


async def test_the_books_agree_with_the_chain_to_the_unit(world: Any) -> None:
    report = await audited(world)
    assert report.faults == []
    assert (report.transfers, report.received) == (5, 120_018)
    assert (report.credited, report.credits) == (110_019, 1_001 + 2_000 + 7_000 + 1_000)
    assert (report.waiting, report.unexplained) == (9_999, 77)


async def test_what_is_younger_than_the_watchers_reading_is_left_out(world: Any) -> None:
    """It may run beside a serving instance."""
    world.chain.pay(("alice", 10_000))
    assert (await audited(world)).faults == []
    await world.watcher().round()
    assert (await audited(world)).transfers == 6


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE account_deposits SET base_units = base_units + 1 WHERE base_units = 20000", "was credited as"),
        ("UPDATE account_deposits SET credits = credits + 1 WHERE base_units = 20000", "earned 2001 credits"),
        ("DELETE FROM account_deposits WHERE base_units = 20000", "neither credited nor listed"),
        ("DELETE FROM deposits WHERE amount = 9999", "neither credited nor listed"),
        (
            "INSERT INTO account_deposits SELECT '\\x01'::bytea || substr(operation, 2), pubkey, base_units,"
            " credits_per_usdc, credits, bonus, slot, at_ms, assigned FROM account_deposits WHERE base_units = 20000",
            "that the chain does not have",
        ),
        (
            "INSERT INTO account_deposits SELECT substr(operation, 1, 64) || '\\x00999999', pubkey, 9000000,"
            " credits_per_usdc, credits, bonus, slot, at_ms, assigned FROM account_deposits WHERE base_units = 20000",
            "the balance grew by",
        ),
    ],
)
async def test_every_difference_is_found(world: Any, statement: str, told: str) -> None:
    await as_role(world.owner_url, statement)
    report = await audited(world)
    assert any(told in fault for _, fault in report.faults), report.faults
    console = Console(record=True, width=240)
    audit.show(report, console)
    assert "Next:" in console.export_text()


async def test_what_the_node_has_forgotten_is_said_and_not_held_against_the_books(world: Any) -> None:
    world.chain.first_slot = world.chain.slot
    report = await audited(world)
    assert report.faults == [] and report.older == 3


async def test_a_payment_that_was_taken_back_is_no_difference(world: Any) -> None:
    """Credited before it was final, never final: the ledger took its credits back."""
    from actors.accounts.api import PaidTransfer

    await world.shard.ask(CreditDeposit(BOB, PaidTransfer(b"n" * 64, 0, 10_000, 1_001)))
    assert (await audited(world)).faults_total == 1
    await world.shard.ask(TakeBackDeposit(BOB, b"n" * 64, 0, "never final"))
    report = await audited(world)
    assert report.faults == [] and report.taken_back == 1_000


def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path: Any) -> None:
    app = typer.Typer()
    app.command()(audit.main)
    runner = CliRunner(env={"DATABASE_URL": "", "COLUMNS": "200"})
    folder = str(tmp_path)
    for options, environment in ((["--data-dir", folder], {}), ([], {"LEDGER_STORAGE__DATA_DIR": folder})):
        done = runner.invoke(app, ["--node-url", "http://127.0.0.1:1", *options], env=environment)
        assert done.exit_code == 2 and f"{tmp_path} is not a data folder" in done.output
