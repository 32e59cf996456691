"""Receipts: proofs that lead from a ledger entry to a signed statement of this service; and the commands that read
them.

Implements: decisions, "Signed roots". Pure. Not here: reading them (receipt_commands.py), their JSON and parameters
(gateway/pages/receipts.py).
"""

import msgspec

from actors.accounts.api import Command, OfAccount
from actors.accounts.ledger import Entry
from actors.accounts.listings import LedgerFilter
from actors.receipts.statements import EntryPath, SignedStatement

RECEIPTS_MAX, CHAIN_MAX = 100, 1_000


class Receipt(msgspec.Struct, frozen=True):
    """before: hash before the entry. path, statement: None while the entry is in no statement."""

    entry: Entry
    before: bytes
    path: EntryPath | None = None
    statement: SignedStatement | None = None


class ReadReceipts(OfAccount[tuple[Receipt, ...]], frozen=True):
    """GET /account/receipts, newest first; at most RECEIPTS_MAX."""

    filter: LedgerFilter
    limit: int


class ReadChain(OfAccount[tuple[Receipt, ...]], frozen=True):
    """GET /account/consistency: the entries that follow the one of this time and number, oldest first; at most
    CHAIN_MAX. They have no `before`, path or statement."""

    after: tuple[int, int]
    limit: int


class RotateLedgerKey(Command[dict[str, object]], frozen=True):
    """Operator: sign statements with a new key from now on. Value: as ReadLedgerKeys."""


class AcceptLedgerKey(Command[dict[str, object]], frozen=True):
    """Operator: trust a key made with another cluster secret and published earlier. Value: as ReadLedgerKeys."""

    id: str


class ShowLedgerKeys(Command[dict[str, object]], frozen=True):
    """Operator: as ReadLedgerKeys, with the rows not known to be this service's in `unproven`."""


class ReadLedgerKeys(Command[dict[str, object]], frozen=True):
    """GET /.well-known/ledger-keys.json: its body."""
