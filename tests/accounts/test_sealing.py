"""Every entry comes into one signed statement, whoever fails, and its receipt holds for an independent verifier."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from actors.accounts import sealing as sealing_module
from actors.accounts import seals_store
from actors.accounts.account import Account
from actors.accounts.held_shards import HeldShards
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.listings import LedgerFilter
from actors.accounts.long_reads import LongReads
from actors.accounts.receipt_commands import ReceiptCommands
from actors.accounts.receipts import (
    ReadChain,
    ReadReceipts,
    Receipt,
)
from actors.accounts.sealing import Sealing
from actors.accounts.seals_store import Seal, Sealed
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable
from actors.accounts.writes import Write
from actors.clock import ManualClock
from actors.gateway.pages.receipts import entry_body, receipt_body
from actors.receipts.root_keys import KeySeal, published
from actors.receipts.roots_file import RootsFile, read_roots
from actors.receipts.statements import SignedStatement, parse, unpack
from actors.telemetry.metrics import Metrics
from actors.units import shard_of
from ledger_gateway import receipts as verifier
from tests.accounts import memory_seals
from tests.accounts.making import ALICE, BOB, pubkey_of, settle, take
from tests.accounts.memory_seals import MemorySeals
from tests.accounts.memory_store import MemoryAccountStore
from tests.accounts.shards import SHARDS
from tests.accounts.test_store import opened_in, posted

SEAL = KeySeal(b"secret")


class FailingSeals(MemorySeals):
    """fail: what the coming seals do: "before" (nothing written), "after" (written, the answer lost)."""

    fail = ""

    async def seal(self, *arguments: Any) -> list[Sealed]:
        failure, self.fail = self.fail, ""
        if failure == "before":
            raise StoreUnavailable("nobody listens")
        done = await super().seal(*arguments)
        if failure == "after":
            raise StoreUnavailable("the connection was lost")
        return done


class Ledger:
    """Accounts of one store, and the owners that seal them."""

    def __init__(self, store: AccountStore, epoch: int) -> None:
        self.store, self.epoch = store, epoch
        self.accounts: dict[bytes, Account] = {}
        self._operations = 0

    async def write(self, pubkey: bytes = ALICE, count: int = 3, told: Sealing | None = None) -> None:
        if pubkey not in self.accounts:
            self.accounts[pubkey] = await opened_in(self.store, self.epoch, pubkey, 10_000)
        account, group = self.accounts[pubkey], Write()
        for _ in range(count):
            self._operations += 1
            take(account, posted(account, settle(self._operations, 1, pubkey=pubkey)), group)
        group.cut({pubkey: account})
        await self.store.write(self.epoch, group)
        if told is not None:
            told.add(group.entries)

    def sealing(
        self, index: int = 0, folder: Path | None = None, seal: KeySeal = SEAL, metrics: Metrics | None = None
    ) -> Sealing:
        clock = LedgerClock(ManualClock())
        return Sealing(self.store.seals, clock, HeldShards(index, SHARDS), seal, folder, metrics)

    async def receipts(self, pubkey: bytes = ALICE) -> list[Receipt]:
        reply = await self.commands().answer(ReadReceipts(pubkey, LedgerFilter(with_facts=True), 100))
        assert reply.value is not None, reply
        return list(reply.value)

    def commands(self, sealing: Sealing | None = None) -> ReceiptCommands:
        return ReceiptCommands(self.store, LongReads(_written), sealing)

    async def check(self, pubkey: bytes = ALICE) -> list[verifier.Receipt]:
        """Every entry of the account has a receipt that holds."""
        keys = verifier.public_keys(published(SEAL.proven(await self.store.seals.keys()).keys))
        made = await self.receipts(pubkey)
        assert [one.entry.seq for one in made] == list(range(self.accounts[pubkey].seq, 0, -1))
        read = verifier.read_receipts({"receipts": [receipt_body(pubkey, one) for one in made]})
        for one in read:
            verifier.check(one, keys)
        return read


async def _written(pubkey: bytes) -> None:
    del pubkey


@pytest.fixture
async def ledger(store: AccountStore) -> Ledger:
    return Ledger(store, await store.take_over("a", SHARDS, False))


async def test_each_entry_has_a_receipt_that_the_published_key_proves(ledger: Ledger, tmp_path: Path) -> None:
    """Of several accounts and statements; the file has the same statements as the database."""
    sealing = ledger.sealing(folder=tmp_path)
    for turn in range(3):
        for pubkey in (ALICE, BOB, pubkey_of("carol")):
            await ledger.write(pubkey, turn * 3 + 1, sealing)
        await sealing.finish()
    for pubkey in ledger.accounts:
        await ledger.check(pubkey)
    written = [one.signed for one in read_roots(RootsFile(tmp_path, 0).path)]
    assert written == await ledger.store.seals.after(0, 0, 100) and len(written) == 3


async def test_entries_wait_for_company_unless_somebody_asks_for_them(ledger: Ledger) -> None:
    """For some seconds, or until they are many; a receipt that is asked for makes its statement come next."""
    sealing = ledger.sealing()
    commands = ReceiptCommands(ledger.store, LongReads(_written), sealing)
    await sealing.tick()
    await ledger.write(count=2, told=sealing)
    await ledger.write(BOB, 40, sealing)
    await sealing.tick()
    await ledger.check(BOB)
    assert {one.statement for one in await ledger.receipts()} == {None}
    await commands.answer(ReadReceipts(ALICE, LedgerFilter(with_facts=True), 5))
    await sealing.tick()
    await ledger.check()
    await ledger.write(count=2)  # Told to nobody, as by a group of unknown end.
    await commands.answer(ReadReceipts(ALICE, LedgerFilter(with_facts=True), 5))
    await sealing.tick()
    await ledger.check()


async def test_an_entry_that_is_in_no_statement_has_no_receipt_yet(ledger: Ledger) -> None:
    await ledger.write()
    assert {one.statement for one in await ledger.receipts()} == {None}
    await ledger.sealing().finish()
    await ledger.check()


async def test_what_an_owner_left_is_sealed_by_the_next_one(ledger: Ledger) -> None:
    """Killed before its statement; and one that still lives seals nothing twice."""
    killed = ledger.sealing()
    await ledger.write(told=killed)
    await killed.finish()
    await ledger.write(told=killed)
    following = ledger.sealing(index=1)
    await following.finish()
    await ledger.write(told=following)
    await killed.finish()
    await following.finish()
    await ledger.check()
    spans = await _spans(ledger.store)
    assert _numbers(spans[ALICE]) == list(range(1, ledger.accounts[ALICE].seq + 1))


async def test_entries_of_a_later_receipt_continue_an_earlier_one(ledger: Ledger) -> None:
    """And not those of a ledger that was changed between them."""
    await ledger.write(count=5)
    await ledger.sealing().finish()
    newest, *_, oldest = await ledger.check()
    chain = await ledger.commands().answer(ReadChain(ALICE, (oldest.entry.at_ms, oldest.entry.number), 1_000))
    assert chain.value is not None
    entries = [verifier.ReceiptEntry(**entry_body(one.entry)) for one in chain.value]
    verifier.check_continued(oldest, newest, verifier.Chain(oldest.account, 1, entries))
    for wrong in (entries[:-1], entries[1:], entries[:2] + entries[3:], entries[::-1]):
        with pytest.raises(verifier.NotProven):
            verifier.check_continued(oldest, newest, verifier.Chain(oldest.account, 1, wrong))


async def test_more_than_fits_into_one_statement_comes_into_several(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of one account, accounts, and entries that are read from the ledger in pieces."""
    monkeypatch.setattr(sealing_module, "_ENTRIES_MAX", 3)
    monkeypatch.setattr(sealing_module, "_ACCOUNTS_MAX", 2)
    monkeypatch.setattr(sealing_module, "_REFILLED_MAX", 2)
    monkeypatch.setattr(seals_store, "SCANNED_MAX", 3)
    monkeypatch.setattr(memory_seals, "SCANNED_MAX", 3)
    for name in "abcde":
        await ledger.write(pubkey_of(name), 10)
    sealing = ledger.sealing()
    for _ in range(16):
        await sealing.finish()
    for pubkey in ledger.accounts:
        await ledger.check(pubkey)
    sizes = [len(list(unpack(one.leaves))) for one in await ledger.store.seals.after(0, 0, 100)]
    assert max(sizes) == 2


