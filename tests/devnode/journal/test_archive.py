from collections.abc import Iterator
from pathlib import Path

import pytest

from devnode.journal.archive import Archive
from devnode.journal.journal import Journal
from tests.devnode.encoding.test_wire import PAYER

from .test_journal import SALT, record, sealed, signature


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """Slots 20 to 24 with three transactions each; slot 22 is missing."""
    journal = Journal(tmp_path, 400)
    journal.begin(9, SALT)
    for slot in (20, 21, 23, 24):
        journal.flush(sealed(slot, 3))
    reader = Archive(tmp_path)
    yield reader
    reader.close()
    journal.close()


def test_a_transaction_is_found_by_its_signature(archive: Archive) -> None:
    stored = archive.transaction(signature(21_002))
    assert stored is not None and (stored.slot, stored.position) == (21, 2)
    written = record(21, 2)
    assert (stored.raw, stored.keys, stored.meta.logs) == (written.raw, written.keys, written.meta.logs)
    assert archive.status(signature(21_002)) == (21, None)
    assert archive.position(signature(21_002)) == (21, 2)


def test_an_unknown_signature_is_nowhere(archive: Archive) -> None:
    unknown = signature(99)
    assert archive.transaction(unknown) is archive.status(unknown) is archive.position(unknown) is None


def test_blocks(archive: Archive) -> None:
    """A skipped slot has no block and is in no range; the positions in a block count from 0."""
    block = archive.block(23)
    assert block is not None and (block.parent_slot, block.height) == (22, 13)
    assert archive.block(22) is None
    assert archive.first_slot() == 20
    assert archive.slots(20, 24, 10) == [20, 21, 23, 24] and archive.slots(21, 24, 2) == [21, 23]
    assert [one.position for one in archive.block_transactions(23)] == [0, 1, 2]
    assert archive.block_signatures(23) == [signature(23_000 + position) for position in range(3)]


def test_history_of_an_address_is_newest_first_and_pages(archive: Archive) -> None:
    """before and until are exclusive, and the pages together are the whole history."""
    address = str(PAYER.pubkey())
    everything = archive.address_entries(address, 24, None, None, 1_000)
    assert [(entry.slot, entry.position) for entry in everything] == [
        (slot, position) for slot in (24, 23, 21, 20) for position in (2, 1, 0)
    ]
    paged, before = [], None
    while page := archive.address_entries(address, 24, before, None, 5):
        paged += page
        before = (page[-1].slot, page[-1].position)
    assert paged == everything
    assert archive.address_entries(address, 24, None, (23, 1), 1_000) == everything[:4]
    assert archive.address_entries(address, 21, None, None, 1_000) == everything[6:]
    assert archive.address_entries(address, 21, (24, 0), None, 1_000) == everything[6:]
    assert [entry.slot for entry in archive.address_entries("address-1", 24, None, None, 9)] == [24, 23, 21, 20]
    assert archive.address_entries("nobody", 24, None, None, 9) == []
