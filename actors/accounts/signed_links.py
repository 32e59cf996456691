"""Reads each account's links in signed statements from the files of roots.

Implements: decisions, "Signed roots"; money rule 6; threat 56. Not here: comparing with the ledger (recount.py), and
reading a file with its checks (receipts/roots_file.py).
"""

import json
import struct
from collections.abc import Iterable
from pathlib import Path

from actors.accounts.checkpoint import CheckpointError
from actors.accounts.facts import ChainLink
from actors.receipts.root_keys import ProvenKey, read_published
from actors.receipts.roots_file import BrokenRoots, files_of, read_roots
from actors.receipts.statements import unpack

# An entry waits at most this long for its statement, while statements are made.
SIGNED_WITHIN_MS = 60_000


_LINK = struct.Struct(">Q32s")


class SignedLinks:
    """Signed links of all accounts. at_ms: time of the newest statement; 0: there is none. Takes 40 bytes of memory for
    each account in each statement: keeping only the newest leaf could hide a forged statement."""

    def __init__(self, paths: Iterable[Path], keys: Path | None = None) -> None:
        """paths: files of roots, or folders of them, of all machines. keys: the published keys, as saved; None: trust
        the keys in the files. Raises CheckpointError."""
        self._links: dict[bytes, bytearray] = {}
        self.statements = self.at_ms = 0
        pinned = None if keys is None else read_keys(keys)
        try:
            for file in files_of(paths):
                self._read(file, pinned)
        except (OSError, BrokenRoots) as error:
            raise CheckpointError(f"{error}; keep the file as it is, and give one that nobody has changed") from None

    def accounts(self) -> set[bytes]:
        return set(self._links)

    def of(self, pubkey: bytes) -> list[ChainLink]:
        """Return the account's signed links, sorted by number, each once."""
        return sorted({ChainLink(*link) for link in _LINK.iter_unpack(self._links.get(pubkey, b""))})

    @property
    def signed_before_ms(self) -> int:
        """Return the time before which every entry must be in a statement."""
        return self.at_ms - SIGNED_WITHIN_MS

    def _read(self, file: Path, pinned: dict[str, ProvenKey] | None) -> None:
        for written in read_roots(file, pinned):
            self.statements += 1
            self.at_ms = max(self.at_ms, written.statement.at_ms)
            for leaf in unpack(written.signed.leaves):
                self._links.setdefault(leaf.pubkey, bytearray()).extend(_LINK.pack(leaf.last, leaf.head))


def read_keys(path: Path) -> dict[str, ProvenKey]:
    """Read the keys of a saved `/.well-known/ledger-keys.json`. Raises CheckpointError."""
    try:
        return read_published(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"the keys in {path} cannot be read ({error}); save /.well-known/ledger-keys.json"
        ) from None
