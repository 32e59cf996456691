"""The entries of a block, made up in a fixed way.

Implements: one entry for each transaction, as they run singly here, and a closing one without transactions whose hash
is the blockhash, as on the chain the last tick's is. The hashes in between are a plain chain over the signatures from
the parent's blockhash on: the same block always has the same entries, but nobody did proof of history for them.
Pure. Not here: how they are sent (messages.py).
"""

import hashlib
from dataclasses import dataclass

from solders.hash import Hash

from actors.devnode.chain.records import Block

HASHES_PER_ENTRY = 1


@dataclass(frozen=True, slots=True)
class Entry:
    index: int
    hash: bytes
    transaction_count: int
    first_transaction: int  # Place in the block of its first transaction, or of the one that would come next.


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
