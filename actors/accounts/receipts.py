"""Receipts: what leads from an entry of the ledger to a statement that this service signed; and how they are asked for.

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
    """before: hash before the entry. path, statement: None where the entry is in no statement yet."""

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
    CHAIN_MAX. They come without `before`, path and statement."""

    after: tuple[int, int]
    limit: int


class RotateLedgerKey(Command[dict[str, object]], frozen=True):
    """Operator: sign statements with a new key from now on. Value: as ReadLedgerKeys."""


class AcceptLedgerKey(Command[dict[str, object]], frozen=True):
    """Operator: believe a key of another cluster secret, which was published before. Value: as ReadLedgerKeys."""

    id: str


class ShowLedgerKeys(Command[dict[str, object]], frozen=True):
    """Operator: as ReadLedgerKeys, and in `unproven` the rows that are not known to be this service's."""


class ReadLedgerKeys(Command[dict[str, object]], frozen=True):
    """GET /.well-known/ledger-keys.json: its body."""
