"""Links of signed statements: for each account the newest one of its chain, from the files of roots.

Implements: decisions, "Signed roots"; money rule 6; threat 56. Not here: comparing with the ledger (recount.py), and
reading a file with its checks (receipts/roots_file.py).
"""

from collections.abc import Iterable
from pathlib import Path

from actors.accounts.checkpoint import CheckpointError
from actors.accounts.facts import ChainLink
from actors.receipts.roots_file import BrokenRoots, read_roots
from actors.receipts.statements import unpack

# An entry waits so long for its statement at most, while statements are made.
SIGNED_WITHIN_MS = 60_000


class SignedLinks:
    """links: of each account that is in a statement. at_ms: time of the newest statement; 0: there is none."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """paths: files of roots, or folders of them; those of all machines. Raises CheckpointError."""
        self.links: dict[bytes, ChainLink] = {}
        self.statements = self.at_ms = 0
        try:
            for path in paths:
                files = sorted(path.glob("roots-*.jsonl")) if path.is_dir() else [path]
                if not files:
                    raise CheckpointError(f"{path} has no file of roots; name their folder, or the files")
                for file in files:
                    self._read(file)
        except (OSError, BrokenRoots) as error:
            raise CheckpointError(f"{error}; keep the file as it is, and give one that nobody has changed") from None

    def of(self, pubkey: bytes) -> ChainLink:
        """Its newest signed link, with the number 0 where it has none."""
        return self.links.get(pubkey, ChainLink(0, b""))

    @property
    def signed_before_ms(self) -> int:
        """Every entry that is older stands in a statement."""
        return self.at_ms - SIGNED_WITHIN_MS

    def _read(self, file: Path) -> None:
        for written in read_roots(file):
            self.statements += 1
            self.at_ms = max(self.at_ms, written.statement.at_ms)
            for leaf in unpack(written.signed.leaves):
                if leaf.last > self.of(leaf.pubkey).seq:
                    self.links[leaf.pubkey] = ChainLink(leaf.last, leaf.head)
