"""Updates of blocks, block metas and entries.

Implements: their messages, as in geyser.proto; the selected parts of a block (BlockShape). Subscribers with equal
shapes share one encoding. Entries are invented: one for each transaction, because transactions run one by one here,
and a last one without transactions whose hash is the blockhash, as on the real chain. The other hashes are a hash
chain over the signatures, which starts with the parent's blockhash: a block always has the same entries, but there is
no proof of history.
Not here: reading shapes (update_filters.py), matching (filters.py), when updates are sent (hub.py).
"""

import hashlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from solders.hash import Hash
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2, solana_storage_pb2
from actors.units import UnixMillis
from devnode.geyser.cuckoo import Cuckoo
from devnode.geyser.messages import AccountUpdate, Slices, TransactionUpdate, Update
from devnode.records.records import Block, Reward

HASHES_PER_ENTRY = 1


@dataclass(frozen=True, slots=True)
class Entry:
    index: int
    hash: bytes
    transaction_count: int
    first_transaction: int  # Position in the block of its first transaction; without one, of the next transaction.


def entry_count(block: Block) -> int:
    return len(block.transactions) + 1


def entries_of(block: Block) -> tuple[Entry, ...]:
    digest = bytes(Hash.from_string(block.previous_blockhash))
    found = []
    for index, record in enumerate(block.transactions):
        digest = hashlib.sha256(digest + record.signature.encode()).digest()
        found.append(Entry(index, digest, 1, index))
    count = len(block.transactions)
    return (*found, Entry(count, bytes(Hash.from_string(block.blockhash)), 0, count))


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The parts of a block to send. Keys limit its transactions and accounts; the block itself is always sent."""

    has_transactions: bool
    has_accounts: bool
    has_entries: bool
    keys: frozenset[Pubkey]  # Without keys and cuckoo filter: all.
    cuckoo: Cuckoo | None
    slices: Slices

    def transactions_of(self, update: "BlockUpdate") -> Iterator[TransactionUpdate]:
        if self.has_transactions:
            texts = {str(key) for key in self.keys}
            for transaction in update.transactions:
                keys = transaction.record.keys
                if self._shows_all or not texts.isdisjoint(keys) or self._compressed_has(map(Pubkey.from_string, keys)):
                    yield transaction

    def accounts_of(self, update: "BlockUpdate") -> Iterator[AccountUpdate]:
        if self.has_accounts:
            for account in update.accounts:
                if self._shows_all or account.pubkey in self.keys or self._compressed_has(iter((account.pubkey,))):
                    yield account

    @property
    def _shows_all(self) -> bool:
        return not self.keys and self.cuckoo is None

    def _compressed_has(self, keys: Iterator[Pubkey]) -> bool:
        return self.cuckoo is not None and any(bytes(key) in self.cuckoo for key in keys)


class EntryUpdate(Update):
    def __init__(self, slot: int, entry: Entry, created_ms: UnixMillis) -> None:
        super().__init__(slot, created_ms)
        self.entry = entry

    def message(self) -> geyser_pb2.SubscribeUpdateEntry:
        entry = self.entry
        return geyser_pb2.SubscribeUpdateEntry(
            slot=self.slot,
            index=entry.index,
            num_hashes=HASHES_PER_ENTRY,
            hash=entry.hash,
            executed_transaction_count=entry.transaction_count,
            starting_transaction_index=entry.first_transaction,
        )

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        return geyser_pb2.SubscribeUpdate(entry=self.message())


class BlockUpdate(Update):
    """A sealed block with its transactions and accounts. accounts: the last write of each account."""

    def __init__(
        self,
        block: Block,
        transactions: tuple[TransactionUpdate, ...],
        accounts: tuple[AccountUpdate, ...],
        created_ms: UnixMillis,
    ) -> None:
        super().__init__(block.slot, created_ms)
        self.block, self.transactions, self.accounts = block, transactions, accounts

    @cached_property
    def entries(self) -> tuple[EntryUpdate, ...]:
        return tuple(EntryUpdate(self.slot, entry, self.created_ms) for entry in entries_of(self.block))

    def _message(self, shape: "BlockShape") -> geyser_pb2.SubscribeUpdateBlock:
        """Build the message. The counts are those of the whole block, also when only a part is sent."""
        return geyser_pb2.SubscribeUpdateBlock(
            **_header_fields(self.block),
            transactions=[update.info() for update in shape.transactions_of(self)],
            updated_account_count=len(self.accounts),
            accounts=[update.info(shape.slices) for update in shape.accounts_of(self)],
            entries=[update.message() for update in self.entries] if shape.has_entries else (),
        )

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        assert isinstance(shape, BlockShape), shape
        return geyser_pb2.SubscribeUpdate(block=self._message(shape))


class BlockMetaUpdate(Update):
    def __init__(self, block: Block, created_ms: UnixMillis) -> None:
        super().__init__(block.slot, created_ms)
        self.block = block

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        meta = geyser_pb2.SubscribeUpdateBlockMeta(**_header_fields(self.block))
        return geyser_pb2.SubscribeUpdate(block_meta=meta)


def _reward(reward: Reward) -> solana_storage_pb2.Reward:
    return solana_storage_pb2.Reward(
        pubkey=reward.pubkey,
        lamports=min(reward.lamports, 2**63 - 1),  # The message has 63 bits for it.
        post_balance=reward.post_lamports,
        reward_type=solana_storage_pb2.RewardType.Fee,
    )


def _header_fields(block: Block) -> dict[str, Any]:
    """The fields that messages of blocks and of block metas have in common."""
    return {
        "slot": block.slot,
        "blockhash": block.blockhash,
        "rewards": solana_storage_pb2.Rewards(rewards=() if block.reward is None else (_reward(block.reward),)),
        "block_time": solana_storage_pb2.UnixTimestamp(timestamp=block.unix_time),
        "block_height": solana_storage_pb2.BlockHeight(block_height=block.height),
        "parent_slot": block.parent_slot,
        "parent_blockhash": block.previous_blockhash,
        "executed_transaction_count": len(block.transactions),
        "entries_count": entry_count(block),
    }
