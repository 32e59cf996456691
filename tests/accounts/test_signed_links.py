"""A person who owns the tables writes chains anew, so that they agree with themselves: signed statements name it all
the same, and so does a customer who has kept two receipts.

Rules: decisions, "Signed roots"; threat 56.
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import asyncpg
import msgspec
import pytest
from nacl.signing import SigningKey

from actors.accounts import audit, ledger
from actors.accounts.checkpoint import CheckpointError, Checkpoints
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.receipts import ReadChain
from actors.accounts.seals_store import Sealed
from actors.accounts.signed_links import SignedLinks
from actors.accounts.store import PostgresAccountStore
from actors.gateway.pages.receipts import entry_body
from actors.receipts.root_keys import ProvenKey, name_of, published
from actors.receipts.roots_file import RootsFile, read_roots
from actors.receipts.statements import SignedStatement, Statement, leaf_of, root_of
from actors.units import base58_text
from ledger_gateway import receipts as verifier
from tests.accounts.making import ALICE, BOB, START
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import SEAL, Ledger
from tests.databases import tamper

Chains = dict[bytes, list[Entry]]


async def signed(pool: asyncpg.Pool, folder: Path) -> Ledger:
    """Two accounts with a grant and ten debits each, all in statements of a file."""
    store = PostgresAccountStore(pool)
    await store.prepare(START.wall_ms)
    made = Ledger(store, await store.take_over("owner", SHARDS, False))
    sealing = made.sealing(folder=folder)
    for _ in range(2):
        for pubkey in (ALICE, BOB):
            await made.write(pubkey, 5, sealing)
        await sealing.finish()
    return made


async def audited(pool: asyncpg.Pool, folder: Path | None) -> audit.LedgerReport:
    async with pool.acquire() as connection:
        return await audit.audit(connection, Checkpoints(signed=SignedLinks([folder]) if folder else None))


def debit_removed(chains: Chains) -> None:
    del chains[ALICE][4]


def debit_made_smaller(chains: Chains) -> None:
    last = chains[ALICE][6]
    chains[ALICE][6] = msgspec.structs.replace(last, amount=-2, parcels=last.parcels.replace("-1", "-2"))


def debit_of_another(chains: Chains) -> None:
    chains[ALICE].insert(5, chains[BOB].pop(5))


def grant_made_larger(chains: Chains) -> None:
    grant = chains[ALICE][1]  # Behind the fact that the account was opened.
    chains[ALICE][1] = msgspec.structs.replace(grant, amount=20_000, parcels="1:20000")


def account_removed(chains: Chains) -> None:
    del chains[ALICE]


def whole_chain_made_anew(chains: Chains) -> None:
    chains[ALICE] = [
        entry if entry.type == EntryType.FACT else msgspec.structs.replace(entry, method="getSlot")
        for entry in chains[ALICE]
    ]


def newest_entries_removed(chains: Chains) -> None:
    del chains[ALICE][7:]


def deposit_invented(chains: Chains) -> None:
    """Among the entries of before, with all that a true one leaves behind."""
    at_ms = chains[ALICE][3].at_ms
    told = {"operation": (b"d" * 64 + bytes(4)).hex(), "base_units": 50_000, "credits_per_usdc": 100_000}
    told |= {"credits": 5_000, "bonus": 0, "slot": 7, "at_ms": at_ms, "assigned": False}
    operation = bytes.fromhex(str(told["operation"]))
    chains[ALICE][3:3] = [
        Entry(0, at_ms, int(EntryType.DEPOSIT), 5_000, 0, operation, "", 0, "", "1:5000"),
        Entry(0, at_ms, int(EntryType.FACT), 0, 0, b"", "deposit", 0, json.dumps(told), ""),
    ]


FORGERIES: list[Callable[[Chains], None]] = [
    deposit_invented,
    debit_removed,
    debit_made_smaller,
    debit_of_another,
    grant_made_larger,
    account_removed,
    whole_chain_made_anew,
    newest_entries_removed,
]


async def forge(
    pool: asyncpg.Pool, owner_url: str, store: PostgresAccountStore, change: Callable[[Chains], None]
) -> None:
    """Change the entries, and then all that is derived from them: numbers, balances, hashes, heads, batches, facts,
    marks, and the chains of accounts that were opened."""
    chains = {key: [one.entry for one in await store.seals.following(Sealed(key, 0, 0), 99)] for key in (ALICE, BOB)}
    change(chains)
    statements = ["DELETE FROM ledger", "DELETE FROM account_debits"]
    for gone in {ALICE, BOB} - chains.keys():
        hexed = f"'\\x{gone.hex()}'"
        statements += [f"DELETE FROM {name} WHERE pubkey = {hexed}" for name in _TABLES]
    for pubkey, entries in chains.items():
        hexed, head, balance, consumed, at_ms = f"'\\x{pubkey.hex()}'", ledger.genesis(pubkey), 0, 0, 0
        granted = max(itertools.accumulate(entry.amount for entry in entries))
        for number, entry in enumerate(entries, 1):
            balance += entry.amount
            if (entry.type, entry.method) == (EntryType.FACT, "batch"):
                body = json.dumps(json.loads(entry.description) | {"credits": granted}, separators=(",", ":"))
                entry = msgspec.structs.replace(entry, description=body)  # noqa: PLW2901
            at_ms = max(at_ms, entry.at_ms)
            consumed -= entry.amount if entry.type == EntryType.DEBIT else 0
            made = msgspec.structs.replace(entry, seq=number, balance=balance, at_ms=at_ms)
            head = ledger.chain(head, made)
            statements.append(
                f"INSERT INTO ledger VALUES ({hexed}, {at_ms}, {number}, {entry.type}, {entry.outcome}, {entry.amount},"
                f" {balance}, '\\x{entry.operation.hex()}', '{entry.method}', '{entry.description}', '{entry.parcels}',"
                f" '\\x{head.hex()}')"
            )
            if (entry.type, entry.method) == (EntryType.FACT, "deposit"):
                columns = "base_units, credits_per_usdc, credits, bonus, slot, at_ms, assigned"
                row = f"jsonb_populate_record(NULL::account_deposits, '{entry.description}'::jsonb - 'operation')"
                statements += [
                    f"INSERT INTO account_deposits (operation, pubkey, {columns}) SELECT"
                    f" decode('{entry.description}'::jsonb ->> 'operation', 'hex'), {hexed}, {columns} FROM {row}",
                    f"UPDATE accounts SET last_deposit = '{entry.description}' WHERE pubkey = {hexed}",
                ]
            if entry.type == EntryType.DEBIT:
                statements.append(f"INSERT INTO account_debits VALUES ('\\x{entry.operation.hex()}', {at_ms})")
        statements += [
            f"UPDATE accounts SET seq = {len(entries)}, balance = {balance}, total_consumed = {consumed},"
            f" last_ms = {at_ms}, head_hash = '\\x{head.hex()}' WHERE pubkey = {hexed}",
            f"UPDATE credit_batches SET credits = {granted}, remaining = {balance} WHERE pubkey = {hexed}",
            f"UPDATE account_operations SET amount = {entries[1].amount} WHERE pubkey = {hexed}",
        ]
    left = ", ".join(f"'\\x{pubkey.hex()}'::bytea" for pubkey in chains)
    await tamper(owner_url, *statements, "DELETE FROM account_facts", "DELETE FROM account_fact_heads")
    await tamper(owner_url, f"SELECT accounts_append_opened(ARRAY [{left}])")


_TABLES = ("accounts", "credit_batches", "account_operations", "account_usage", "account_usage_marks")


async def test_a_true_ledger_agrees_with_its_statements(postgres_pool: asyncpg.Pool, tmp_path: Path) -> None:
    await signed(postgres_pool, tmp_path)
    report = await audited(postgres_pool, tmp_path)
    assert report.faults == [] and report.statements == 2


@pytest.mark.parametrize("change", FORGERIES, ids=lambda change: change.__name__)
async def test_a_ledger_that_was_written_anew_is_named_by_its_statements(
    postgres_pool: asyncpg.Pool, owner_url: str, tmp_path: Path, change: Callable[[Chains], None]
) -> None:
    """The audit without them finds nothing, so the forgery is a whole one. And the customer's receipts of before are
    not continued by what the ledger has now."""
    made = await signed(postgres_pool, tmp_path)
    assert isinstance(made.store, PostgresAccountStore)
    newest, *_, oldest = await made.check()
    await forge(postgres_pool, owner_url, made.store, change)
    assert (await audited(postgres_pool, None)).faults == []
    named = {account for account, _ in (await audited(postgres_pool, tmp_path)).faults}
    assert base58_text(ALICE) in named and (base58_text(BOB) in named) == (change is debit_of_another)
    if change is grant_made_larger:
        oldest = newest  # The oldest one is itself another: it is not even in the chain.
    place = (oldest.entry.at_ms, oldest.entry.number)
    chain = await made.commands().answer(ReadChain(ALICE, place, 1_000))
    entries = [verifier.ReceiptEntry(**entry_body(one.entry)) for one in chain.value or ()]
    if oldest is not newest:
        with pytest.raises(verifier.NotProven):
            verifier.check_continued(oldest, newest, verifier.Chain(oldest.account, oldest.entry.number, entries))


async def test_entries_that_no_statement_has_are_named_when_later_ones_are_signed(
    postgres_pool: asyncpg.Pool, tmp_path: Path
) -> None:
    """Written behind the owner's back while it was signing."""
    made = await signed(postgres_pool, tmp_path)
    await made.write(ALICE, 1)
    assert (await audited(postgres_pool, tmp_path)).faults == [], "it is younger than the newest statement"
    links = SignedLinks([tmp_path])
    links.at_ms += 10 * 365 * 86_400_000
    async with postgres_pool.acquire() as connection:
        report = await audit.audit(connection, Checkpoints(signed=links))
    assert report.faults == [(base58_text(ALICE), "entry 14 is in no signed statement, and later ones are")]


