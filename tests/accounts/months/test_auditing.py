"""A forged cut of the ledger is named: by its digest, by signed statements, and by the exports."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import asyncpg
import msgspec
import pytest

from actors.accounts import audit, ledger
from actors.accounts.checkpoint import Checkpoint, Checkpoints, CheckpointWriter, CoveredDeposits
from actors.accounts.credits import read_parcels
from actors.accounts.deposits import deposit_operation
from actors.accounts.facts import REFERRALS, ChainLink, Fact, chain
from actors.accounts.months.carried import COLUMNS, carried_of
from actors.accounts.months.files import ExportedMonth
from actors.accounts.signed_links import SignedLinks
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.world import DECEMBER, NOVEMBER, Months, detached, exported, retold

Forge = Callable[[asyncpg.Connection], Awaitable[None]]


def said(*statements: str) -> Forge:
    async def forge(connection: asyncpg.Connection) -> None:
        for statement in statements:
            await connection.execute(statement)

    return forge


async def audited_after(
    owner: asyncpg.Connection, forge: Forge, months: Sequence[ExportedMonth] = (), roots: Path | None = None
) -> list[str]:
    """What the audit names of a forgery, which is rolled back."""
    transaction = owner.transaction(isolation="repeatable_read")
    await transaction.start()
    try:
        await forge(owner)
        wanted = Checkpoints(exported=months, signed=None if roots is None else SignedLinks([roots]))
        return [fault for _, fault in (await audit.audit(owner, wanted)).faults]
    finally:
        await transaction.rollback()


FORGERIES = [
    (said("UPDATE ledger_carried SET consumed = consumed + 1"), "carry over the newest cut of the ledger was changed"),
    (said("UPDATE ledger_carried SET batches = '1:1'"), "credits, and batches of other credits"),
    (said("UPDATE ledger_carried SET balance = balance + 1"), "is not what was written"),
    (said("DELETE FROM ledger_carried"), "carry over the newest cut of the ledger was changed"),
    (said("DELETE FROM ledger_kept_facts WHERE seq = 1"), "the facts that stayed when it left the ledger were changed"),
    (said("UPDATE ledger_kept_facts SET description = '{}'"), "the facts that stayed"),
    (said("DELETE FROM ledger_cuts"), "cut of the ledger at 1701388800000 is gone: the facts have it"),
    (said("UPDATE ledger_cuts SET entries = 1"), "cut of the ledger at 1701388800000: entries is 1"),
    (
        said("UPDATE account_usage SET credits = credits + 1"),
        "its usage of all hours differs from what it has consumed",
    ),
    (
        said(f"DELETE FROM accounts WHERE pubkey = '\\x{BOB.hex()}'"),
        "it carries something over a cut of the ledger, and is no",
    ),
    (said("UPDATE credit_batches SET expires_at = expires_at + 1 WHERE id = 1"), "batch 1: expires_at is"),
]


async def rich(connection: asyncpg.Connection) -> None:
    """BOB has all again that he has spent, by the entry that he carried, and everything that names it is written
    anew."""
    row = await connection.fetchrow(f"SELECT {COLUMNS} FROM ledger_carried WHERE pubkey = $1", BOB)
    true = carried_of(row)
    spent = 3_000 - dict(read_parcels(true.batches))[1]
    entry = msgspec.structs.replace(true.entry, balance=true.entry.balance + spent)
    hash_ = ledger.chain(true.before, entry)
    await connection.execute(
        "UPDATE ledger_carried SET balance = $2, hash = $3, batches = $4 WHERE pubkey = $1",
        *(BOB, entry.balance, hash_, "1:3000 2:6000"),
    )
    await connection.execute(
        "UPDATE accounts SET balance = $2, head_hash = $3 WHERE pubkey = $1", *(BOB, entry.balance, hash_)
    )
    await connection.execute("UPDATE credit_batches SET remaining = 3000 WHERE pubkey = $1 AND id = 1", BOB)
    digest = hashlib.sha256()
    for each in await connection.fetch(f"SELECT {COLUMNS} FROM ledger_carried ORDER BY pubkey"):
        digest.update(carried_of(each).line())
    await connection.execute("UPDATE ledger_cuts SET carried = $1", digest.digest())
    facts = await connection.fetch(
        "SELECT virtual_shard, seq, kind, pubkey, body FROM account_facts WHERE virtual_shard = $1", REFERRALS
    )
    (fact,) = [Fact(*each) for each in facts]
    body = await connection.fetchval(
        "SELECT ($1::jsonb || jsonb_build_object('carried', $2::text))::text", fact.body, digest.hexdigest()
    )
    forged = chain(hashlib.sha256(b"ledger-gateway shard -1").digest(), fact._replace(body=body))
    await connection.execute("ALTER TABLE account_facts DISABLE TRIGGER USER")
    for table in ("account_facts", "account_fact_heads"):
        await connection.execute(f"UPDATE {table} SET hash = $1 WHERE virtual_shard = -1", forged)
    await connection.execute("UPDATE account_facts SET body = $1 WHERE virtual_shard = -1", body)
    assert json.loads(body)["carried"] == digest.hexdigest()


@pytest.mark.threat(56)
async def test_a_forged_cut_is_named(months: Months, owner_url: str, tmp_path: Path) -> None:
    """Each forgery alone without any file. One by a person who writes all chains anew is named by the files of signed
    statements, and by the exports."""
    november = await exported(months.pool, NOVEMBER, tmp_path)
    await detached(owner_url, november)
    owner = await asyncpg.connect(owner_url)
    for forge, told in FORGERIES:
        faults = await audited_after(owner, forge)
        assert any(told in fault for fault in faults), (told, faults)
        assert await audited_after(owner, forge, [november])
    assert await audited_after(owner, rich) == []
    by_roots = await audited_after(owner, rich, roots=months.roots)
    assert any("another hash than in a signed statement" in fault for fault in by_roots), by_roots
    by_export = await audited_after(owner, rich, [november])
    assert any("carries over another entry than its exported entries make" in fault for fault in by_export), by_export
    assert await audited_after(owner, said(), [november], months.roots) == []
    await owner.close()


@pytest.mark.threat(56)
async def test_another_export_than_the_detached_one_is_named(months: Months, owner_url: str, tmp_path: Path) -> None:
    """Also one that fits its own manifest; and an export of a month that is still in the ledger changes nothing."""
    november = await exported(months.pool, NOVEMBER, tmp_path)
    december = await exported(months.pool, DECEMBER, tmp_path)
    await detached(owner_url, november)
    assert await months.audited(november, december) == []
    less = retold(november, tmp_path / "less", "entries", lambda rows: [row for row in rows if row[0] != BOB])
    faults = await months.audited(less)
    assert "its export is another one than that with which it left the ledger" in faults
    assert any("do not end with the one that its head names" in fault for fault in faults), faults


async def test_a_checkpoint_of_before_is_compared_through_the_exports(
    months: Months, owner_url: str, tmp_path: Path
) -> None:
    """Its links are of entries that left the ledger. The deposits that it covers stay covered."""
    path, other, key = tmp_path / "checkpoint", tmp_path / "other", b"k" * 32
    connection = await asyncpg.connect(owner_url)
    third = await connection.fetchval("SELECT hash FROM ledger WHERE pubkey = $1 AND seq = 9", ALICE)
    for file, hash_ in ((path, third), (other, b"h" * 32)):
        writer = CheckpointWriter(file, key, 1)
        writer.account(ALICE, ChainLink(9, hash_))
        writer.finish()
    exports = []
    for month in (NOVEMBER, DECEMBER):
        exports.append(await exported(months.pool, month, tmp_path))
        await detached(owner_url, exports[-1])
    report = await audit.audit(connection, Checkpoints(Checkpoint(path, key)))
    assert report.faults == [] and report.links_passed == 1
    wanted = Checkpoints(Checkpoint(path, key), exported=exports)
    report = await audit.audit(connection, wanted)
    assert report.faults == [] and report.links_passed == 0 and report.exported == 2
    assert report.detached == ["2023-11", "2023-12"] and report.entries.total() > 0
    wrong = await audit.audit(connection, Checkpoints(Checkpoint(other, key), exported=exports))
    assert "entry 9 has another hash than at the checkpoint" in str(wrong.faults)
    covered = CoveredDeposits(connection, Checkpoint(path, key))
    assert await covered.has(ALICE, deposit_operation(b"\1" * 64, 0))
    assert not await covered.has(ALICE, deposit_operation(b"\1" * 64, 5))
    await connection.close()
