"""Receipts of detached entries are made from the exports, and those of kept ones as before, across the cut too."""

from pathlib import Path

import pytest

from actors.accounts.ledger import Entry
from actors.accounts.listings import LedgerFilter
from actors.accounts.long_reads import LongReads
from actors.accounts.months.files import ENTRIES, ExportError
from actors.accounts.months.receipts import ExportedReceipts
from actors.accounts.receipt_commands import ReceiptCommands
from actors.accounts.receipts import ReadChain, ReadReceipts, Receipt
from actors.errors import Err
from actors.gateway.pages.receipts import receipt_body
from actors.receipts.root_keys import published
from ledger_gateway import receipts as verifier
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.world import CAROL, DECEMBER, JANUARY, NOVEMBER, Months, detached, exported
from tests.accounts.test_sealing import SEAL


async def _written(pubkey: bytes) -> None:
    del pubkey


async def test_every_entry_has_the_receipt_that_it_had(months: Months, owner_url: str, tmp_path: Path) -> None:
    """Word for word, also where a statement has entries of both sides of the cut; and each holds for the customer's own
    check. The product refuses those of detached entries, and says since when it has them."""
    commands = ReceiptCommands(months.store, LongReads(_written))
    keys = verifier.public_keys(published(SEAL.proven(await months.store.seals.keys()).keys))

    async def kept(pubkey: bytes) -> dict[int, Receipt]:
        reply = await commands.answer(ReadReceipts(pubkey, LedgerFilter(with_facts=True), 100))
        assert reply.value is not None
        for one in verifier.read_receipts({"receipts": [receipt_body(pubkey, one) for one in reply.value]}):
            verifier.check(one, keys)
        return {one.entry.seq: one for one in reply.value}

    before = {pubkey: await kept(pubkey) for pubkey in (ALICE, BOB, CAROL)}
    exports = [await exported(months.pool, NOVEMBER, tmp_path)]
    await detached(owner_url, exports[0])
    exports.append(await exported(months.pool, DECEMBER, tmp_path))
    exports.append(await exported(months.pool, JANUARY, tmp_path))
    for pubkey, receipts in before.items():
        after = await kept(pubkey)
        assert after == {seq: one for seq, one in receipts.items() if one.entry.at_ms >= NOVEMBER.next_ms}
        made = ExportedReceipts(exports, pubkey)
        for one in receipts.values():
            if one.entry.at_ms < DECEMBER.next_ms:
                assert made.of_entry(one.entry.at_ms, one.entry.seq) == one
    assert before[ALICE] and before[BOB]

    old = next(
        one.entry for one in before[ALICE].values() if one.entry.type == 3 and one.entry.at_ms < NOVEMBER.next_ms
    )
    both = ExportedReceipts(exports, ALICE).of_operation(old.operation)
    assert [one.entry.type for one in both] == [2, 3]
    await _refused(commands, old, before[ALICE])
    across = [row for group in exports[0].rows(ENTRIES) for row in group if row[0] == ALICE][-1]
    with pytest.raises(ExportError, match="give the months before and behind too"):
        ExportedReceipts(exports[:1], ALICE).of_entry(across[2], across[1])
    for wrong in ((across[2], 1), (JANUARY.next_ms, 5)):
        with pytest.raises(ExportError, match=r"no such entry|no month with this entry"):
            ExportedReceipts(exports, ALICE).of_entry(*wrong)


async def _refused(commands: ReceiptCommands, old: Entry, receipts: dict[int, Receipt]) -> None:
    """By its place, by its operation, in a chain; a chain from the last detached entry on is whole."""
    place = LedgerFilter((old.at_ms, old.seq + 1), old.at_ms, old.at_ms + 1, with_facts=True)
    for asked in (
        ReadReceipts(ALICE, place, 1),
        ReadReceipts(ALICE, LedgerFilter(from_ms=0, with_facts=True), 100),
        ReadChain(ALICE, (old.at_ms, old.seq), 10),
        ReadChain(ALICE, (0, 0), 10),
    ):
        reply = await commands.answer(asked)
        assert reply.refusal == Err.MONTH_DETACHED.name and "2023-12-01T00:00:00Z" in reply.detail
    last = max((one.entry for one in receipts.values() if one.entry.at_ms < NOVEMBER.next_ms), key=lambda one: one.seq)
    chain = await commands.answer(ReadChain(ALICE, (last.at_ms, last.seq), 5))
    assert chain.value is not None and [one.entry.seq for one in chain.value] == list(range(last.seq + 1, last.seq + 6))
