"""Votes, which this node makes up: one for each complete block, by its own vote account.

Implements: the content of vote notifications as Agave sends them. No vote transaction exists behind one: its
signature is the identity's, over slot and hash, and never lands; its hash is the blockhash, since there are no bank
hashes. Pure. Not here: when it is told (feed.py).
"""

from typing import Any

from actors.devnode.chain.genesis import ChainKeys
from actors.devnode.chain.records import Block


def vote_of(keys: ChainKeys, block: Block) -> dict[str, Any]:
    signed = keys.identity.sign_message(f"vote {block.slot} {block.blockhash}".encode())
    return {
        "votePubkey": str(keys.vote.pubkey()),
        "slots": [block.slot],
        "hash": block.blockhash,
        "timestamp": block.unix_time,
        "signature": str(signed),
    }
