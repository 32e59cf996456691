"""Statements that somebody else has written into the table are not continued, nor copied out of it.

Rules: decisions, "Signed roots".
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.accounts.receipts import ReadLedgerKeys
from actors.clock import ManualClock
from actors.receipts.root_keys import ProvenKey
from actors.receipts.roots_file import RootsFile, read_roots
from actors.receipts.statements import SignedStatement, Statement, leaf_of, parse, root_of
from actors.telemetry.metrics import Metrics
from tests.accounts.making import ALICE, BOB
from tests.accounts.memory_store import MemoryAccountStore
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import Ledger
from tests.accounts.test_signing_keys import ATTACKER, planted_key


def _forged(newest: SignedStatement, key_id: str, **changes: Any) -> SignedStatement:
    """A statement that follows this one and says something else of ALICE, by somebody without the cluster's secret."""
    before = parse(newest.text)
    assert before is not None
    leaves = leaf_of(ALICE, 5, [b"f" * 32]).packed()
    said = Statement(0, before.number + 1, before.at_ms + 1, newest.digest, 1, 1, root_of(leaves))
    text = said._replace(**changes).text()
    return SignedStatement(text, key_id, ATTACKER.sign(text.encode()).signature, leaves)


def by_aplanted_key(newest: SignedStatement, key: ProvenKey) -> SignedStatement:
    return _forged(newest, planted_key().id)


def in_the_name_of_the_key(newest: SignedStatement, key: ProvenKey) -> SignedStatement:
    return _forged(newest, key.id)


def the_newest_one_again(newest: SignedStatement, key: ProvenKey) -> SignedStatement:
    return newest


def with_other_leaves(newest: SignedStatement, key: ProvenKey) -> SignedStatement:
    return newest._replace(leaves=leaf_of(ALICE, 5, [b"f" * 32]).packed())


def no_statement(newest: SignedStatement, key: ProvenKey) -> SignedStatement:
    return newest._replace(text="statement")


FORGERIES: list[Callable[[SignedStatement, ProvenKey], SignedStatement]] = [
    by_aplanted_key,
    in_the_name_of_the_key,
    the_newest_one_again,
    with_other_leaves,
    no_statement,
]


def _refused(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("ledger_gateway_refused_series")


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started later"])
async def test_what_somebody_writes_into_the_table_is_not_continued(
    clock: ManualClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    is_running: bool,
    forge: Callable[[SignedStatement, ProvenKey], SignedStatement],
) -> None:
    """Neither its key is published, nor its statement chained upon or copied to the file; it is told loudly, other
    series go on, and this one does once the row was removed."""
    store = MemoryAccountStore(clock)
    ledger, seals = Ledger(store, await store.take_over("a", SHARDS, False)), store.seals
    metrics = Metrics()
    sealing, other = ledger.sealing(folder=tmp_path, metrics=metrics), ledger.sealing(1, tmp_path)
    for _ in range(3):
        await ledger.write(told=sealing)
        await sealing.finish()
    newest = await seals.newest(0)
    assert newest is not None
    seals._keys.append(planted_key())
    seals.statements[0, 4] = 1, forge(newest, sealing.keys.signing[0])
    if not is_running:
        sealing = ledger.sealing(folder=tmp_path, metrics=(metrics := Metrics()))
    before = RootsFile(tmp_path, 0).path.read_bytes()
    await ledger.write(told=sealing)
    for _ in range(3):
        await sealing.finish()
    assert "series 0 of the ledger's statements is not continued" in caplog.text and _refused(metrics) == 1
    assert RootsFile(tmp_path, 0).path.read_bytes() == before and len(seals.statements) == 4
    told = (await ledger.commands(ledger.sealing()).answer(ReadLedgerKeys())).value
    assert told is not None and [key["id"] for key in told["keys"]] == [sealing.keys.signing[0].id]
    await ledger.write(BOB, told=other)
    await other.finish()
    await ledger.check(BOB)
    del seals.statements[0, 4]
    await ledger.write(told=sealing)
    await sealing.finish()
    assert _refused(metrics) == 0 and len(list(read_roots(RootsFile(tmp_path, 0).path))) == 4
    await ledger.check()


async def test_a_file_is_caught_up_with_proven_statements_alone(
    clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody who owns the tables has put one of them in another's place while no file was written."""
    store = MemoryAccountStore(clock)
    ledger, seals = Ledger(store, await store.take_over("a", SHARDS, False)), store.seals
    await ledger.write()
    await ledger.sealing(folder=tmp_path).finish()
    for _ in range(4):
        await ledger.write()
        await ledger.sealing().finish()
    seals._keys.append(planted_key())
    true = seals.statements[0, 3]
    seals.statements[0, 3] = 1, _forged(seals.statements[0, 2][1], planted_key().id)
    sealing = ledger.sealing(folder=tmp_path)
    await ledger.write(told=sealing)
    await sealing.finish()
    assert [one.statement.number for one in read_roots(RootsFile(tmp_path, 0).path)] == [1]
    assert "not known to be this service's" in caplog.text
    seals.statements[0, 3] = true
    await sealing.finish()
    await ledger.write(told=sealing)
    await sealing.finish()
    assert [one.statement.number for one in read_roots(RootsFile(tmp_path, 0).path)] == list(range(1, 8))
