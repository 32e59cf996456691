"""Carries out the commands that read receipts, the keys of statements, and bills.

Implements: decisions, "Signed roots". A shell; receipts/statements.py has the trees, which are hashed in a thread where
they are large. Not here: making statements (sealing.py), checking receipts, which is the customer's
(`ledger_gateway/receipts.py`, and the script in the README).
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from actors.accounts import ledger
from actors.accounts.api import OwnerReply, refused
from actors.accounts.bills import ReadBill
from actors.accounts.ledger import Entry
from actors.accounts.long_reads import LongReads
from actors.accounts.months.cuts import detached, kept_for
from actors.accounts.receipts import (
    CHAIN_MAX,
    RECEIPTS_MAX,
    AcceptLedgerKey,
    ReadChain,
    ReadLedgerKeys,
    ReadReceipts,
    Receipt,
    RotateLedgerKey,
    ShowLedgerKeys,
)
from actors.accounts.sealing import Sealing
from actors.accounts.seals_store import FOUND_MAX, ChainedEntry, FoundLeaf, Sealed
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable
from actors.errors import Err, Refusal
from actors.receipts.root_keys import published
from actors.receipts.statements import AccountLeaf, AccountPaths, SignedStatement, find_leaf, unpack

logger = logging.getLogger(__name__)

READS_MAX = 2  # Concurrent reads of one account's receipts at its owner.
# Time ranges after an entry in which its statement is searched: a minute, an hour, a day, ever.
_WINDOWS_MS = (60_000, 3_600_000, 86_400_000, 10**15)
# A second rotation of a key that was changed already only makes one more key.
_IN_DOUBT = (
    "{}. The change may have been made: see `ledger-key show`, and repeat it where the key of before still signs"
)
_RECEIPTS, _BILLS = "readings of receipts", "bills"
ProofCommand = ReadReceipts | ReadChain | ReadBill
KeyCommand = ReadLedgerKeys | ShowLedgerKeys | RotateLedgerKey | AcceptLedgerKey


class _Opened(msgspec.Struct):
    """A statement as one account reads it. hashes: after its entries there, by number, and after the preceding one."""

    statement: SignedStatement
    leaf: AccountLeaf
    paths: AccountPaths
    hashes: dict[int, bytes]


class ReceiptCommands:
    """sealing: makes statements; None: no statements are made."""

    def __init__(self, store: AccountStore, long_reads: LongReads, sealing: Sealing | None = None) -> None:
        self._sealing = sealing
        self._entries, self._bills, self._store, self._long_reads = store.entries, store.bills, store.seals, long_reads
        self._cuts = store.cuts

    async def answer(self, command: ProofCommand | KeyCommand) -> OwnerReply[Any]:
        """Carry out a command. Raises StoreUnavailable."""
        match command:
            case ReadReceipts(pubkey):
                return await self._read(_RECEIPTS, pubkey, functools.partial(self._receipts, command))
            case ReadChain(pubkey):
                return await self._read(_RECEIPTS, pubkey, functools.partial(self._chain, command))
            case ReadBill(pubkey):
                return await self._read(_BILLS, pubkey, functools.partial(self._bills.read, command))
        return await self._keys(command)

    async def _keys(self, command: KeyCommand) -> OwnerReply[dict[str, object]]:
        """Which keys are this service's only an owner knows that signs with one."""
        if self._sealing is None:
            return refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "no statements are signed here")
        keys = self._sealing.keys
        try:
            if isinstance(command, RotateLedgerKey):
                await keys.rotate()
            if isinstance(command, AcceptLedgerKey) and not await keys.accept(command.id):
                return refused(Err.INVALID_REQUEST, "the database has no ledger key of this id")
        except StoreUnavailable as error:
            logger.warning("%s: %s", type(command).__name__, error)
            return refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE, _IN_DOUBT.format(str(error).rstrip(": ")))
        proven = await keys.read()
        told = published(proven.keys)
        if isinstance(command, ShowLedgerKeys):
            told["unproven"] = published(proven.unproven)["keys"]
        return OwnerReply(told)

    async def _read(self, kind: str, pubkey: bytes, work: Callable[[], Awaitable[Any]]) -> OwnerReply[Any]:
        found = await self._long_reads.read(kind, READS_MAX, pubkey, work)
        return refused(found.err, found.detail) if isinstance(found, Refusal) else OwnerReply(found)

    async def _receipts(self, command: ReadReceipts) -> tuple[Receipt, ...] | Refusal:
        limit = min(command.limit, RECEIPTS_MAX)
        entries = await self._entries(command.pubkey, 0, limit, False, command.filter)
        kept = await kept_for(self._cuts, command.pubkey, command.filter, not entries)
        if isinstance(kept, Refusal):
            return kept
        found = await self.of(command.pubkey, entries)
        if self._sealing is not None and any(receipt.statement is None for receipt in found):
            self._sealing.urge(command.pubkey)
        return tuple(found)

    async def of(self, pubkey: bytes, entries: Sequence[Entry]) -> list[Receipt]:
        """Return the receipts of these entries, in order; adjacent entries share reads. Raises StoreUnavailable."""
        made: list[Receipt] = []
        opened: _Opened | None = None
        for entry in entries:
            if opened is None or not opened.leaf.first <= entry.seq <= opened.leaf.last:
                opened = await self._open(pubkey, entry)
            made.append(await self._receipt(pubkey, entry, opened))
        return made

    async def _chain(self, command: ReadChain) -> tuple[Receipt, ...] | Refusal:
        """Return entries only: each one's hash follows from the one before."""
        at_ms, seq = command.after
        carried = await self._cuts.carried(command.pubkey)
        if carried is not None and seq < carried.entry.seq:
            return detached(await self._cuts.kept_from_ms())
        found = await self._store.following(Sealed(command.pubkey, seq, at_ms), min(command.limit, CHAIN_MAX))
        return tuple(Receipt(one.entry, b"") for one in found)

    async def _receipt(self, pubkey: bytes, entry: Entry, opened: _Opened | None) -> Receipt:
        if opened is None:
            chained = await self._store.before(pubkey, entry.at_ms, entry.seq, 2)
            if len(chained) > 1:
                return Receipt(entry, chained[1].hash)
            carried = await self._cuts.carried(pubkey)
            return Receipt(entry, ledger.genesis(pubkey) if carried is None else carried.hash)
        before = opened.hashes[entry.seq - 1] if entry.seq > 1 else ledger.genesis(pubkey)
        return Receipt(entry, before, opened.paths.of(entry.seq), opened.statement)

    async def _open(self, pubkey: bytes, entry: Entry) -> _Opened | None:
        found = await self._find(pubkey, entry)
        if found is None:
            return None
        statement = await self._store.statement(found.series, found.number)
        placed = find_leaf(statement.leaves, pubkey)
        assert placed is not None, found
        index, leaf = placed
        up_to = await self._store.before(pubkey, entry.at_ms, entry.seq, entry.seq - leaf.first + 2)
        later: list[ChainedEntry] = []
        if entry.seq < leaf.last:
            later = await self._store.following(Sealed(pubkey, entry.seq, entry.at_ms), leaf.last - entry.seq)
        hashes = {one.entry.seq: one.hash for one in (*up_to, *later)}
        if max(leaf.first - 1, 1) not in hashes and (carried := await self._cuts.carried(pubkey)) is not None:
            hashes |= carried.hashes()
        if not hashes.keys() >= set(range(leaf.first, leaf.last + 1)):
            raise StoreUnavailable(f"entries beside {entry.seq} left the ledger while it was read")
        in_leaf = [hashes[number] for number in range(leaf.first, leaf.last + 1)]
        paths = await asyncio.to_thread(AccountPaths, statement.leaves, index, leaf, in_leaf)
        return _Opened(statement, leaf, paths, hashes)

    async def _find(self, pubkey: bytes, entry: Entry) -> FoundLeaf | None:
        """Return the account's leaf with this entry.

        Nearly always it is in a statement of the seconds after the entry, so a short range is searched first, and
        longer ones only if the entry is known to be in a statement."""
        if (await self._store.sealed(pubkey)).seq < entry.seq:
            return None
        after = (entry.at_ms, -1, -1)  # No statement is earlier than its entries (sealing.py).
        for window_ms in _WINDOWS_MS:
            while True:
                found = await self._store.find(pubkey, after, entry.at_ms + window_ms)
                for one in found:
                    (leaf,) = unpack(one.leaf)
                    if leaf.first <= entry.seq <= leaf.last:
                        return one
                if len(found) < FOUND_MAX:
                    break
                after = found[-1][:3]
            after = max(after, (entry.at_ms + window_ms, -1, -1))
        raise AssertionError(f"entry {entry.seq} of {pubkey.hex()} is marked as signed, and no statement has it")