async def test_shards_that_come_during_a_look_are_looked_through_from_their_beginning(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that adopts shards in the middle of its first look misses none of their accounts."""
    monkeypatch.setattr(seals_store, "SCANNED_MAX", 2)
    monkeypatch.setattr(memory_seals, "SCANNED_MAX", 2)
    for name in "abcdef":
        await ledger.write(pubkey_of(name), 2)
    *later, last = sorted(ledger.accounts)
    held = HeldShards(0, [shard_of(last)])
    sealing = Sealing(ledger.store.seals, LedgerClock(ManualClock()), held, SEAL, None)
    await sealing.tick()
    held.take(map(shard_of, later))
    for _ in range(8):
        await sealing.tick()
    for pubkey in ledger.accounts:
        await ledger.check(pubkey)


async def test_too_much_that_waits_is_read_from_the_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing_module, "WAITING_MAX", 10)
    sealing = ledger.sealing()
    for _ in range(4):
        await ledger.write(count=6, told=sealing)
    await sealing.finish()
    await ledger.check()


async def test_the_file_is_caught_up_when_it_can_be_written_again(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "roots"
    folder.write_text("in the way")
    sealing = ledger.sealing(folder=folder)
    for turn in range(3):
        await ledger.write(told=sealing)
        if turn == 2:
            folder.unlink()
        await sealing.finish()
    assert "not written" in caplog.text
    assert [one.statement.number for one in read_roots(RootsFile(folder, 0).path)] == [1, 2, 3]
    await ledger.write(told=sealing)
    await sealing.finish()
    again = ledger.sealing(folder=folder)  # Of another machine meanwhile, the file lacks statements.
    await ledger.write(told=again)
    await ledger.sealing().finish()
    await ledger.write(told=again)
    await again.finish()
    assert [one.statement.number for one in read_roots(RootsFile(folder, 0).path)] == [1, 2, 3, 4, 5, 6]


async def test_a_database_that_was_set_back_does_not_continue_the_file(
    clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a restore: what the file has is evidence, and stays as it is."""
    for length in (3, 1):
        store = MemoryAccountStore(clock)
        ledger = Ledger(store, await store.take_over("a", SHARDS, False))
        sealing = ledger.sealing(folder=tmp_path)
        for _ in range(length):
            await ledger.write(told=sealing)
            await sealing.finish()
        assert [one.statement.number for one in read_roots(RootsFile(tmp_path, 0).path)] == [1, 2, 3]
    assert "as after a restore" in caplog.text


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_fails_each_entry_is_in_one_statement(seed: int) -> None:
    """Kills, two owners at once, seals that fail before or after they are written, entries that nobody tells."""
    chance = random.Random(seed)
    store = MemoryAccountStore(ManualClock())
    failing = store.seals = FailingSeals(lambda: {pubkey: row.entries for pubkey, row in store.rows.items()})
    ledger = Ledger(store, await store.take_over("a", SHARDS, False))
    owners = [ledger.sealing(index) for index in range(2)]
    for _ in range(60):
        index = chance.randrange(2)
        match chance.randrange(6):
            case 0:
                owners[index] = ledger.sealing(index)
            case 1:
                failing.fail = chance.choice(("before", "after"))
            case 2 | 3:
                await owners[index].finish()
            case _:
                told = owners[index] if chance.random() < 0.8 else None
                await ledger.write(pubkey_of(str(chance.randrange(3))), chance.randint(1, 4), told)
    failing.fail = ""
    for index in range(2):
        owners[index] = ledger.sealing(index)
        await owners[index].finish()
    spans = await _spans(store)
    for pubkey, account in ledger.accounts.items():
        assert _numbers(spans[pubkey]) == list(range(1, account.seq + 1)), seed
        await ledger.check(pubkey)


def _numbers(spans: list[Seal]) -> list[int]:
    return sorted(number for span in spans for number in range(span.first, span.last + 1))


async def _spans(store: AccountStore) -> dict[bytes, list[Seal]]:
    """What the statements have of each account. Each statement follows the one before it in its series."""
    spans = defaultdict[bytes, list[Seal]](list)
    for series in range(2):
        before: SignedStatement | None = None
        for signed in await store.seals.after(series, 0, 10_000):
            statement = parse(signed.text)
            assert statement is not None
            assert statement.previous == (bytes(32) if before is None else before.digest)
            before = signed
            for leaf in unpack(signed.leaves):
                spans[leaf.pubkey].append(Seal(leaf.pubkey, leaf.first, leaf.last, 0))
    return spans
