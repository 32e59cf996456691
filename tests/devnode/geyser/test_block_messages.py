"""Blocks as they are told: whole, in part, their headers, their entries."""

import pytest

from actors.devnode.geyser.block_messages import BlockMetaUpdate, BlockShape, BlockUpdate
from actors.geyser_proto import geyser_pb2

from .samples import CREATED_MS, KEYS, SLOT, account_update, block, transaction_update

TRANSACTIONS = (transaction_update((KEYS[1],), position=0), transaction_update((KEYS[2],), position=1))
ACCOUNTS = (account_update(KEYS[1], data=b"abc"), account_update(KEYS[2]), account_update(KEYS[3]))


def update() -> BlockUpdate:
    return BlockUpdate(block(tuple(one.record for one in TRANSACTIONS)), TRANSACTIONS, ACCOUNTS, CREATED_MS)


def told(shape: BlockShape) -> geyser_pb2.SubscribeUpdateBlock:
    return geyser_pb2.SubscribeUpdate.FromString(update().payload(shape)).block


def shape(*parts: str, keys: tuple = (), slices: tuple = ()) -> BlockShape:
    return BlockShape("transactions" in parts, "accounts" in parts, "entries" in parts, frozenset(keys), None, slices)


@pytest.mark.parametrize("part", ["transactions", "accounts", "entries"])
def test_each_part_is_there_only_where_asked_for(part: str) -> None:
    """And the counts are those of the whole block all the same."""
    found = told(shape(part))
    assert {name for name in ("transactions", "accounts", "entries") if len(getattr(found, name))} == {part}
    counts = (found.executed_transaction_count, found.updated_account_count, found.entries_count)
    assert counts == (2, 3, 3)


def test_keys_trim_what_is_shown() -> None:
    """Transactions that touch one of them, and those accounts themselves."""
    found = told(shape("transactions", "accounts", keys=(KEYS[2],)))
    assert [one.index for one in found.transactions] == [1]
    assert [one.pubkey for one in found.accounts] == [bytes(KEYS[2])]


def test_slices_apply_to_accounts_in_blocks() -> None:
    """As to account updates."""
    found = told(shape("accounts", slices=((1, 2),)))
    assert [one.data for one in found.accounts] == [b"b", b"", b""]


def test_the_header_is_the_same_in_both_messages() -> None:
    """Their field numbers differ, what they say does not."""
    whole = update()
    block_told = geyser_pb2.SubscribeUpdate.FromString(whole.payload(shape())).block
    meta = geyser_pb2.SubscribeUpdate.FromString(BlockMetaUpdate(whole.block, CREATED_MS).payload()).block_meta
    for field in (
        *("slot", "blockhash", "rewards", "block_time", "block_height", "parent_slot", "parent_blockhash"),
        *("executed_transaction_count", "entries_count"),
    ):
        assert getattr(meta, field) == getattr(block_told, field), field
    assert (meta.slot, meta.parent_slot, meta.block_height.block_height) == (SLOT, SLOT - 2, 234)
    assert meta.block_time.timestamp == 1_700_000_000


def test_entries_are_told_singly_too() -> None:
    """The same ones that stand in the block."""
    whole = update()
    singly = [geyser_pb2.SubscribeUpdate.FromString(entry.payload()).entry for entry in whole.entries]
    assert singly == list(told_entries(whole))
    assert [one.slot for one in singly] == [SLOT] * 3


def told_entries(whole: BlockUpdate) -> list[geyser_pb2.SubscribeUpdateEntry]:
    return list(geyser_pb2.SubscribeUpdate.FromString(whole.payload(shape("entries"))).block.entries)
