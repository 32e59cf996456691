"""The signed statements of an exported month, account by account: each entry must be in one of them.

Implements: decisions, "Detached months"; decisions, "Signed roots". A shell over temporary files: the leaves of all
statements are sorted into 256 files by the first byte of their accounts, and one of these is in memory at a time,
because entries come in the order of their accounts.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from actors.accounts.facts import ChainLink
from actors.accounts.months.carried import Carried
from actors.receipts import merkle
from actors.receipts.checks import Unproven, checked
from actors.receipts.root_keys import ProvenKey
from actors.receipts.statements import LEAF_BYTES, AccountLeaf, SignedStatement, unpack

_BUFFERED = 1 << 16  # Buffered bytes of one file.


class SignedLeaves:
    """The leaves of many verified statements."""

    def __init__(self, rows: Iterable[list[tuple[Any, ...]]], keys: Mapping[str, ProvenKey]) -> None:
        """rows: statements as in their file. keys: trusted keys. `faults` lists failed checks."""
        self.faults: list[str] = []
        self.statements = 0
        self._folder = tempfile.TemporaryDirectory(prefix="ledger-leaves-")
        self._waiting: dict[int, bytearray] = {}
        self._loaded, self._leaves = -1, dict[bytes, bytearray]()
        for group in rows:
            for text, key_id, signature, leaves in group:
                self._add(SignedStatement(text, key_id, signature, leaves), keys)
        for number in list(self._waiting):
            self._write(number)

    def close(self) -> None:
        self._folder.cleanup()

    def of(self, pubkey: bytes) -> list[AccountLeaf]:
        """Return the leaves of an account in the order of their entries. Fast when called in the order of accounts."""
        if self._loaded != pubkey[0]:
            self._loaded, self._leaves = pubkey[0], {}
            path = self._path(pubkey[0])
            data = path.read_bytes() if path.exists() else b""
            for start in range(0, len(data), LEAF_BYTES):
                self._leaves.setdefault(data[start : start + 32], bytearray()).extend(data[start : start + LEAF_BYTES])
        return sorted(unpack(bytes(self._leaves.get(pubkey, b""))), key=lambda leaf: leaf.first)

    def _add(self, signed: SignedStatement, keys: Mapping[str, ProvenKey]) -> None:
        self.statements += 1
        try:
            checked(signed, keys)
        except Unproven as error:
            self.faults.append(str(error))
            return
        for start in range(0, len(signed.leaves), LEAF_BYTES):
            number = signed.leaves[start]
            waiting = self._waiting.setdefault(number, bytearray())
            waiting += signed.leaves[start : start + LEAF_BYTES]
            if len(waiting) >= _BUFFERED:
                self._write(number)

    def _write(self, number: int) -> None:
        with self._path(number).open("ab") as file:
            file.write(self._waiting.pop(number))

    def _path(self, number: int) -> Path:
        return Path(self._folder.name) / f"{number:02x}"


class LeafWalk:
    """Checks one account's entries of a month against its leaves."""

    def __init__(self, leaves: list[AccountLeaf], opening: Carried | None = None) -> None:
        """opening: what the account carried to the first of these entries, where known."""
        carried = 0 if opening is None else opening.entry.seq
        self._leaves, self._place = [leaf for leaf in leaves if leaf.last > carried], 0
        self._hashes: list[bytes] = []  # Hashes after the entries of the present leaf, without gaps, up to the newest.
        if opening is not None and self._leaves:
            known, first = opening.hashes(), self._leaves[0].first
            self._hashes = [known[number] for number in sorted(known) if number >= first]

    def feed(self, seq: int, hash_: bytes) -> str | None:
        """Check the next entry; return a sentence on a fault, or None."""
        while self._place < len(self._leaves) and self._leaves[self._place].last < seq:
            self._place += 1
            self._hashes = []
        leaf = self._leaves[self._place] if self._place < len(self._leaves) else None
        if leaf is None or not leaf.first <= seq <= leaf.last:
            return f"entry {seq} is in no signed statement of the export"
        self._hashes.append(hash_)
        if seq < leaf.last:
            return None
        if leaf.head != hash_:
            return f"entry {seq} has another hash than in its signed statement: the chain was written anew"
        is_whole = len(self._hashes) == leaf.last - leaf.first + 1
        if is_whole and merkle.root(list(map(merkle.leaf_hash, self._hashes))) != leaf.entries_root:
            return f"the entries {leaf.first} to {seq} are not those of their signed statement"
        return None

    def tail(self, seq: int) -> bytes:
        """Return the earlier hashes in the leaf of this newest entry, if later entries share the leaf."""
        if self._place >= len(self._leaves) or self._leaves[self._place].last <= seq:
            return b""
        first = self._leaves[self._place].first
        return b"".join(self._hashes[:-1]) if len(self._hashes) == seq - first + 1 else b""


def links_of(leaves: list[AccountLeaf]) -> list[ChainLink]:
    return [ChainLink(leaf.last, leaf.head) for leaf in leaves]
