"""The filters of one subscription, and the messages they make of an update.

Implements: a whole SubscribeRequest: commitment, data slices, and for each update the names of the filters that match
it. Matching filters of one map share a message; each block filter has its own message; a transaction has one message
as transaction and one as status. Pure.
Not here: pings (service.py), from_slot (replays.py), the filters of each type (update_filters.py).
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from actors.geyser_proto import geyser_pb2
from devnode.geyser.block_messages import BlockMetaUpdate, BlockUpdate, EntryUpdate
from devnode.geyser.messages import (
    AccountUpdate,
    Slices,
    SlotUpdate,
    TransactionUpdate,
    Update,
    header,
)
from devnode.geyser.settings import BadFilter, FilterLimits, check_count, read_names
from devnode.geyser.update_filters import (
    AccountFilter,
    BlockFilter,
    TransactionFilter,
    read_account_filters,
    read_block_filters,
    read_transaction_filters,
)
from devnode.records.commitment import Commitment

LEVELS = {
    geyser_pb2.PROCESSED: Commitment.PROCESSED,
    geyser_pb2.CONFIRMED: Commitment.CONFIRMED,
    geyser_pb2.FINALIZED: Commitment.FINALIZED,
}
_STATUS_OF_LEVEL = {
    Commitment.PROCESSED: geyser_pb2.SLOT_PROCESSED,
    Commitment.CONFIRMED: geyser_pb2.SLOT_CONFIRMED,
    Commitment.FINALIZED: geyser_pb2.SLOT_FINALIZED,
}
_STATUSES_OF_LEVELS = frozenset(_STATUS_OF_LEVEL.values())
Parts = tuple[bytes, bytes]  # Header (the names) and payload (the update) of one message.
_header = lru_cache(maxsize=1024)(header)


@dataclass(frozen=True, slots=True)
class SlotFilter:
    name: str
    by_commitment: bool
    is_interslot: bool

    def matches(self, update: SlotUpdate, level: Commitment) -> bool:
        if self.by_commitment and update.status != _STATUS_OF_LEVEL[level]:
            return False
        return self.is_interslot or update.status in _STATUSES_OF_LEVELS


@dataclass(frozen=True, slots=True)
class Filter:
    level: Commitment = Commitment.PROCESSED
    accounts: tuple[AccountFilter, ...] = ()
    slots: tuple[SlotFilter, ...] = ()
    transactions: tuple[TransactionFilter, ...] = ()
    transactions_status: tuple[TransactionFilter, ...] = ()
    blocks: tuple[BlockFilter, ...] = ()
    blocks_meta: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    slices: Slices = ()

    @property
    def names(self) -> int:
        """The number of named filters."""
        lists = (self.accounts, self.slots, self.transactions, self.transactions_status, self.blocks)
        return sum(map(len, (*lists, self.blocks_meta, self.entries)))

    def messages(self, update: Update) -> Iterator[Parts]:
        """The messages that the subscriber gets for the update: none, one or several."""
        match update:
            case AccountUpdate():
                if self.accounts:
                    yield from _shared([f.name for f in self.accounts if f.matches(update)], update, self.slices)
            case TransactionUpdate():
                for filters, is_status in ((self.transactions, False), (self.transactions_status, True)):
                    if filters:
                        yield from _shared([f.name for f in filters if f.matches(update)], update, is_status)
            case SlotUpdate():
                yield from _shared([f.name for f in self.slots if f.matches(update, self.level)], update)
            case EntryUpdate():
                yield from _shared(self.entries, update)
            case BlockUpdate():
                for block in self.blocks:
                    yield _header((block.name,)), update.payload(block.shape)
            case BlockMetaUpdate():
                yield from _shared(self.blocks_meta, update)


def _shared(names: Iterable[str], update: Update, shape: object = None) -> Iterator[Parts]:
    """One message with all names; none without names."""
    matched = tuple(names)
    if matched:
        yield _header(matched), update.payload(shape)


def read_filter(request: geyser_pb2.SubscribeRequest, limits: FilterLimits) -> Filter:
    """Read the filters of a request. Raises BadFilter."""
    slices = _read_slices(request.accounts_data_slice, limits.accounts.data_slice_max)
    return Filter(
        level=_read_level(request),
        accounts=read_account_filters(request.accounts, limits.accounts),
        slots=_read_slot_filters(request.slots, limits.slots.max),
        transactions=read_transaction_filters(request.transactions, limits.transactions),
        transactions_status=read_transaction_filters(request.transactions_status, limits.transactions_status),
        blocks=read_block_filters(request.blocks, limits.blocks, slices),
        blocks_meta=tuple(read_names(request.blocks_meta, limits.blocks_meta.max)),
        entries=tuple(read_names(request.entry, limits.entries.max)),
        slices=slices,
    )


def _read_level(request: geyser_pb2.SubscribeRequest) -> Commitment:
    if request.commitment not in LEVELS:  # A missing commitment is PROCESSED.
        raise BadFilter(f"failed to create CommitmentLevel from {int(request.commitment)}")
    return LEVELS[request.commitment]


def _read_slices(asked: Iterable[geyser_pb2.SubscribeRequestAccountsDataSlice], most: int) -> Slices:
    slices = tuple((one.offset, one.offset + one.length) for one in asked)
    check_count(len(slices), most)
    for (start, end), (next_start, _) in itertools.pairwise(slices):
        if start > next_start:
            raise BadFilter("data slices out of order")
        if end > next_start:
            raise BadFilter("data slices overlapped")
    return slices


def _read_slot_filters(
    asked: Mapping[str, geyser_pb2.SubscribeRequestFilterSlots], most: int
) -> tuple[SlotFilter, ...]:
    return tuple(
        SlotFilter(name, asked[name].filter_by_commitment, asked[name].interslot_updates)
        for name in read_names(asked, most)
    )
