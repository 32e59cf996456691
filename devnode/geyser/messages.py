"""Updates of the stream: the chain's values, and their encoding on demand.

Implements: updates of accounts, transactions and slots, as in geyser.proto. An update is encoded only when a filter
matches it, and once for all subscribers with the same shape. `payload` is the whole message without the names of the
filters, which differ for each subscriber.
Not here: blocks (block_messages.py), matching (filters.py), when updates are sent (hub.py).
"""

from collections.abc import Hashable, Iterable

from google.protobuf.timestamp_pb2 import Timestamp
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.geyser_proto import geyser_pb2
from actors.units import UnixMillis
from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from devnode.geyser.storage_messages import (
    error_message,
    is_simple_vote,
    meta_message,
    transaction_message,
)
from devnode.records.records import TransactionRecord

Slices = tuple[tuple[int, int], ...]  # (start, end), ascending and without overlap.


def timestamp(now_ms: UnixMillis) -> Timestamp:
    return Timestamp(seconds=now_ms // 1000, nanos=now_ms % 1000 * 1_000_000)


def header(names: Iterable[str]) -> bytes:
    """The part of an update with the names of the filters. In protobuf, header + payload is the whole message."""
    return geyser_pb2.SubscribeUpdate(filters=names).SerializeToString()


class Update:
    """An update of the stream. The hot subclasses set all slots themselves, because each transaction makes several."""

    __slots__ = ("_payloads", "created_ms", "slot")
    _payloads: dict[Hashable, bytes] | None

    def __init__(self, slot: int, created_ms: UnixMillis) -> None:
        self.slot, self.created_ms = slot, created_ms
        self._payloads = None

    def payload(self, shape: Hashable = None) -> bytes:
        if self._payloads is None:
            self._payloads = {}
        found = self._payloads.get(shape)
        if found is None:
            update = self._build(shape)
            update.created_at.CopyFrom(timestamp(self.created_ms))
            found = self._payloads[shape] = update.SerializeToString()
        return found

    def forget(self) -> None:
        """Drop the encodings after the update was sent to all subscribers, to free their memory."""
        self._payloads = None

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        raise AssertionError("a subclass must implement _build")


class AccountUpdate(Update):
    """A write of an account. account None: it was closed, and is shown as an empty one. signature: base58; None if
    the chain itself wrote."""

    __slots__ = ("account", "pubkey", "signature", "write_version")

    def __init__(
        self,
        slot: int,
        pubkey: Pubkey,
        account: Account | None,
        write_version: int,
        signature: str | None,
        created_ms: UnixMillis,
    ) -> None:
        self.slot, self.created_ms = slot, created_ms
        self._payloads = None
        self.pubkey, self.account, self.write_version, self.signature = pubkey, account, write_version, signature

    @property
    def owner(self) -> Pubkey:
        return SYSTEM_PROGRAM if self.account is None else self.account.owner

    @property
    def lamports(self) -> int:
        return 0 if self.account is None else self.account.lamports

    @property
    def data(self) -> bytes:
        return b"" if self.account is None else self.account.data

    def info(self, slices: Slices) -> geyser_pb2.SubscribeUpdateAccountInfo:
        account, signature = self.account, self.signature
        return geyser_pb2.SubscribeUpdateAccountInfo(
            pubkey=bytes(self.pubkey),
            lamports=self.lamports,
            owner=bytes(self.owner),
            executable=account is not None and account.executable,
            rent_epoch=0 if account is None else RENT_EPOCH_EXEMPT,
            data=sliced(self.data, slices),
            write_version=self.write_version,
            txn_signature=None if signature is None else bytes(Signature.from_string(signature)),
        )

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        assert isinstance(shape, tuple), shape
        account = geyser_pb2.SubscribeUpdateAccount(account=self.info(shape), slot=self.slot, is_startup=False)
        return geyser_pb2.SubscribeUpdate(account=account)


def sliced(data: bytes, slices: Slices) -> bytes:
    """The slices of the data, joined. A slice that ends beyond the data is left out."""
    if not slices:
        return data
    return b"".join(data[start:end] for start, end in slices if end <= len(data))


class TransactionUpdate(Update):
    """A landed transaction. It has two shapes: the whole transaction (False), and its status alone (True)."""

    __slots__ = ("_is_vote", "record")

    def __init__(self, record: TransactionRecord, created_ms: UnixMillis) -> None:
        self.slot, self.created_ms = record.slot, created_ms
        self._payloads = None
        self.record = record
        self._is_vote: bool | None = None  # None: not computed yet.

    @property
    def is_vote(self) -> bool:
        if self._is_vote is None:
            self._is_vote = is_simple_vote(self.record.transaction())
        return self._is_vote

    def info(self) -> geyser_pb2.SubscribeUpdateTransactionInfo:
        record = self.record
        return geyser_pb2.SubscribeUpdateTransactionInfo(
            signature=bytes(Signature.from_string(record.signature)),
            is_vote=self.is_vote,
            transaction=transaction_message(record.transaction()),
            meta=meta_message(record.meta),
            index=record.position,
        )

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        if not shape:
            whole = geyser_pb2.SubscribeUpdateTransaction(transaction=self.info(), slot=self.slot)
            return geyser_pb2.SubscribeUpdate(transaction=whole)
        record = self.record
        status = geyser_pb2.SubscribeUpdateTransactionStatus(
            slot=self.slot,
            signature=bytes(Signature.from_string(record.signature)),
            is_vote=self.is_vote,
            index=record.position,
            err=error_message(record.meta.err),
        )
        return geyser_pb2.SubscribeUpdate(transaction_status=status)


class SlotUpdate(Update):
    """A status of a slot. parent None: as in Yellowstone, some statuses do not have it."""

    __slots__ = ("dead_error", "parent", "status")

    def __init__(
        self,
        slot: int,
        parent: int | None,
        status: geyser_pb2.SlotStatus,
        created_ms: UnixMillis,
        dead_error: str | None = None,
    ) -> None:
        super().__init__(slot, created_ms)
        self.parent, self.status, self.dead_error = parent, status, dead_error

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        slot = geyser_pb2.SubscribeUpdateSlot(
            slot=self.slot, parent=self.parent, status=self.status, dead_error=self.dead_error
        )
        return geyser_pb2.SubscribeUpdate(slot=slot)
