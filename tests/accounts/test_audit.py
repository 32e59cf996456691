import asyncio
import os
from pathlib import Path

import asyncpg
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from actors.accounts import audit
from actors.accounts.account import Profile, new_account
from actors.accounts.core import decide_adjust, decide_settle, decide_void
from actors.accounts.deposits import decide_bonus, decide_deposit, decide_return, deposit_operation
from actors.accounts.ledger import EntryType
from actors.accounts.store import PostgresAccountStore
from actors.accounts.writes import Write
from actors.local_servers.datadir import DataDir
from actors.units import VirtualShard, base58_text
from tests.accounts.making import ALICE, BOB, DEFAULTS, START, group_of, opened, opening_group, settle, take
from tests.accounts.test_store import SHARDS, posted
from tests.databases import tamper


async def filled(pool: asyncpg.Pool) -> None:
    """Two accounts with grants, debits, a refund and a void."""
    store = PostgresAccountStore(pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("owner", SHARDS, False)
    for pubkey in (ALICE, BOB):
        account = opened(pubkey)
        await store.write(epoch, opening_group(account))
        grant = decide_adjust(account, 100, "grant", b"grant", START)
        assert grant is not None
        await store.write(epoch, group_of(account, grant))
        first = 1 if pubkey == ALICE else 11
        for number in (first, first + 1):
            await store.write(epoch, group_of(account, posted(account, settle(number, 30, pubkey=pubkey))))
        refund = decide_void(account, settle(first, 30, pubkey=pubkey), START).event
        void = decide_void(account, settle(first + 2, 30, pubkey=pubkey), START, True).event
        assert refund is not None and void is not None
        await store.write(epoch, group_of(account, refund, void))
    await store.close()


async def audited(pool: asyncpg.Pool) -> audit.LedgerReport:
    async with pool.acquire() as connection:
        return await audit.audit(connection)


async def test_a_true_ledger_passes(postgres_pool: asyncpg.Pool) -> None:
    await filled(postgres_pool)
    report = await audited(postgres_pool)
    assert report.faults == [] and report.faults_total == 0
    assert (report.accounts, report.entries.total(), report.balance) == (2, 12, 140)
    assert report.credits.total() == report.balance


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE accounts SET balance = balance + 1", "balance"),
        ("UPDATE accounts SET total_consumed = 0", "consumed"),
        ("UPDATE accounts SET head_hash = ''", "hash"),
        ("UPDATE credit_batches SET remaining = remaining - 1", "batch 1"),
        ("DELETE FROM credit_batches", "batch 1"),
        ("DELETE FROM accounts WHERE pubkey = (SELECT min(pubkey::text)::bytea FROM accounts)", "no account"),
        ("UPDATE ledger SET amount = amount - 1 WHERE seq = 2", "chain"),
        ("DELETE FROM ledger WHERE seq = 2", "follows"),
        ("DELETE FROM ledger WHERE seq = 6", "number of entries"),
        (
            "UPDATE ledger SET operation_id = (SELECT min(operation_id::text)::bytea FROM ledger WHERE type = 2)",
            "chain",
        ),
        (
            "UPDATE ledger SET operation_id = '\\x01' WHERE type = 2",
            "an operation is debited more than once: 01",
        ),
        ("UPDATE ledger SET operation_id = '\\x01' WHERE type = 3", "does not give back what was debited"),
        ("DELETE FROM account_debits", "a debit could be made again"),
        ("UPDATE account_debits SET at_ms = at_ms + 1", "a debit could be made again"),
        ("INSERT INTO account_debits VALUES ('\\x01', 0)", "marked as debited, and the ledger does not have it: 01"),
        ("DELETE FROM account_operations WHERE kind = 1", "its mark is missing"),
        ("DELETE FROM account_operations WHERE kind = 2", "its mark is missing"),
        ("UPDATE account_operations SET operation = '\\x01' WHERE kind = 2", "the ledger does not have it"),
        (
            "UPDATE account_operations o SET kind = 0, operation = l.operation_id FROM ledger l"
            " WHERE l.pubkey = o.pubkey AND l.type = 2 AND l.seq = 5 AND o.kind = 0",
            "although it was voided before",
        ),
    ],
)
async def test_whatever_is_changed_is_found(
    postgres_pool: asyncpg.Pool, owner_url: str, statement: str, told: str
) -> None:
    """Balances, batches, marks and entries: none can be changed alone without the audit saying so."""
    await filled(postgres_pool)
    await tamper(owner_url, statement)
    report = await audited(postgres_pool)
    assert any(told in fault for _, fault in report.faults), report.faults


async def test_a_settle_after_the_audit_began_does_not_disturb_it(postgres_pool: asyncpg.Pool) -> None:
    """One snapshot: the audit may run beside a serving instance."""
    await filled(postgres_pool)
    async with postgres_pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        await connection.fetchval("SELECT count(*) FROM accounts")
        store = PostgresAccountStore(postgres_pool)
        epoch = await store.take_over("owner", [VirtualShard(number) for number in range(1024)], False)
        account = opened(b"c" * 32)
        await store.write(epoch, opening_group(account))
        await store.close()
        async with connection.transaction():
            assert await connection.fetchval("SELECT count(*) FROM accounts") == 2
    assert (await audited(postgres_pool)).accounts == 3
    assert decide_settle(account, settle(1, 1, pubkey=b"c" * 32), START, True).ok is False


