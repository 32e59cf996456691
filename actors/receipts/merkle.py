"""Merkle trees as Certificate Transparency has them: the root of a list, and the path from one of its items to it.

Implements: RFC 6962, section 2.1 (SHA-256; a leaf is hashed behind a zero byte, two nodes behind a one). Pure. An item,
its path and the root suffice to check the item. Not here: checking a path, which the customer's side does
(`ledger_gateway/receipts.py`).
"""

from collections.abc import Sequence
from hashlib import sha256


def leaf_hash(item: bytes) -> bytes:
    return sha256(b"\0" + item).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over these leaf hashes, of which there is at least one."""
    return levels(leaves)[-1][0]


def levels(leaves: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return the levels of the tree, from these leaf hashes up to the root alone."""
    made = [leaves]
    while len(made[-1]) > 1:
        made.append(_above(made[-1]))
    return made


def path(tree: Sequence[Sequence[bytes]], index: int) -> list[bytes]:
    """Return the sibling nodes on the path from this leaf to the root, lowest first."""
    beside: list[bytes] = []
    for level in tree[:-1]:
        other = index ^ 1
        if other < len(level):
            beside.append(level[other])
        index >>= 1
    return beside


def _above(level: Sequence[bytes]) -> list[bytes]:
    """Return the next level. A last node without a sibling moves up unchanged."""
    paired = len(level) & ~1
    above = [sha256(b"\1" + level[place] + level[place + 1]).digest() for place in range(0, paired, 2)]
    if paired < len(level):
        above.append(level[paired])
    return above
