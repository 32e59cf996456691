"""A statement: what the ledger had at one moment, as one signed text that names one root.

Implements: decisions, "Signed roots". Pure. Each owner of accounts makes its own series of statements; each one
names the hash of the one before it. A statement's root is over its accounts, in the order of their public keys. An
account's leaf has the entries that are new since its last statement, as a root over the hashes after each of them, and
the hash after the newest, which covers everything that the account ever had.

The text is signed as it stands, so that nothing has to be encoded again to check it.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from actors.receipts import merkle

_LEAF = struct.Struct(">32sQQ32s32s")
LEAF_BYTES = _LEAF.size
NO_STATEMENT = bytes(32)  # The hash before the first statement of a series.
_TEXT = re.compile(
    r"ledger-gateway statement 1\nseries (\d{1,9})\nnumber (\d{1,18})\nat_ms (\d{1,15})\nprevious ([0-9a-f]{64})\n"
    r"accounts (\d{1,9})\nentries (\d{1,9})\nroot ([0-9a-f]{64})\n",
    re.ASCII,
)


class AccountLeaf(NamedTuple):
    """Entries `first` to `last` of one account. head: hash after the last one. entries_root: over the hashes after
    each."""

    pubkey: bytes
    first: int
    last: int
    head: bytes
    entries_root: bytes

    def packed(self) -> bytes:
        return _LEAF.pack(*self)


class Statement(NamedTuple):
    """at_ms: of the ledger's time. previous: hash of the series' statement before. entries: of all its accounts."""

    series: int
    number: int  # From 1, without gaps.
    at_ms: int
    previous: bytes
    accounts: int
    entries: int
    root: bytes

    def text(self) -> str:
        return (
            f"ledger-gateway statement 1\nseries {self.series}\nnumber {self.number}\nat_ms {self.at_ms}\n"
            f"previous {self.previous.hex()}\naccounts {self.accounts}\nentries {self.entries}\n"
            f"root {self.root.hex()}\n"
        )


class SignedStatement(NamedTuple):
    """text: of a Statement. signature: Ed25519 over its bytes. leaves: all account leaves, packed, in their order."""

    text: str
    key_id: str
    signature: bytes
    leaves: bytes

    @property
    def digest(self) -> bytes:
        return sha256(self.text.encode()).digest()


class EntryPath(NamedTuple):
    """The path from the hash after one entry to the root of a statement."""

    entry_path: list[bytes]
    leaf: AccountLeaf
    account_index: int
    account_path: list[bytes]


class AccountPaths:
    """The paths of one account's entries in one statement; the trees are made once for all of them.

    index: of the leaf. hashes: after each entry of the leaf, in their order.
    """

    def __init__(self, leaves: bytes, index: int, leaf: AccountLeaf, hashes: Sequence[bytes]) -> None:
        assert len(hashes) == leaf.last - leaf.first + 1, leaf
        self._leaf, self._index = leaf, index
        self._entries = merkle.levels(list(map(merkle.leaf_hash, hashes)))
        self._account_path = merkle.path(merkle.levels(_leaf_hashes(leaves)), index)

    def of(self, number: int) -> EntryPath:
        """number: of the entry."""
        entry_path = merkle.path(self._entries, number - self._leaf.first)
        return EntryPath(entry_path, self._leaf, self._index, self._account_path)


def leaf_of(pubkey: bytes, first: int, hashes: Sequence[bytes]) -> AccountLeaf:
    """Make the leaf of an account whose entries from `first` on have these hashes."""
    entries_root = merkle.root(list(map(merkle.leaf_hash, hashes)))
    return AccountLeaf(pubkey, first, first + len(hashes) - 1, hashes[-1], entries_root)


def root_of(leaves: bytes) -> bytes:
    """Return the root over packed account leaves."""
    return merkle.root(_leaf_hashes(leaves))


def unpack(leaves: bytes) -> Iterator[AccountLeaf]:
    return map(AccountLeaf._make, _LEAF.iter_unpack(leaves))


def find_leaf(leaves: bytes, pubkey: bytes) -> tuple[int, AccountLeaf] | None:
    """Return index and leaf of this account; None: it is not in the statement."""
    for index, leaf in enumerate(unpack(leaves)):
        if leaf.pubkey == pubkey:
            return index, leaf
    return None


def parse(text: str) -> Statement | None:
    """Parse a statement; None: the text is none."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    series, number, at_ms, previous, accounts, entries, root = found.groups()
    numbers = int(series), int(number), int(at_ms)
    return Statement(*numbers, bytes.fromhex(previous), int(accounts), int(entries), bytes.fromhex(root))


def _leaf_hashes(leaves: bytes) -> list[bytes]:
    assert len(leaves) % LEAF_BYTES == 0, len(leaves)
    return [merkle.leaf_hash(leaves[start : start + LEAF_BYTES]) for start in range(0, len(leaves), LEAF_BYTES)]