def command(*arguments: str, **environment: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(audit.command())
    result = CliRunner().invoke(app, list(arguments), env={"DATABASE_URL": "", "COLUMNS": "30", **environment})
    return result.exit_code, result.output


async def test_the_command_tells_and_exits_by_what_it_found(
    postgres_pool: asyncpg.Pool, postgres_url: str, tmp_path: Path
) -> None:
    """In a pipe each difference is one whole line. Only a key that signed a checkpoint stays."""
    await filled(postgres_pool)
    signing = ("--checkpoint", str(tmp_path / "links"), "--key", str(tmp_path / "key"))
    await postgres_pool.execute("UPDATE accounts SET balance = balance + 1")
    code, output = await asyncio.to_thread(command, "--postgres-url", postgres_url, *signing)
    assert code == 1 and "by the ledger 70" in output and "Next:" in output
    assert any(base58_text(ALICE) in line and "by the ledger 70" in line for line in output.splitlines())
    assert os.listdir(tmp_path) == []
    await postgres_pool.execute("UPDATE accounts SET balance = balance - 1")
    code, output = await asyncio.to_thread(command, *signing, LEDGER_STORAGE__POSTGRES_URL=postgres_url)
    assert code == 0 and "adds up" in output and "debit" in output
    assert sorted(os.listdir(tmp_path)) == ["key", "links"]


def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path: Path) -> None:
    code, output = command("--data-dir", str(tmp_path))
    assert code == 2 and f"{tmp_path} is not a data folder" in output
    of_settings, key = tmp_path / "settings", tmp_path / "key"
    signing = ("--checkpoint", str(tmp_path / "links"), "--key", str(key))
    code, output = command(*signing, LEDGER_STORAGE__DATA_DIR=str(of_settings))
    assert code == 2 and f"{of_settings} is not a data folder" in output and not key.exists()
    code, output = command("--postgres-url", "postgresql://nobody@127.0.0.1:1/none")
    assert code == 2 and "cannot be read" in output


def test_a_running_instances_folder_can_be_audited(data_dir: DataDir, postgres_server: object) -> None:
    """The folder is locked by the instance; its server is found by the pid file, and has nothing of ours yet."""
    assert postgres_server is not None
    code, output = command("--data-dir", str(data_dir.path))
    assert code == 2 and "no accounts yet" in output.replace("\n", " ")


def test_an_empty_report_is_shown() -> None:
    console = Console(record=True, width=100)
    audit.show(audit.LedgerReport(), console)
    assert "adds up" in console.export_text()


async def with_deposits(pool: asyncpg.Pool) -> None:
    """A deposit with a bonus, one that was taken back, and one that the operator assigned."""
    store = PostgresAccountStore(pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("owner", SHARDS, False)
    account = new_account(ALICE, Profile(START.wall_ms // 1000, ref_code="FRIEND", ref_bonus_bps=1_000), DEFAULTS)
    await store.write(epoch, opening_group(account))
    first, second, third = (deposit_operation(bytes([number]) * 64, 0) for number in (1, 2, 3))
    for operation, base_units in ((first, 1_000_019), (second, 20_000)):
        event = decide_deposit(account, operation, base_units, 7, 100_000, START)
        assert event is not None and event.deposit is not None
        group = Write()
        take(account, event, group)
        bonus = decide_bonus(account, event.deposit, START)
        if bonus is not None:
            take(account, bonus, group)
        group.cut({ALICE: account})
        await store.write(epoch, group)
    await store.write(epoch, group_of(account, decide_return(account, second, 2_200, "never final", START)))
    assigned = decide_deposit(account, third, 5_000, 7, 100_000, START, "why")
    assert assigned is not None
    await store.write(epoch, group_of(account, assigned))
    await store.close()


async def test_what_was_received_is_what_was_credited(postgres_pool: asyncpg.Pool) -> None:
    """To the unit: amount times rate, rounded down for each transfer, plus bonuses and adjustments."""
    await with_deposits(postgres_pool)
    report = await audited(postgres_pool)
    assert report.faults == []
    assert (report.received_base_units, report.earned, report.assigned) == (1_025_019, 102_501, 500)
    assert report.credits[EntryType.DEPOSIT] == 102_001 and report.credits[EntryType.BONUS] == 10_200
    assert report.balance == 102_501 + 10_200 - 2_200


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE account_deposits SET base_units = base_units + 10 WHERE slot = 7", "at the rate of its day"),
        ("UPDATE account_deposits SET credits = credits + 1 WHERE NOT assigned", "credits granted for deposits"),
        ("UPDATE account_deposits SET bonus = bonus + 1 WHERE NOT assigned", "not what was received"),
        ("DELETE FROM account_deposits WHERE NOT assigned", "not what was received"),
        ("DELETE FROM account_deposits WHERE assigned", "not among those received"),
        ("UPDATE account_deposits SET pubkey = '\\x01' WHERE assigned", "does not have it once"),
        ("UPDATE account_deposits SET taken = 0, uncollected = 2200 WHERE returned_ms > 0", "was taken back"),
        ("DELETE FROM ledger WHERE type = 1", "does not have it once"),
    ],
)
async def test_a_changed_deposit_is_found(
    postgres_pool: asyncpg.Pool, owner_url: str, statement: str, told: str
) -> None:
    await with_deposits(postgres_pool)
    await tamper(owner_url, statement)
    report = await audited(postgres_pool)
    assert any(told in fault for _, fault in report.faults), report.faults
