"""Makes the updates of one slot from its whole block, for a subscription that replays it.

Implements: from_slot; Yellowstone's order within a slot: writes, transactions, entries, blocks, the block's meta. A
block has the last write of each account, as every replay of a node has. Each update has the time at which the node made
the block. Pure. Not here: which filters match (geyser_match.py), which blocks are kept (hub/geyser_window.py).
"""

from collections.abc import Iterable, Iterator

from actors.geyser_proto import geyser_pb2
from actors.streams.geyser_match import Account, BlockFilter, StreamFilter, TransactionFilter, TransactionKeys

Slices = tuple[tuple[int, int], ...]
_Named = tuple[tuple[str, ...], bytes]  # The names of the filters that match, and the update without names.
_COUNTS = ("slot", "blockhash", "parent_slot", "parent_blockhash", "executed_transaction_count", "entries_count")
_PARTS = ("rewards", "block_time", "block_height")  # Messages that may be missing.


class WholeBlock:
    """A block with all its transactions, accounts and entries. Raises DecodeError for bytes that are no update."""

    def __init__(self, body: bytes) -> None:
        self._update = geyser_pb2.SubscribeUpdate.FromString(body)
        self._block = block = self._update.block
        self.slot = block.slot
        self.size = len(body)
        self._transactions = [TransactionKeys(one) for one in block.transactions]
        self._places = {one.pubkey: place for place, one in enumerate(block.accounts)}

    def updates(self, wanted: StreamFilter) -> Iterator[_Named]:
        """All updates of this block that the subscription gets, in their order."""
        yield from self._accounts(wanted)
        if wanted.transactions or wanted.transactions_status:
            for one in self._transactions:
                yield from self._of_transaction(one, wanted)
        if wanted.entries:
            for entry in self._block.entries:
                yield wanted.entries, self._bytes(geyser_pb2.SubscribeUpdate(entry=entry))
        for name, shape in wanted.blocks.items():
            shaped = self._shaped(shape, wanted.slices)
            yield (name,), self._bytes(geyser_pb2.SubscribeUpdate(block=shaped))
        if wanted.blocks_meta:
            yield wanted.blocks_meta, self._bytes(geyser_pb2.SubscribeUpdate(block_meta=self._meta()))

    def _accounts(self, wanted: StreamFilter) -> Iterator[_Named]:
        if not wanted.accounts:
            return
        for account in self._candidates(wanted):
            names = tuple(name for name, one in wanted.accounts.items() if one.matches(account))
            if names:
                write = geyser_pb2.SubscribeUpdateAccount(account=sliced(account, wanted.slices), slot=self.slot)
                yield names, self._bytes(geyser_pb2.SubscribeUpdate(account=write))

    def _candidates(self, wanted: StreamFilter) -> Iterable[Account]:
        """The accounts that may match. Most subscriptions name a few keys, and a block has thousands of accounts."""
        keys: set[bytes] = set()
        for one in wanted.accounts.values():
            if not one.pubkeys:
                return self._block.accounts
            keys |= one.pubkeys
        places = sorted(self._places[key] for key in keys if key in self._places)
        return (self._block.accounts[place] for place in places)

    def _of_transaction(self, one: TransactionKeys, wanted: StreamFilter) -> Iterator[_Named]:
        info = one.info
        names = _matching(one, wanted.transactions)
        if names:
            whole = geyser_pb2.SubscribeUpdateTransaction(transaction=info, slot=self.slot)
            yield names, self._bytes(geyser_pb2.SubscribeUpdate(transaction=whole))
        names = _matching(one, wanted.transactions_status)
        if names:
            status = geyser_pb2.SubscribeUpdateTransactionStatus(
                slot=self.slot, signature=info.signature, is_vote=info.is_vote, index=info.index
            )
            if info.meta.HasField("err"):
                status.err.CopyFrom(info.meta.err)
            yield names, self._bytes(geyser_pb2.SubscribeUpdate(transaction_status=status))

    def _shaped(self, shape: BlockFilter, slices: Slices) -> geyser_pb2.SubscribeUpdateBlock:
        """The block with the parts that were asked for. Its counts are those of the whole block."""
        block, keys = self._block, shape.keys
        found = geyser_pb2.SubscribeUpdateBlock(updated_account_count=block.updated_account_count)
        self._describe(found)
        if shape.has_transactions:
            transactions = self._transactions
            found.transactions.extend(one.info for one in transactions if keys.is_empty or keys.has_any(one.keys(None)))
        if shape.has_accounts:
            found.accounts.extend(
                sliced(one, slices) for one in block.accounts if keys.is_empty or keys.has(one.pubkey)
            )
        if shape.has_entries:
            found.entries.extend(block.entries)
        return found

    def _meta(self) -> geyser_pb2.SubscribeUpdateBlockMeta:
        found = geyser_pb2.SubscribeUpdateBlockMeta()
        self._describe(found)
        return found

    def _describe(self, found: geyser_pb2.SubscribeUpdateBlock | geyser_pb2.SubscribeUpdateBlockMeta) -> None:
        for name in _COUNTS:
            setattr(found, name, getattr(self._block, name))
        for name in _PARTS:
            if self._block.HasField(name):
                getattr(found, name).CopyFrom(getattr(self._block, name))

    def _bytes(self, update: geyser_pb2.SubscribeUpdate) -> bytes:
        update.created_at.CopyFrom(self._update.created_at)
        return update.SerializeToString()


def sliced(account: Account, slices: Slices) -> Account:
    """The account with these parts of its data; a slice that does not fit into the data is left out."""
    if not slices:
        return account
    part = geyser_pb2.SubscribeUpdateAccountInfo()
    part.CopyFrom(account)
    data = account.data
    part.data = b"".join(data[start:end] for start, end in slices if end <= len(data))
    return part


def _matching(one: TransactionKeys, filters: dict[str, TransactionFilter]) -> tuple[str, ...]:
    return tuple(name for name, wanted in filters.items() if wanted.matches(one))
