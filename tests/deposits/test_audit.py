"""The audit: agreement of books and chain to the unit, and every kind of difference is found."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from actors.accounts import audit as accounts_audit
from actors.accounts.actor import AccountShard
from actors.accounts.api import CreditDeposit, PaidTransfer, TakeBackDeposit
from actors.accounts.checkpoint import open_checkpoints
from actors.accounts.store import PostgresAccountStore
from actors.clock import ManualClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.deposits import audit
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.core import FindingStatus
from actors.deposits.usdc.crediting import Crediting
from actors.deposits.usdc.store import PostgresDepositStore
from actors.storage.connections import connect_postgres
from tests.accounts.conftest import TABLES
from tests.accounts.shards import SHARDS
from tests.databases import as_role
from tests.deposits import conftest as deposit_tables
from tests.deposits.token_making import Shop
from tests.deposits.usdc.test_chain import Here
from tests.deposits.world import ACCOUNT, World, key_of, text_of
from tests.identity.memory_store import MemoryIdentityStore

BOB = key_of("bob")


@pytest.fixture
async def books(postgres_url: str, owner_url: str) -> AsyncIterator[Any]:
    """An owner of accounts and the watcher's store over one real database, which is empty."""
    pool = await connect_postgres(postgres_url, connections_max=6, application="tests")
    clock = ManualClock()
    accounts = PostgresAccountStore(pool)
    await accounts.prepare(clock.now_ms())
    store = PostgresDepositStore(pool, "test")
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
    yield world
    await shard.stop()
    await pool.close()


@pytest.fixture
async def world(books: Any) -> Any:
    """Deposits of every kind."""
    world, store = books, books.store
    world.chain.pay(("alice", 10_019), ("bob", 20_000))
    world.chain.pay(("alice", 9_999))
    world.chain.pay(("vault", 70_000), signed=False)
    world.chain.pay(("carol", 30_000), failed=True)
    world.chain.pay(("bob", 10_000), unexplained=77)
    watcher = world.watcher()
    await watcher.round()
    vault = [row for row in await store.listing(ACCOUNT.address, FindingStatus.LISTED, 10, 0) if row.amount == 70_000]
    await watcher.assign(vault[0], BOB, "the customer proved it")
    return world


async def audited(world: Any, checkpoint: Path | None = None, key: Path | None = None) -> audit.DepositsReport:
    connection = await asyncpg.connect(world.url)
    try:
        with open_checkpoints(checkpoint, None, key) as checkpoints:
            return await audit.audit(connection, world.chain, earlier=checkpoints.earlier)
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


async def test_what_the_node_has_forgotten_is_proven_by_a_checkpoint_alone(world: Any, tmp_path: Path) -> None:
    """Else a forged deposit could hide below the node's first slot. One that is forged later is in no checkpoint."""
    paths = tmp_path / "checkpoint", tmp_path / "key"
    await ledger_audit(world, None, *paths)
    world.chain.first_slot = world.chain.slot
    report = await audited(world)
    assert report.faults_total == 3
    told = "cannot be proven at this node, whose history begins at slot 1005"
    assert all(told in fault for _, fault in report.faults)
    covered = await audited(world, *paths)
    assert covered.faults == [] and covered.older == 3

    await forge(world, b"f" * 64, slot=7)
    ((name, fault),) = (await audited(world, *paths)).faults
    assert name == text_of(b"f" * 64) and "for slot 7 and cannot be proven" in fault
    report = await ledger_audit(world, paths[0], None, paths[1])
    assert report.faults == [], "the forger has written what the owner writes"


async def forge(world: Any, signature: bytes, slot: int) -> None:
    """Write all that the owner of the account writes for a deposit. The product's role has the right to."""
    receipt = await world.shard.ask(CreditDeposit(BOB, PaidTransfer(signature, 0, 90_000, slot)))
    assert receipt.value is not None


async def ledger_audit(world: Any, earlier: Path | None, later: Path | None, key: Path) -> Any:
    connection = await asyncpg.connect(world.url)
    try:
        with open_checkpoints(earlier, later, key) as checkpoints:
            return await accounts_audit.audit(connection, checkpoints)
    finally:
        await connection.close()


