"""Messages of blocks: whole, in part, block metas, and the invented entries."""

import pytest
from solders.hash import Hash

from actors.geyser_proto import geyser_pb2
from devnode.geyser.block_messages import BlockMetaUpdate, BlockShape, BlockUpdate, entries_of, entry_count

from .samples import CREATED_MS, KEYS, SLOT, account_update, block, record, transaction_update


def test_one_entry_for_each_transaction_and_a_last_one() -> None:
    """Every transaction is in exactly one entry; the hash of the last entry is the blockhash, as on the real chain."""
    made = block((record(position=0), record(position=1)))
    entries = entries_of(made)
    assert len(entries) == entry_count(made) == 3
    assert [(e.index, e.transaction_count, e.first_transaction) for e in entries] == [(0, 1, 0), (1, 1, 1), (2, 0, 2)]
    assert entries[-1].hash == bytes(Hash.from_string(made.blockhash))


def test_the_same_block_has_the_same_entries() -> None:
    """A replay must have the same entries as the live stream; as on the real chain no block is without entries."""
    made = block((record(position=0),))
    assert entries_of(made) == entries_of(made)
    assert len({entry.hash for entry in entries_of(made)}) == 2
    (only,) = entries_of(block())
    assert (only.index, only.transaction_count, only.first_transaction) == (0, 0, 0)


TRANSACTIONS = (transaction_update((KEYS[1],), position=0), transaction_update((KEYS[2],), position=1))
ACCOUNTS = (account_update(KEYS[1], data=b"abc"), account_update(KEYS[2]), account_update(KEYS[3]))


def update() -> BlockUpdate:
    return BlockUpdate(block(tuple(one.record for one in TRANSACTIONS)), TRANSACTIONS, ACCOUNTS, CREATED_MS)


def sent(shape: BlockShape) -> geyser_pb2.SubscribeUpdateBlock:
    return geyser_pb2.SubscribeUpdate.FromString(update().payload(shape)).block


def shape(*parts: str, keys: tuple = (), slices: tuple = ()) -> BlockShape:
    return BlockShape("transactions" in parts, "accounts" in parts, "entries" in parts, frozenset(keys), None, slices)


@pytest.mark.parametrize("part", ["transactions", "accounts", "entries"])
def test_a_block_has_only_the_requested_parts(part: str) -> None:
    """The counts are still those of the whole block."""
    found = sent(shape(part))
    assert {name for name in ("transactions", "accounts", "entries") if len(getattr(found, name))} == {part}
    counts = (found.executed_transaction_count, found.updated_account_count, found.entries_count)
    assert counts == (2, 3, 3)


def test_keys_limit_transactions_and_accounts() -> None:
    """A block shows the transactions that use one of the keys, and the accounts of the keys."""
    found = sent(shape("transactions", "accounts", keys=(KEYS[2],)))
    assert [one.index for one in found.transactions] == [1]
    assert [one.pubkey for one in found.accounts] == [bytes(KEYS[2])]


def test_slices_apply_to_accounts_in_blocks() -> None:
    """Accounts in blocks are sliced like account updates."""
    found = sent(shape("accounts", slices=((1, 2),)))
    assert [one.data for one in found.accounts] == [b"b", b"", b""]


def test_the_header_is_the_same_in_both_messages() -> None:
    """Block and block meta have the same header fields, with different field numbers."""
    whole = update()
    block_sent = geyser_pb2.SubscribeUpdate.FromString(whole.payload(shape())).block
    meta = geyser_pb2.SubscribeUpdate.FromString(BlockMetaUpdate(whole.block, CREATED_MS).payload()).block_meta
    for field in (
        *("slot", "blockhash", "rewards", "block_time", "block_height", "parent_slot", "parent_blockhash"),
        *("executed_transaction_count", "entries_count"),
    ):
        assert getattr(meta, field) == getattr(block_sent, field), field
    assert (meta.slot, meta.parent_slot, meta.block_height.block_height) == (SLOT, SLOT - 2, 234)
    assert meta.block_time.timestamp == 1_700_000_000


def test_single_entries_equal_those_in_the_block() -> None:
    """Entry updates have the same contents as the entries of the block message."""
    whole = update()
    singly = [geyser_pb2.SubscribeUpdate.FromString(entry.payload()).entry for entry in whole.entries]
    assert singly == list(block_entries(whole))
    assert [one.slot for one in singly] == [SLOT] * 3


def block_entries(whole: BlockUpdate) -> list[geyser_pb2.SubscribeUpdateEntry]:
    return list(geyser_pb2.SubscribeUpdate.FromString(whole.payload(shape("entries"))).block.entries)