async def test_a_later_statement_hides_nothing_of_an_earlier_one(
    postgres_pool: asyncpg.Pool, owner_url: str, tmp_path: Path
) -> None:
    """Somebody writes a chain anew, and has come to put a statement of it into the file, under a key of their own: the
    leaves of before still contradict it, and with the published keys the file itself is refused."""
    made = await signed(postgres_pool, tmp_path)
    assert isinstance(made.store, PostgresAccountStore)
    file, saved = RootsFile(tmp_path, 0), tmp_path / "ledger-keys.json"
    saved.write_text(json.dumps(published(SEAL.proven(await made.store.seals.keys()).keys)))
    assert SignedLinks([tmp_path], saved).statements == 2
    await made.write(ALICE, 1)
    await forge(postgres_pool, owner_url, made.store, whole_chain_made_anew)
    *_, last = await made.store.seals.following(Sealed(ALICE, 0, 0), 99)
    newest = list(read_roots(file.path))[-1]
    leaves = leaf_of(ALICE, last.entry.seq, [last.hash]).packed()
    text = Statement(0, 3, newest.statement.at_ms, newest.signed.digest, 1, 1, root_of(leaves)).text()
    key = SigningKey(b"x" * 32)
    public = bytes(key.verify_key)
    forged = SignedStatement(text, name_of(public), key.sign(text.encode()).signature, leaves)
    file.append(ProvenKey(name_of(public), public, 1), [forged])
    report = await audited(postgres_pool, tmp_path)
    wanted = "entry 8 has another hash than in a signed statement: the chain was written anew"
    assert (base58_text(ALICE), wanted) in report.faults and report.statements == 3
    with pytest.raises(CheckpointError, match="not among the keys that you gave"):
        SignedLinks([tmp_path], saved)
    saved.write_text("{}")
    with pytest.raises(CheckpointError, match=r"save /\.well-known/ledger-keys\.json"):
        SignedLinks([tmp_path], saved)


def test_files_that_say_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no file of roots"):
        SignedLinks([tmp_path])
    file = RootsFile(tmp_path, 0).path
    with pytest.raises(CheckpointError, match="No such file"):
        SignedLinks([file])
    file.write_text('{"statement":"x"}\n')
    with pytest.raises(CheckpointError, match="another form"):
        SignedLinks([file])
