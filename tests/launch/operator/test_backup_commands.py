"""The way back: a base backup and the archived log of a real PostgreSQL, restored to a time, verified, gone on with.

By the steps of deploy/backups/README.md: deposits of after the time are found again, its charges are gone, and a row
that was altered is named.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from aiohttp import web
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from actors.accounts.actor import AccountShard
from actors.accounts.api import IssueKey
from actors.accounts.audit import LedgerReport
from actors.accounts.store import PostgresAccountStore
from actors.calls import HoldItem, HoldRequest, SettleRequest, WalletProof
from actors.clock import SystemClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.deposits.audit import DepositsReport
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.crediting import Crediting
from actors.deposits.usdc.store import PostgresDepositStore
from actors.identity.credentials import parse_api_key
from actors.launch.local_run import screen
from actors.launch.local_run.run import Parts
from actors.launch.operator.backup_commands import AFTER_RESTORE, CopyState, Verified, document, next_step, show
from actors.launch.operator.cli import make_cli
from actors.storage.connections import connect_postgres
from actors.storage.schema_plan import MigrationStep, SchemaChange
from actors.units import base58_text
from tests.accounts.shards import SHARDS, ask
from tests.databases import as_role, bring_up, tamper
from tests.deposits.token_making import Shop
from tests.deposits.usdc.test_chain import Here
from tests.identity.memory_store import MemoryIdentityStore
from tests.launch.operator.archived_server import Backups, Server, until
from tests.tidy.sources import ROOT


def _unused(*_: Any) -> Any:
    raise AssertionError("nothing may be started by these commands")


CLI = make_cli(Parts(_unused, _unused, _unused, _unused, _unused))


def verify(*arguments: str) -> Result:
    """Its connections have an event loop of their own, as in a process of its own: call it in a thread."""
    done = CliRunner(env={"DATABASE_URL": "", "COLUMNS": "240"}).invoke(CLI, ["backup", "verify", *arguments])
    screen.print_for_programs(False)  # A process has one command; these tests have several.
    return done


class Outside:
    """What goes on beside the database, before and after: the chain, Redis, and the clients' calls."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.calls = shop, iter(range(1, 100))
        self.clock = SystemClock()  # As the server's, which stamps what it replays.
        self.nonces = MemoryIdentityStore(self.clock)


@dataclass
class Books:
    """One life of an account's owner and of the watcher on one server."""

    shard: AccountShard
    watcher: DepositWatcher
    outside: "Outside"

    async def charge(self, pubkey: bytes, credits: int) -> int:
        """One paid call by a new key; returns what the account has left."""
        number, clock = next(self.outside.calls), self.outside.clock
        issued = await self.shard.ask(IssueKey(WalletProof(pubkey, f"nonce-{number}", clock.now())))
        assert issued.value is not None, issued
        proof, operation = parse_api_key(issued.value), b"replica1" + number.to_bytes(8, "big")
        assert proof is not None
        held = await ask(self.shard.hold_now, HoldRequest(operation, proof, (HoldItem("getBalance", credits),)))
        settled = await ask(
            self.shard.settle_now,
            SettleRequest(operation, pubkey, held.epoch, "getBalance", credits, credits, 0, clock.now()),
        )
        assert held.refusal is None and settled.ok
        return int(held.figures.credits_remaining)


@asynccontextmanager
async def books_on(server: Server, outside: Outside) -> AsyncIterator[Books]:
    pool = await connect_postgres(server.embedded.url, connections_max=6, application="tests")
    clock, shop = outside.clock, outside.shop
    accounts, deposits = PostgresAccountStore(pool), PostgresDepositStore(pool, "test")
    await accounts.prepare(clock.now_ms())
    await deposits.prepare()
    settings = AccountsConfig(), IdentityConfig(), PaymentsConfig()
    shard = AccountShard(*settings, accounts, outside.nonces, clock, "backups", SHARDS)
    await shard.start()
    try:
        chain, crediting = DepositChain(Here(shop)), Crediting(shard)
        watcher = DepositWatcher(shop.account, chain, deposits, crediting, clock, minimum_base_units=10_000)
        yield Books(shard, watcher, outside)
    finally:
        await shard.stop()
        await pool.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.node.close()