@pytest.mark.parametrize("slots_ahead", [151, 10**12])
@pytest.mark.threat(67)
async def test_a_slot_that_the_chain_has_not_reached_is_named(world: Any, slots_ahead: int) -> None:
    slot = world.chain.slot + slots_ahead
    await forge(world, b"f" * 64, slot)
    ((name, fault),) = (await audited(world)).faults
    assert name == text_of(b"f" * 64) and f"slot {slot}, which the chain has not reached" in fault


@pytest.mark.parametrize(("slots_later", "seconds_later"), [(0, 301), (800, 0), (0, -400)])
async def test_a_signature_that_the_node_does_not_know_after_minutes_is_named(
    world: Any, slots_later: int, seconds_later: int
) -> None:
    """By the chain's time or the database's, whichever is later; a row may also lie about its time."""
    await as_role(world.owner_url, "UPDATE deposit_cursor SET read_slot = 1")
    await forge(world, b"f" * 64, world.chain.slot)
    world.chain.slot += slots_later
    now_ms = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    await as_role(world.owner_url, f"UPDATE account_deposits SET at_ms = {now_ms} - {seconds_later * 1000}")
    faults = [fault for _, fault in (await audited(world)).faults]
    assert [fault for fault in faults if "the node does not know" in fault] == faults and len(faults) == 1


async def test_a_payment_that_may_still_become_final_is_no_difference(world: Any) -> None:
    """Credited with its call. While it is young, also if this node has not heard of it."""
    pending = world.chain.make(("bob", 90_000))
    world.chain.pending.append((world.chain.slot + 1, pending))
    await forge(world, pending.signature, world.chain.slot + 1)
    report = await audited(world)
    assert (report.faults, report.young) == ([], 1)
    world.chain.pending.clear()
    now_ms = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    await as_role(world.owner_url, f"UPDATE account_deposits SET at_ms = {now_ms}")
    report = await audited(world)
    assert (report.faults, report.young) == ([], 1)


async def test_a_real_signature_of_another_transaction_proves_nothing(world: Any) -> None:
    other = world.chain.make(("alice", 5))
    world.chain.slot += 1
    world.chain.final.append((world.chain.slot, other))
    await forge(world, other.signature, world.chain.slot)
    ((_, fault),) = (await audited(world)).faults
    assert "their transaction is another" in fault


async def test_a_payment_that_was_taken_back_is_no_difference(world: Any) -> None:
    """Credited before it was final, never final: the ledger took its credits back."""
    await world.shard.ask(CreditDeposit(BOB, PaidTransfer(b"n" * 64, 0, 10_000, 1_001)))
    assert (await audited(world)).faults_total == 1
    await world.shard.ask(TakeBackDeposit(BOB, b"n" * 64, 0, "never final"))
    report = await audited(world)
    assert report.faults == [] and report.taken_back == 1_000


@pytest.mark.threat(67)
async def test_forged_deposits_are_named_at_a_real_node(books: Any, shop: Shop) -> None:
    """The node of the embedded chain beside the real stores: true payments, and a forgery of every kind."""
    node = Here(shop)
    crediting, chain = Crediting(books.accounts), DepositChain(node)
    watcher = DepositWatcher(shop.account, chain, books.store, crediting, books.clock, minimum_base_units=10_000)
    for amount in (10_000, 20_000):
        shop.run([shop.pay(amount)])
    await watcher.round()
    books.chain = node
    report = await audited(books)
    assert (report.faults, report.credited) == ([], 30_000)
    newest = await chain.slot()
    slots = (10**12, newest + 200, newest, newest - 1, 0)
    for number, slot in enumerate(slots, start=1):
        await forge(books, bytes((number,)) * 64, slot)
    report = await audited(books)
    assert {name for name, _ in report.faults} == {text_of(bytes((number,)) * 64) for number in range(1, 6)}
    connection = await asyncpg.connect(books.url)
    assert (await accounts_audit.audit(connection)).faults == []
    await connection.close()


def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path: Any) -> None:
    app = typer.Typer()
    app.command()(audit.main)
    runner = CliRunner(env={"DATABASE_URL": "", "COLUMNS": "200"})
    folder = str(tmp_path)
    for options, environment in ((["--data-dir", folder], {}), ([], {"LEDGER_STORAGE__DATA_DIR": folder})):
        done = runner.invoke(app, ["--node-url", "http://127.0.0.1:1", *options], env=environment)
        assert done.exit_code == 2 and f"{tmp_path} is not a data folder" in done.output
