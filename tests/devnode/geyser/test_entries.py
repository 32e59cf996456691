"""The invented entries of a block."""

from solders.hash import Hash

from devnode.geyser.entries import entries_of, entry_count

from .samples import block, record


def test_one_entry_for_each_transaction_and_a_last_one() -> None:
    """Every transaction is in exactly one entry; the hash of the last entry is the blockhash, as on the real chain."""
    made = block((record(position=0), record(position=1)))
    entries = entries_of(made)
    assert len(entries) == entry_count(made) == 3
    assert [(e.index, e.transaction_count, e.first_transaction) for e in entries] == [(0, 1, 0), (1, 1, 1), (2, 0, 2)]
    assert entries[-1].hash == bytes(Hash.from_string(made.blockhash))


def test_the_same_block_has_the_same_entries() -> None:
    """A replay must have the same entries as the live stream."""
    made = block((record(position=0),))
    assert entries_of(made) == entries_of(made)
    assert len({entry.hash for entry in entries_of(made)}) == 2


def test_an_empty_block_has_the_last_entry() -> None:
    """On the real chain no block is without entries."""
    (only,) = entries_of(block())
    assert (only.index, only.transaction_count, only.first_transaction) == (0, 0, 0)