@pytest.fixture
async def node_url(shop: Shop) -> AsyncIterator[str]:
    """The chain of the test behind HTTP, as a node is."""

    async def answer(request: web.Request) -> web.Response:
        body = shop.node.dispatcher.answer(await request.read())
        return web.Response(body=body, content_type="application/json")

    served = web.Application()
    served.router.add_post("/", answer)
    runner = web.AppRunner(served)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


@pytest.fixture
def backups() -> Iterator[Backups]:
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    folder.chmod(0o711)
    made = Backups(folder)
    try:
        yield made
    finally:
        made.live.close()
        shutil.rmtree(folder, ignore_errors=True)


async def balance_of(server: Server, pubkey: bytes) -> int:
    connection = await asyncpg.connect(server.embedded.url)
    try:
        return int(await connection.fetchval("SELECT balance FROM accounts WHERE pubkey = $1", pubkey))
    finally:
        await connection.close()


async def time_of(server: Server) -> datetime:
    """Of the database: a commit before has an earlier time, and one after it a later one."""
    connection = await asyncpg.connect(server.embedded.url)
    try:
        found: datetime = await connection.fetchval("SELECT clock_timestamp()")
        return found
    finally:
        await connection.close()


async def test_back_to_a_time_and_on_from_there(backups: Backups, shop: Shop, node_url: str, tmp_path: Path) -> None:
    customer, outside = bytes(shop.wallet), Outside(shop)
    checkpoint, key = str(tmp_path / "checkpoint"), str(tmp_path / "key")
    backups.live.start()
    await bring_up(backups.live.embedded)
    async with books_on(backups.live, outside) as books:
        shop.run([shop.pay(10_000)])
        await books.watcher.round()
        assert await books.charge(customer, 30) == 970
        backups.take_base()
        shop.run([shop.pay(20_000)])
        await books.watcher.round()
        assert await books.charge(customer, 70) == 2_900
        noted = await time_of(backups.live)
        assert await books.charge(customer, 900) == 2_000
        shop.run([shop.pay(50_000)])
        await books.watcher.round()
        assert await balance_of(backups.live, customer) == 7_000
    backups.live.stop()

    copy = backups.restored("restored", noted)
    try:
        copy.start()
        await until(copy.embedded.url, "SELECT pg_get_wal_replay_pause_state() = 'paused'")
        named = ("--postgres-url", copy.embedded.url, "--node-url", node_url)
        await verified_before_it_is_opened(named)
        assert await balance_of(copy, customer) == 2_900, "the charges up to the time are there, and no later one"
        await gone_on_with(copy, outside, customer)
        done = await asyncio.to_thread(verify, *named, "--against", checkpoint, "--key", key)
        assert done.exit_code == 2 and "cannot be read" in done.stderr, "a checkpoint that is not there"
        await tamper(copy.embedded.migrations_url, "UPDATE ledger SET amount = amount - 1 WHERE seq = 2")
        done = await asyncio.to_thread(verify, *named)
        assert done.exit_code == 1 and "Next: do not open or use this copy" in done.stdout
        assert any(base58_text(customer) in line and "hash chain" in line for line in done.stdout.splitlines())
    finally:
        copy.close()


async def verified_before_it_is_opened(named: tuple[str, ...]) -> None:
    """While the server stands still in its recovery, and takes no write."""
    done = await asyncio.to_thread(verify, *named)
    assert done.exit_code == 0, done.output
    for told in (
        "The ledger adds up",
        "The books and the chain agree",
        "1 transactions are newer than what the watcher has read",
        "in recovery (paused)",
        "`SELECT pg_wal_replay_resume()` opens the copy",
        AFTER_RESTORE,
    ):
        assert told in done.stdout
    done = await asyncio.to_thread(verify, *named, "--json")
    told = json.loads(done.stdout)
    assert (told["differences"], told["recovery"], told["migrations_due"]) == (0, "paused", [])
    assert told["ledger"]["balance"] == 2_900 and told["ledger"]["sums"]["debit"] == [2, -100]
    assert (told["deposits"]["credited"], told["deposits"]["unread"]) == (30_000, 1)


