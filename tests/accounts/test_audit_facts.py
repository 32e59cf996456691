"""Threat 56: a person with every right on the database changes the books, and the audit names it.

Each change is made with the rights of the tables' owner, the append-only trigger taken off.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from actors.accounts import audit, ledger
from actors.accounts.account import NamedKeySet, Profile, new_account
from actors.accounts.audit import Checkpoints
from actors.accounts.checkpoint import Checkpoint
from actors.accounts.core import decide_adjust, decide_key, decide_limits, decide_status
from actors.accounts.deposits import decide_bonus, decide_deposit, decide_return, deposit_operation
from actors.accounts.facts import REFERRALS, Fact, chain, genesis
from actors.accounts.hourly_limit import HourlyLimitSet, HourlySetting
from actors.accounts.ledger import Entry
from actors.accounts.named_keys import KeyProfile
from actors.accounts.price_list import PriceListSet
from actors.accounts.referrals import Referral
from actors.accounts.store import PostgresAccountStore
from actors.accounts.writes import Write
from actors.units import base58_text
from tests.accounts.making import ALICE, BOB, DEFAULTS, START, group_of, opening_group, settle, take
from tests.accounts.test_audit import command
from tests.accounts.test_store import SHARDS, posted
from tests.databases import as_role, tamper

NAMES = {pubkey: base58_text(pubkey) for pubkey in (ALICE, BOB)}
TABLES = (
    *("accounts", "credit_batches", "ledger", "account_operations", "account_deposits", "account_events"),
    *("account_keys", "account_hourly_limits", "account_price_lists"),
)


@pytest.fixture
async def books(postgres_pool: asyncpg.Pool) -> asyncpg.Pool:
    """Two accounts with everything that an account can have, and a referral code."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("owner", SHARDS, False)
    assert await store.add_referral(Referral("FRIEND", 1_000, START.wall_ms // 1000, None, "a friend"))
    for number, pubkey in enumerate((ALICE, BOB), 1):
        profile = Profile(START.wall_ms // 1000, ref_code="FRIEND", ref_bonus_bps=1_000)
        account = new_account(pubkey, profile, DEFAULTS)
        await store.write(epoch, opening_group(account))
        changes = (decide_key(account, pubkey, "srpc_live_abc", START), decide_limits(account, 7, 3))
        await store.write(epoch, group_of(account, *changes))
        await store.write(epoch, group_of(account, decide_status(account, "suspended")))
        limit = HourlyLimitSet(HourlySetting(9_000, START.wall_ms // 1000))
        key = KeyProfile(1, "bot", pubkey[::-1], "srpc_live_xyz", "{}", START.wall_ms // 1000)
        await store.write(epoch, group_of(account, limit, NamedKeySet(key), PriceListSet("wholesale")))
        for transfer in (0, 1):
            operation = deposit_operation(bytes([number]) * 64, transfer)
            event = decide_deposit(account, operation, 1_000_000, 7, 100_000, START)
            assert event is not None and event.deposit is not None
            group = Write()
            take(account, event, group)
            bonus = decide_bonus(account, event.deposit, START)
            if bonus is not None:
                take(account, bonus, group)
            group.cut({pubkey: account})
            await store.write(epoch, group)
        await store.write(epoch, group_of(account, decide_return(account, operation, 110_000, "never final", START)))
        for call in (10 * number + 1, 10 * number + 2):
            await store.write(epoch, group_of(account, posted(account, settle(call, 30, pubkey=pubkey))))
        grant = decide_adjust(account, 5, "grant", b"grant", START)
        assert grant is not None
        await store.write(epoch, group_of(account, grant))
    await store.close()
    return postgres_pool


async def faults_of(pool: asyncpg.Pool, checkpoints: Checkpoints | None = None) -> list[tuple[str, str]]:
    async with pool.acquire() as connection:
        return (await audit.audit(connection, checkpoints)).faults


def told(faults: list[tuple[str, str]], name: str, words: str) -> bool:
    return any(who == name and words in fault for who, fault in faults)


async def test_true_books_have_no_faults(books: asyncpg.Pool) -> None:
    """Every kind of fact is there, and each row is what the newest fact says."""
    assert await faults_of(books) == []
    kinds = await books.fetch("SELECT method, count(*) FROM ledger WHERE type = 6 GROUP BY method")
    told = {"account": 8, "batch": 10, "deposit": 4, "return": 2, "hourly_limit": 2, "key": 2, "price_list": 2}
    assert dict(map(tuple, kinds)) == told
    kinds = await books.fetch("SELECT kind, count(*) FROM account_facts GROUP BY kind")
    assert dict(map(tuple, kinds)) == {"account": 2, "referral": 1}


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE credit_batches SET expires_at = expires_at + 86400 WHERE pubkey = $1 AND id = 1",
            "batch 1: expires_at",
        ),
        ("UPDATE credit_batches SET created_at = 0 WHERE pubkey = $1 AND id = 2", "batch 2: created_at"),
        ("UPDATE credit_batches SET source = 'deposit' WHERE pubkey = $1 AND id = 2", "batch 2: source"),
        ("UPDATE credit_batches SET credits = credits + 1 WHERE pubkey = $1 AND id = 1", "batch 1: credits"),
        ("UPDATE accounts SET api_key_hash = '\\x01' WHERE pubkey = $1", "the account: api_key_hash is '01'"),
        ("UPDATE accounts SET key_prefix = 'other' WHERE pubkey = $1", "the account: key_prefix is 'other'"),
        (
            "UPDATE accounts SET requests_per_second = 9000 WHERE pubkey = $1",
            "requests_per_second is 9000, by the facts 7",
        ),
        (
            "UPDATE accounts SET concurrency = NULL WHERE pubkey = $1",
            "the account: concurrency is None, by the facts 3",
        ),
        ("UPDATE accounts SET ref_bonus_bps = 10000 WHERE pubkey = $1", "ref_bonus_bps is 10000, by the facts 1000"),
        ("UPDATE accounts SET ref_code = 'OTHER' WHERE pubkey = $1", "the account: ref_code is 'OTHER'"),
        ("UPDATE accounts SET status = 'active' WHERE pubkey = $1", "status is 'active', by the facts 'suspended'"),
        ("UPDATE accounts SET created_at = 0 WHERE pubkey = $1", "the account: created_at is 0"),
        ("UPDATE accounts SET virtual_shard = virtual_shard + 1 WHERE pubkey = $1", "which is not its own"),
        (
            "UPDATE account_deposits SET slot = slot + 1 WHERE pubkey = $1 AND returned_ms IS NULL",
            ": slot is 8, by the facts 7",
        ),
        (
            # Together these pass every check of sums: the same credits for another amount at another rate.
            "UPDATE account_deposits SET base_units = base_units * 2, credits_per_usdc = credits_per_usdc / 2"
            " WHERE pubkey = $1",
            ": base_units is 2000000, by the facts 1000000",
        ),
        (
            "UPDATE account_deposits SET returned_ms = 1 WHERE pubkey = $1 AND returned_ms IS NOT NULL",
            ": returned_ms is 1, by the facts",
        ),
        ("UPDATE account_hourly_limits SET credits = 0 WHERE pubkey = $1", "the hourly limit: credits is 0"),
        ("DELETE FROM account_hourly_limits WHERE pubkey = $1", "the hourly limit is gone"),
        (
            "UPDATE account_price_lists SET name = 'cheap' WHERE pubkey = $1",
            "the price list: name is 'cheap', by the facts 'wholesale'",
        ),
        ("DELETE FROM account_price_lists WHERE pubkey = $1", "the price list is gone"),
        ("UPDATE account_keys SET limits = '{1}' WHERE pubkey = $1", "named key 1: limits is '{1}'"),
        (
            "UPDATE accounts SET last_deposit = last_deposit || '{\"credits\": 7}' WHERE pubkey = $1",
            "the last deposit that it shows is not",
        ),
        ("UPDATE accounts SET last_deposit = NULL WHERE pubkey = $1", "the last deposit that it shows is not"),
    ],
)
async def test_a_changed_fact_is_named_with_its_account(
    books: asyncpg.Pool, owner_url: str, statement: str, words: str
) -> None:
    """An expiry, a key hash, a limit, a bonus, a status: each has a fact, and the row is compared with it."""
    await tamper(owner_url, statement.replace("$1", f"'\\x{ALICE.hex()}'"))
    faults = await faults_of(books)
    assert told(faults, NAMES[ALICE], words), faults
    assert {who for who, _ in faults} == {NAMES[ALICE]}, faults


@pytest.mark.parametrize("change", ["bonus_bps = 5000", "expires_at = 1", "note = 'other'", "created_at = 0"])
async def test_a_changed_referral_code_is_named(books: asyncpg.Pool, owner_url: str, change: str) -> None:
    await tamper(owner_url, f"UPDATE referral_codes SET {change}")
    faults = await faults_of(books)
    assert told(faults, "referral codes", f"referral code FRIEND: {change.partition(' ')[0]}"), faults


async def test_ending_a_referral_code_is_a_fact(books: asyncpg.Pool) -> None:
    """The product's own changes are no faults; ending it again is no new fact."""
    store = PostgresAccountStore(books)
    for _ in range(2):
        ended = await store.expire_referral("FRIEND", START.wall_ms // 1000 + 5)
        assert ended is not None and ended.expires_at == START.wall_ms // 1000 + 5
    assert not await store.add_referral(Referral("FRIEND", 9_000, 1, None, "again"))
    assert await books.fetchval("SELECT count(*) FROM account_facts WHERE kind = 'referral'") == 2
    assert await faults_of(books) == []


def removal(pubkey: bytes, *more: str) -> list[str]:
    marks = f"DELETE FROM account_debits d USING ledger l WHERE l.operation_id = d.operation AND {_of(pubkey, 'l.')}"
    return [marks, *(f"DELETE FROM {table} WHERE {_of(pubkey)}" for table in (*TABLES, *more))]


def _of(pubkey: bytes, table: str = "") -> str:
    return f"{table}pubkey = '\\x{pubkey.hex()}'"


async def test_an_account_removed_whole_is_named(books: asyncpg.Pool, owner_url: str) -> None:
    """All its rows in all tables, its facts among them: the chain of accounts that were opened has it."""
    await tamper(owner_url, *removal(ALICE))
    faults = await faults_of(books)
    assert told(faults, NAMES[ALICE], "the account is gone: the facts have it"), faults


async def test_a_deposit_given_to_another_account_is_named(books: asyncpg.Pool, owner_url: str) -> None:
    await tamper(owner_url, f"UPDATE account_deposits SET pubkey = '\\x{BOB.hex()}'")
    faults = await faults_of(books)
    assert told(faults, NAMES[ALICE], " is gone: the facts have it"), faults
    assert told(faults, NAMES[BOB], " is there, and no fact tells of it"), faults


async def test_facts_of_an_owner_of_the_release_before_count_where_they_are_newer(
    books: asyncpg.Pool, owner_url: str
) -> None:
    """They stand in the chain of a shard, and say behind which entry of the account."""
    profile = {"pubkey": ALICE.hex(), "virtual_shard": new_account(ALICE, Profile(0), DEFAULTS).shard, "created_at": 1}
    profile |= {"status": "active", "api_key_hash": "0a", "key_prefix": "srpc_live_old", "requests_per_second": 5}
    rare = {"profiles": [profile | {"genesis": ""}], "batches": [], "marks": [], "shards": []}
    await books.execute("SELECT accounts_write_rare($1)", json.dumps(rare))
    assert await faults_of(books) == []
    await tamper(owner_url, f"UPDATE accounts SET api_key_hash = NULL WHERE {_of(ALICE)}")
    assert told(await faults_of(books), NAMES[ALICE], "the account: api_key_hash is None, by the facts '0a'")


async def test_an_account_removed_with_its_facts_breaks_its_shards_chain(books: asyncpg.Pool, owner_url: str) -> None:
    """The shard is named, and nothing can be told of the account from these tables alone."""
    await tamper(owner_url, *removal(ALICE, "account_facts"))
    shard = new_account(ALICE, Profile(0), DEFAULTS).shard
    faults = await faults_of(books)
    assert told(faults, f"shard {shard}", "its newest fact is said to be number"), faults


async def test_an_account_without_facts_is_named(books: asyncpg.Pool, owner_url: str) -> None:
    """One that was slipped in beside the product."""
    await tamper(
        owner_url,
        "INSERT INTO accounts (pubkey, virtual_shard, created_at, status, head_hash)"
        f" SELECT '\\x{bytes(32).hex()}', virtual_shard, 0, 'active', '\\x00' FROM accounts LIMIT 1",
    )
    faults = await faults_of(books)
    assert told(faults, base58_text(bytes(32)), "no fact tells of it"), faults
    assert told(faults, base58_text(bytes(32)), "does not tell that it was opened"), faults


# --- chains written anew ------------------------------------------------------------------------------------------


async def checkpoint(pool: asyncpg.Pool, path: Path) -> Checkpoints:
    """Written now; what a later audit compares with."""
    key = b"k" * 32
    async with pool.acquire() as connection:
        report = await audit.audit(connection, Checkpoints(None, path, key))
    assert report.faults == [] and report.written == path
    return Checkpoints(Checkpoint(path, key), None, key)


async def write_facts_anew(owner_url: str) -> None:
    """Give the facts that are there numbers and hashes that agree, and the shards their newest ones."""
    connection = await asyncpg.connect(owner_url)
    rows = await connection.fetch("SELECT * FROM account_facts ORDER BY virtual_shard, seq")
    await connection.execute("DELETE FROM account_facts; DELETE FROM account_fact_heads")
    newest: dict[int, tuple[int, bytes]] = {}
    for row in rows:
        shard = row["virtual_shard"]
        seq, head = newest.get(shard, (0, genesis(shard)))
        fact = Fact(shard, seq + 1, row["kind"], row["pubkey"], row["body"])
        newest[shard] = (fact.seq, chain(head, fact))
        await connection.execute("INSERT INTO account_facts VALUES ($1, $2, $3, $4, $5, $6)", *fact, newest[shard][1])
    for shard, (seq, head) in newest.items():
        await connection.execute("INSERT INTO account_fact_heads VALUES ($1, $2, $3)", shard, seq, head)
    await connection.close()


async def write_ledger_anew(owner_url: str, pubkey: bytes) -> None:
    """Give the entries of an account balances and hashes that agree with their amounts, and the account its head."""
    connection = await asyncpg.connect(owner_url)
    await connection.execute("ALTER TABLE ledger DISABLE TRIGGER append_only")
    columns = "seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels"
    rows = await connection.fetch(f"SELECT {columns} FROM ledger WHERE pubkey = $1 ORDER BY seq", pubkey)
    head, balance = ledger.genesis(pubkey), 0
    for row in rows:
        balance += row["amount"]
        entry = Entry(*row)
        entry = Entry(*(balance if name == "balance" else getattr(entry, name) for name in entry.__struct_fields__))
        head = ledger.chain(head, entry)
        await connection.execute(
            "UPDATE ledger SET balance = $3, hash = $4 WHERE pubkey = $1 AND seq = $2", pubkey, entry.seq, balance, head
        )
    consumed = sum(-row["amount"] for row in rows if row["type"] in (2, 3))
    await connection.execute(
        "UPDATE accounts SET balance = $2, total_consumed = $3, head_hash = $4 WHERE pubkey = $1",
        *(pubkey, balance, consumed, head),
    )
    await connection.execute("ALTER TABLE ledger ENABLE TRIGGER append_only")
    await connection.close()


async def test_a_debit_changed_and_rechained_is_named_against_a_checkpoint(
    books: asyncpg.Pool, owner_url: str, tmp_path: Path
) -> None:
    """Everything agrees with itself; only a checkpoint kept elsewhere tells that it was once otherwise."""
    earlier = await checkpoint(books, tmp_path / "checkpoint")
    first = f"(SELECT min(seq) FROM ledger WHERE pubkey = '\\x{ALICE.hex()}' AND type = 2)"
    debit = f"pubkey = '\\x{ALICE.hex()}' AND seq = {first}"
    await tamper(
        owner_url,
        "UPDATE credit_batches AS b SET remaining = remaining + 29 FROM ledger AS l"
        f" WHERE l.{debit} AND b.pubkey = l.pubkey AND b.id = split_part(l.parcels, ':', 1)::integer",
        f"UPDATE ledger SET amount = -1, parcels = split_part(parcels, ':', 1) || ':-1' WHERE {debit} AND amount = -30",
    )
    await write_ledger_anew(owner_url, ALICE)
    assert await faults_of(books) == []
    faults = await faults_of(books, earlier)
    assert told(faults, NAMES[ALICE], "another hash than at the checkpoint"), faults
    assert {who for who, _ in faults} == {NAMES[ALICE]}


async def test_an_account_removed_and_rechained_is_named_against_a_checkpoint(
    books: asyncpg.Pool, owner_url: str, tmp_path: Path
) -> None:
    earlier = await checkpoint(books, tmp_path / "checkpoint")
    await tamper(owner_url, *removal(ALICE, "account_facts"))
    await write_facts_anew(owner_url)
    assert await faults_of(books) == []
    faults = await faults_of(books, earlier)
    assert told(faults, NAMES[ALICE], "there at the checkpoint, and is gone"), faults


@pytest.mark.parametrize(
    ("statement", "kind", "field", "value"),
    [
        ("UPDATE credit_batches SET expires_at = 4000000000", "batch", "expires_at", 4_000_000_000),
        ("UPDATE accounts SET ref_bonus_bps = 10000", "account", "ref_bonus_bps", 10_000),
        ("UPDATE accounts SET requests_per_second = 9000", "account", "requests_per_second", 9_000),
        ("UPDATE referral_codes SET bonus_bps = 9999", "referral", "bonus_bps", 9_999),
    ],
)
async def test_a_fact_changed_and_rechained_is_named_against_a_checkpoint(
    books: asyncpg.Pool, owner_url: str, tmp_path: Path, statement: str, kind: str, field: str, value: Any
) -> None:
    """An expiry, a bonus or a limit together with its facts."""
    earlier = await checkpoint(books, tmp_path / "checkpoint")
    for table, body, condition in (
        ("account_facts", "body", f"kind = '{kind}'"),
        ("ledger", "description", f"type = 6 AND method = '{kind}'"),
    ):
        changed = f"jsonb_set({body}::jsonb, '{{{field}}}', '{json.dumps(value)}')::text"
        await tamper(owner_url, f"UPDATE {table} SET {body} = {changed} WHERE {condition}")
    await tamper(owner_url, statement)
    await write_facts_anew(owner_url)
    for pubkey in (ALICE, BOB):
        await write_ledger_anew(owner_url, pubkey)
    assert await faults_of(books) == []
    faults = await faults_of(books, earlier)
    assert told(faults, "referral codes" if kind == "referral" else NAMES[ALICE], "chain was written anew"), faults


async def test_chains_that_only_grew_pass_against_a_checkpoint(books: asyncpg.Pool, tmp_path: Path) -> None:
    """Each link of the checkpoint is still in its chain."""
    earlier = await checkpoint(books, tmp_path / "checkpoint")
    store = PostgresAccountStore(books)
    epoch = await store.take_over("owner", SHARDS, False)
    account = new_account(b"c" * 32, Profile(START.wall_ms // 1000), DEFAULTS)
    await store.write(epoch, opening_group(account))
    await store.close()
    assert await faults_of(books, earlier) == []


async def test_no_checkpoint_is_written_of_books_with_faults(
    books: asyncpg.Pool, owner_url: str, tmp_path: Path
) -> None:
    """It would make the fault the truth of later audits. The one of before stays."""
    path = tmp_path / "checkpoint"
    earlier = await checkpoint(books, path)
    assert earlier.earlier is not None
    await as_role(owner_url, "UPDATE accounts SET concurrency = 9")
    assert await faults_of(books, Checkpoints(None, path, b"k" * 32)) != []
    assert Checkpoint(path, b"k" * 32).at == earlier.earlier.at


async def test_the_command_writes_and_compares(
    books: asyncpg.Pool, postgres_url: str, owner_url: str, tmp_path: Path
) -> None:
    """`--checkpoint FILE --key KEY`, and later `--against FILE --key KEY`."""
    assert await books.fetchval("SELECT count(*) FROM account_facts WHERE virtual_shard = $1", REFERRALS) == 1
    file, key = str(tmp_path / "checkpoint"), str(tmp_path / "key")
    database = ("--postgres-url", postgres_url)
    code, output = await asyncio.to_thread(command, *database, "--checkpoint", file)
    assert code == 2 and "--key" in output
    code, output = await asyncio.to_thread(command, *database, "--checkpoint", file, "--key", key)
    assert code == 0 and "Checkpoint written" in output
    code, output = await asyncio.to_thread(command, *database, "--against", file, "--key", key)
    assert code == 0 and "Compared with the checkpoint of 20" in output
    await tamper(owner_url, *removal(BOB, "account_facts"))
    await write_facts_anew(owner_url)
    code, output = await asyncio.to_thread(command, *database, "--against", file, "--key", key)
    assert code == 1 and NAMES[BOB] in output
    code, output = await asyncio.to_thread(command, *database, "--against", file, "--key", str(tmp_path / "other"))
    assert code == 2 and "cannot be read" in output
