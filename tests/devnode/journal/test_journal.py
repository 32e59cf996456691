import os
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace
from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.journal.journal import (
    _DROP_ADDRESSES,
    FILE_NAME,
    LAYOUT,
    FolderLock,
    FolderTaken,
    Journal,
    JournalError,
    SealedSlot,
    row_id,
    slot_and_position,
)
from devnode.records.records import Block, TransactionRecord
from tests.devnode.encoding.test_wire import GIVE, PAYER, v0
from tests.devnode.local_node import LocalNode
from tests.devnode.records.test_records import META


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    """The error of a second owner names the first; after the release the folder is free."""
    first = FolderLock(tmp_path / "chain")
    with pytest.raises(FolderTaken, match=f"another devnode \\(process {os.getpid()}\\)"):
        FolderLock(tmp_path / "chain")
    first.release()
    FolderLock(tmp_path / "chain").release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderTaken, match="give another --data-dir"):
        FolderLock(tmp_path / "file" / "chain")


SALT = bytes(range(32))
KEY = Pubkey.from_bytes(b"\x01" * 32)


def signature(number: int) -> str:
    return str(Signature.from_bytes(number.to_bytes(64, "little")))


def record(slot: int, position: int, err: object = None) -> TransactionRecord:
    return TransactionRecord(
        slot=slot,
        position=position,
        signature=signature(slot * 1_000 + position),
        raw=bytes(v0(GIVE)),
        keys=(str(PAYER.pubkey()), f"address-{position % 3}"),
        meta=replace(META, err=err),
        compute_unit_price=0,
        write_locked=(),
    )


def sealed(slot: int, transactions: int = 0, accounts: tuple[tuple[Pubkey, Account | None], ...] = ()) -> SealedSlot:
    block_hash = [str(Hash.from_bytes(number.to_bytes(32, "little"))) for number in (slot, slot - 1)]
    records = tuple(record(slot, position) for position in range(transactions))
    return SealedSlot(Block(slot, slot - 1, slot - 10, *block_hash, 1_700_000_000 + slot, records), accounts, slot)


def rows(folder: Path, table: str) -> int:
    with sqlite3.connect(folder / FILE_NAME) as db:
        return int(db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])


def test_a_new_folder_holds_no_chain(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 400)
    assert journal.restore() is None
    journal.close()


def test_a_restored_chain_equals_the_flushed_slots(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 400)
    journal.begin(9, SALT)
    largest = Account(2**64 - 1, b"\x00\xff", KEY, True, 2**64 - 1)
    other = Pubkey.from_bytes(b"\x02" * 32)
    journal.flush(sealed(20, 3, ((KEY, largest), (other, largest))))
    journal.flush(sealed(21, 0, ((other, None),)))
    journal.close()
    journal = Journal(tmp_path, 400)
    past = journal.restore()
    journal.close()
    assert past is not None
    assert (past.seed, past.salt) == (9, SALT) and past.transaction_count == 21
    assert (past.first_slot, past.last_block.slot) == (20, 21)
    ((pubkey, account),) = past.accounts
    assert pubkey == KEY and (account.lamports, account.data, account.owner) == (2**64 - 1, b"\x00\xff", KEY)
    assert (account.executable, account.rent_epoch) == (True, 2**64 - 1)
    assert [entry.slot for entry in past.blockhashes] == [20, 21]
    assert [slot for slot, _ in past.slot_hashes] == [21, 20]
    assert [(slot, len(landed)) for slot, landed in past.statuses] == [(20, 3), (21, 0)]


def test_a_slot_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A flush that fails in the middle changes nothing."""
    journal = Journal(tmp_path, 400)
    journal.begin(9, SALT)
    journal.flush(sealed(20, 2))
    broken = sealed(21, 2)
    duplicate = replace(record(21, 1), position=0)
    bad = SealedSlot(_with(broken.block, (record(21, 0), duplicate)), (), 21)
    with pytest.raises(sqlite3.IntegrityError):
        journal.flush(bad)
    assert rows(tmp_path, "blocks") == 1 and rows(tmp_path, "transactions") == 2
    journal.flush(broken)
    journal.close()


def _with(block: Block, records: tuple[TransactionRecord, ...]) -> Block:
    return replace(block, transactions=records)


def test_retention_drops_old_slots_everywhere(tmp_path: Path) -> None:
    """Blocks, transactions and address rows of old slots are deleted together, so the tables do not grow."""
    journal = Journal(tmp_path, 3)
    journal.begin(9, SALT)
    for slot in range(20, 30):
        journal.flush(sealed(slot, 250))
        assert rows(tmp_path, "blocks") <= 3
    assert rows(tmp_path, "transactions") == 750
    assert rows(tmp_path, "address_transactions") == 1_500
    journal.prune(29)
    assert rows(tmp_path, "blocks") == 1 and rows(tmp_path, "address_transactions") == 500
    journal.close()


def test_errors_of_transactions_are_restored(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 400)
    journal.begin(9, SALT)
    failed = record(20, 0, {"InstructionError": [0, {"Custom": 1}]})
    journal.flush(SealedSlot(_with(sealed(20).block, (failed,)), (), 1))
    past = journal.restore()
    journal.close()
    assert past is not None
    ((_, ((_, err),)),) = past.statuses
    assert err == {"InstructionError": [0, {"Custom": 1}]}


def test_a_chain_that_died_before_its_first_slot_begins_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 400)
    journal.begin(9, SALT)
    assert journal.restore() is None
    journal.begin(9, b"\x01" * 32)
    journal.close()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"something else entirely, long enough to be no database" * 100)
    with pytest.raises(JournalError, match="--reset"):
        Journal(tmp_path, 400)


def test_another_layout_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 400)
    journal.begin(9, SALT)
    journal.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute("UPDATE chain SET value = ? WHERE name = 'layout'", (str(LAYOUT + 1),))
    with pytest.raises(JournalError, match="another version"):
        Journal(tmp_path, 400)


def test_row_ids_keep_the_order_of_the_chain() -> None:
    assert row_id(5, 9) < row_id(5, 10) < row_id(6, 0)
    assert slot_and_position(row_id(2**38, 77)) == (2**38, 77)


def test_cleaning_up_uses_the_primary_key(local: LocalNode) -> None:
    """A statement that scans the table would take longer with every slot that is kept."""
    db = local.journal._db
    statement = f"EXPLAIN QUERY PLAN {_DROP_ADDRESSES} (?, ?) AND id < ?"
    plan = [row[3] for row in db.execute(statement, ("a", "b", 1))]
    assert plan == ["SEARCH address_transactions USING PRIMARY KEY (address=? AND id<?)"]


def test_pruning_keeps_newer_transactions_of_an_address(local: LocalNode) -> None:
    """An address with transactions on both sides of the limit loses only the older ones."""
    payer, to = local.wallet(), Pubkey.new_unique()
    slots = []
    for lamports in (2_000_000, 3_000_000, 4_000_000):
        slots.append(local.land(local.transfer(payer, to, lamports)).slot)
        local.beat()
    local.journal.prune(slots[1])
    kept = local.archive.address_entries(str(to), slots[-1], None, None, 10)
    assert [entry.slot for entry in kept] == [slots[2], slots[1]]
    count = local.journal._db.execute("SELECT COUNT(*) FROM address_transactions WHERE id < ?", (slots[1] << 24,))
    assert count.fetchone() == (0,)