async def gone_on_with(copy: Server, outside: Outside, customer: bytes) -> None:
    """Opened, with numbers above those of the lost time. The deposit of after the time is credited, once; the charge of
    after it is not made again."""
    await as_role(copy.superuser_url, "SELECT pg_wal_replay_resume()")
    await until(copy.embedded.url, "SELECT NOT pg_is_in_recovery()")
    before = await epoch_of(copy)
    await as_role(copy.embedded.migrations_url, (ROOT / AFTER_RESTORE).read_text(encoding="utf-8"))
    async with books_on(copy, outside) as books:
        assert await epoch_of(copy) > before + 1_000_000 - 100
        for _ in range(2):
            await books.watcher.round()
        assert await balance_of(copy, customer) == 2_900 + 5_000
        assert await books.charge(customer, 100) == 7_800


async def epoch_of(server: Server) -> int:
    connection = await asyncpg.connect(server.embedded.url)
    try:
        return int(await connection.fetchval("SELECT max(epoch) FROM shard_owner"))
    finally:
        await connection.close()


def test_exactly_one_copy_is_named() -> None:
    """DATABASE_URL is the database in service: it is never what a forgotten option means."""
    both = ("--postgres-url", "postgresql://restored", "--data-dir", "/copy")
    for named in ((), both):
        done = verify("--node-url", "http://127.0.0.1:1", *named)
        assert done.exit_code == 2 and "name one copy" in done.stderr


async def test_the_copy_of_a_local_runs_folder_is_verified_where_it_lies(backups: Backups, node_url: str) -> None:
    """By a server on that folder; a folder without a database is refused, and no other one is looked at instead."""
    backups.live.start()
    await bring_up(backups.live.embedded)
    backups.live.close()
    original = backups.live.data.path
    copy, without = original.with_name("copy"), original.with_name("without")
    for place in (copy, without):
        await asyncio.to_thread(subprocess.run, ("cp", "-a", str(original), str(place)), check=True)
    shutil.rmtree(without / "postgres")
    done = await asyncio.to_thread(verify, "--data-dir", str(copy), "--node-url", node_url)
    assert done.exit_code == 0 and "Newest entry of the copy: none" in done.stdout, done.output
    done = await asyncio.to_thread(verify, "--data-dir", str(without), "--node-url", node_url)
    assert done.exit_code == 2 and "has no database in it" in done.stderr


def found(
    *, recovery: str | None = None, steps: int = 0, faults: int = 0, checkpoint_at: int | None = None
) -> Verified:
    step = MigrationStep("accounts", SchemaChange.FUNCTIONS)
    ledger = LedgerReport(checkpoint_at=checkpoint_at)
    ledger.add("somebody", *["a fault"] * faults)
    return Verified(CopyState(recovery, 1_700_000_000_000, None, (step,) * steps), ledger, DepositsReport())


@pytest.mark.parametrize(
    ("verified", "told", "not_told"),
    [
        (found(), f"Next: `psql -f {AFTER_RESTORE}` once", "migrate"),
        (found(steps=2), "Next: `ledger-gateway migrate` (2 steps), `psql", "pg_wal_replay_resume"),
        (found(recovery="paused"), "`SELECT pg_wal_replay_resume()` opens the copy", "verify again"),
        (found(recovery="not paused"), "Next: verify again when the server has come to its time", AFTER_RESTORE),
        (found(faults=1), "Next: do not open or use this copy", "younger than the copy"),
        (found(faults=1, checkpoint_at=1_700_000_000), "Next: do not open", "younger than the copy"),
        (found(faults=1, checkpoint_at=1_700_000_001), "checkpoint of 2023-11-14 22:13:21 UTC is younger", "migrate"),
        (found(checkpoint_at=1_700_000_001), "Both audits are exact", "younger"),
    ],
)
def test_the_next_step_follows_from_what_was_found(verified: Verified, told: str, not_told: str) -> None:
    console = Console(record=True, width=1_000)
    show(verified, console)
    text = console.export_text()
    assert told in text and not_told not in next_step(verified)
    assert document(verified)["next"] in text
    assert f"Newest entry of the copy: {datetime.fromtimestamp(1_700_000_000, UTC):%F %T} UTC" in text
