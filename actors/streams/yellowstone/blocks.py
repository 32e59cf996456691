"""Makes the updates of one slot from its whole block, for a subscription that replays it.

Implements: from_slot; Yellowstone's order within a slot: writes, transactions, entries, blocks, the block's meta. A
block has the last write of each account, as every replay of a node has. Each update has the time at which the node made
the block. Pure. Not here: which filters match (yellowstone/match.py), which blocks are kept (hub/geyser_window.py).

A block of mainnet has 20 MB, and a subscription 1,000 filters, so all work on a block is done by generators that yield
PAUSE after each small piece of it: a fraction of a millisecond. A block is cut into its parts without decoding them,
and the parts of a block that is sent again stay as they came: who sends them joins them.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.match import Account, BlockFilter, Filter, StreamFilter, Transaction, TransactionKeys
from actors.streams.yellowstone.wire import encoded_varint, fields

Slices = tuple[tuple[int, int], ...]
# The names of the filters that match, and the update without names; its parts are to be joined.
Named = tuple[tuple[str, ...], Sequence[bytes]]
PAUSE = None  # Takes the place of an update: other tasks may run here.
_FILTERS_A_PIECE = 100
# Numbers of fields: of an update, and of a block.
_BLOCK, _TRANSACTION, _ACCOUNT, _ENTRY = 5, 6, 11, 13
_BLOCK_TAG = b"\x2a"
Candidate = TypeVar("Candidate")
_COUNTS = ("slot", "blockhash", "parent_slot", "parent_blockhash", "executed_transaction_count", "entries_count")
_PARTS = ("rewards", "block_time", "block_height")  # Messages that may be missing.


class WholeBlock:
    """A block with all its transactions, accounts and entries. Use nothing of it before `read` has ended."""

    def __init__(self, body: bytes) -> None:
        self._body, self.size = body, len(body)
        self._update = geyser_pb2.SubscribeUpdate()  # The parts of the block that are no lists.
        self._transactions: list[TransactionKeys] = []
        self._accounts: list[Account] = []
        self._entries: list[geyser_pb2.SubscribeUpdateEntry] = []
        self._raw: dict[int, list[bytes]] = {_TRANSACTION: [], _ACCOUNT: [], _ENTRY: []}
        self._places: dict[bytes, int] = {}

    @property
    def slot(self) -> int:
        return int(self._block.slot)

    @property
    def _block(self) -> geyser_pb2.SubscribeUpdateBlock:
        return self._update.block

    def read(self) -> Iterator[None]:
        """Decode the block piece by piece. Raises DecodeError for bytes that are no update."""
        rest, block_rest = bytearray(), bytearray()
        for number, start, value, end in fields(self._body):
            if number != _BLOCK:
                rest += self._body[start:end]
                continue
            for inner, first, content, after in fields(self._body, value, end):
                listed = self._raw.get(inner)
                if listed is None:
                    block_rest += self._body[first:after]
                else:
                    listed.append(self._body[first:after])
                    self._take(inner, self._body[content:after])
                yield PAUSE
        self._update.MergeFromString(bytes(rest))
        self._update.block.MergeFromString(bytes(block_rest))
        self._body = b""

    def _take(self, number: int, raw: bytes) -> None:
        if number == _TRANSACTION:
            self._transactions.append(TransactionKeys(Transaction.FromString(raw)))
        elif number == _ENTRY:
            self._entries.append(geyser_pb2.SubscribeUpdateEntry.FromString(raw))
        else:
            account = Account.FromString(raw)
            self._places[account.pubkey] = len(self._accounts)
            self._accounts.append(account)

    def updates(self, wanted: StreamFilter) -> Iterator[Named | None]:
        """All updates of this block that the subscription gets, in their order; PAUSE between pieces of work."""
        yield from self._writes(wanted)
        if wanted.transactions or wanted.transactions_status:
            for one in self._transactions:
                yield from self._of_transaction(one, wanted)
        if wanted.entries:
            for entry in self._entries:
                yield wanted.entries, (self._bytes(geyser_pb2.SubscribeUpdate(entry=entry)),)
        for name, shape in wanted.blocks.items():
            shaped = yield from self._shaped(shape, wanted.slices)
            yield (name,), shaped
        if wanted.blocks_meta:
            yield wanted.blocks_meta, (self._bytes(geyser_pb2.SubscribeUpdate(block_meta=self._meta())),)

    def _writes(self, wanted: StreamFilter) -> Iterator[Named | None]:
        if not wanted.accounts:
            return
        for account in self._candidates(wanted):
            names = yield from matching(account, wanted.accounts)
            if names:
                write = geyser_pb2.SubscribeUpdateAccount(account=sliced(account, wanted.slices), slot=self.slot)
                yield names, (self._bytes(geyser_pb2.SubscribeUpdate(account=write)),)

    def _candidates(self, wanted: StreamFilter) -> Iterable[Account]:
        """Return the accounts that may match. Most subscriptions name a few keys, and a block has thousands of
        accounts."""
        keys, places = wanted.pubkeys, self._places
        if keys is None:
            return self._accounts
        found = (key for key in keys if key in places) if len(keys) < len(places) else keys & places.keys()
        return [self._accounts[place] for place in sorted(places[key] for key in found)]

    def _of_transaction(self, one: TransactionKeys, wanted: StreamFilter) -> Iterator[Named | None]:
        info = one.info
        names = yield from matching(one, wanted.transactions)
        if names:
            whole = geyser_pb2.SubscribeUpdateTransaction(transaction=info, slot=self.slot)
            yield names, (self._bytes(geyser_pb2.SubscribeUpdate(transaction=whole)),)
        names = yield from matching(one, wanted.transactions_status)
        if names:
            status = geyser_pb2.SubscribeUpdateTransactionStatus(
                slot=self.slot, signature=info.signature, is_vote=info.is_vote, index=info.index
            )
            if info.meta.HasField("err"):
                status.err.CopyFrom(info.meta.err)
            yield names, (self._bytes(geyser_pb2.SubscribeUpdate(transaction_status=status)),)

    def _shaped(self, shape: BlockFilter, slices: Slices) -> Generator[None, None, Sequence[bytes]]:
        """Make an update with the requested parts of the block. Its counts are those of the whole block."""
        block, keys, raw = self._block, shape.keys, self._raw
        found = geyser_pb2.SubscribeUpdateBlock(updated_account_count=block.updated_account_count)
        self._describe(found)
        parts = [found.SerializeToString()]
        if shape.has_transactions:
            for one, part in zip(self._transactions, raw[_TRANSACTION], strict=True):
                yield PAUSE
                if keys.is_empty or keys.has_any(one.keys(None)):
                    parts.append(part)
        if shape.has_accounts:
            for account, part in zip(self._accounts, raw[_ACCOUNT], strict=True):
                yield PAUSE
                if keys.is_empty or keys.has(account.pubkey):
                    parts.append(_in_block(sliced(account, slices)) if slices else part)
        if shape.has_entries:
            parts += raw[_ENTRY]
        size = encoded_varint(sum(map(len, parts)))
        return (_BLOCK_TAG, size, *parts, self._bytes(geyser_pb2.SubscribeUpdate()))

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
    """Cut the account's data to these slices; a slice beyond its end is left out."""
    if not slices:
        return account
    part = geyser_pb2.SubscribeUpdateAccountInfo()
    part.CopyFrom(account)
    data = account.data
    part.data = b"".join(data[start:end] for start, end in slices if end <= len(data))
    return part


def matching(one: Candidate, filters: Mapping[str, Filter[Candidate]]) -> Generator[None, None, tuple[str, ...]]:
    """Yield the names of matching filters. A compressed set of keys takes as long as a hundred other filters."""
    names = []
    for count, (name, wanted) in enumerate(filters.items(), 1):
        if wanted.matches(one):
            names.append(name)
        if wanted.is_dear or count % _FILTERS_A_PIECE == 0:
            yield PAUSE
    yield PAUSE
    return tuple(names)


def _in_block(account: Account) -> bytes:
    """The account as a part of a block."""
    return bytes(geyser_pb2.SubscribeUpdateBlock(accounts=[account]).SerializeToString())
