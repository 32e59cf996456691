"""Invented entries of a block.

Implements: one entry for each transaction, because transactions run one by one here, and a last entry without
transactions whose hash is the blockhash, as on the real chain. The other hashes are a hash chain over the signatures,
which starts with the parent's blockhash: a block always has the same entries, but there is no proof of history.
Pure. Not here: how they are sent (block_messages.py).
"""

import hashlib
from dataclasses import dataclass

from solders.hash import Hash

from devnode.records.records import Block

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
