"""Reading receipts: what the pages of an account get, also from statements that were made long after their entries."""

import pytest

from actors.accounts import seals_store
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.listings import LedgerFilter
from actors.accounts.long_reads import LongReads
from actors.accounts.receipt_commands import READS_MAX, ReceiptCommands
from actors.accounts.receipts import RECEIPTS_MAX, ReadChain, ReadLedgerKeys, ReadReceipts
from actors.accounts.store import AccountStore
from actors.clock import ManualClock
from actors.errors import Err
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import Ledger


@pytest.fixture
async def ledger(store: AccountStore) -> Ledger:
    return Ledger(store, await store.take_over("a", SHARDS, False))


async def test_a_statement_is_found_behind_many_of_the_account(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, in the order in which they were made."""
    monkeypatch.setattr(seals_store, "FOUND_MAX", 3)
    monkeypatch.setattr("actors.accounts.receipt_commands.FOUND_MAX", 3)
    monkeypatch.setattr("tests.accounts.memory_seals.FOUND_MAX", 3)
    sealing = ledger.sealing()
    for _ in range(8):
        await ledger.write(count=1, told=sealing)
        await sealing.finish()
    await ledger.check()


async def test_a_statement_that_was_made_days_later_is_found(ledger: Ledger) -> None:
    """As after an outage, or of entries from before there were statements."""
    await ledger.write(count=3)
    for days in (0, 2, 40, -10_000):
        sealing = ledger.sealing()
        sealing._clock = LedgerClock(ManualClock(ManualClock().now_ms() + days * 86_400_000))
        await sealing.finish()
        await ledger.write(count=1)
        await ledger.write(BOB, count=1)
    await ledger.sealing().finish()
    await ledger.check()
    await ledger.check(BOB)


async def test_no_more_is_read_than_was_asked_for(ledger: Ledger) -> None:
    await ledger.write(count=RECEIPTS_MAX + 20)
    commands = ledger.commands()
    for limit, most in ((2, 2), (RECEIPTS_MAX + 10, RECEIPTS_MAX)):
        reply = await commands.answer(ReadReceipts(ALICE, LedgerFilter(with_facts=True), limit))
        assert reply.value is not None and len(reply.value) == most
    chain = await commands.answer(ReadChain(ALICE, (0, 0), 5))
    assert chain.value is not None and [one.entry.seq for one in chain.value] == [1, 2, 3, 4, 5]
    nobody = await commands.answer(ReadReceipts(BOB, LedgerFilter(with_facts=True), 5))
    assert nobody.value == ()


async def test_a_reading_that_is_one_too_many_is_refused(ledger: Ledger) -> None:
    """Trees are hashed for each; an owner has its shards to serve."""
    waits = ledger.commands()

    async def never(pubkey: bytes) -> None:
        refusals.append((await commands.answer(ReadReceipts(pubkey, LedgerFilter(with_facts=True), 1))).refusal)

    refusals = list[str | None]()
    commands = ReceiptCommands(ledger.store, LongReads(never))
    assert waits is not commands and READS_MAX == 2
    reply = await commands.answer(ReadReceipts(ALICE, LedgerFilter(with_facts=True), 1))
    assert reply.value == () and Err.CONCURRENCY_LIMITED.name in refusals


async def test_the_keys_are_told_to_everybody(ledger: Ledger) -> None:
    sealing = ledger.sealing()
    commands = ledger.commands(sealing)
    assert (await commands.answer(ReadLedgerKeys())).value == {"keys": []}
    await ledger.write()
    await sealing.finish()
    keys = (await commands.answer(ReadLedgerKeys())).value
    assert keys is not None and "sealed" not in str(keys) and len(keys["keys"]) == 1
