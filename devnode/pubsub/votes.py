"""Invented votes: this node's vote account votes once for each sealed block.

Implements: the content of vote notifications as Agave sends them. No vote transaction exists: the signature is made
by the identity over slot and hash, and never lands; the hash is the blockhash, because there are no bank hashes.
Pure. Not here: when it is sent (feed.py).
"""

from typing import Any

from devnode.chain.genesis import ChainKeys
from devnode.records.records import Block


def vote_of(keys: ChainKeys, block: Block) -> dict[str, Any]:
    signed = keys.identity.sign_message(f"vote {block.slot} {block.blockhash}".encode())
    return {
        "votePubkey": str(keys.vote.pubkey()),
        "slots": [block.slot],
        "hash": block.blockhash,
        "timestamp": block.unix_time,
        "signature": str(signed),
    }
