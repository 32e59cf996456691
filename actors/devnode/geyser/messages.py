"""What the stream tells, one class for each kind: the chain's own values, and their encoding once somebody wants it.

Implements: updates of accounts, transactions and slots, as geyser.proto has them. Nothing is encoded before a filter
has let it pass, and what several subscribers get in the same shape is encoded once: `payload` is everything but the
names of the filters, which differ.
Not here: blocks (block_messages.py), who gets what (filters.py), when (hub.py).
"""

from collections.abc import Hashable, Iterable

from google.protobuf.timestamp_pb2 import Timestamp
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.devnode.chain.records import TransactionRecord
from actors.devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from actors.devnode.geyser.storage_messages import (
    error_message,
    is_simple_vote,
    meta_message,
    transaction_message,
)
from actors.geyser_proto import geyser_pb2
from actors.units import UnixMillis

Slices = tuple[tuple[int, int], ...]  # Start and end, ascending and apart.


def timestamp(now_ms: UnixMillis) -> Timestamp:
    return Timestamp(seconds=now_ms // 1000, nanos=now_ms % 1000 * 1_000_000)


def header(names: Iterable[str]) -> bytes:
    """The other part of an update: the bytes of two parts of a message, one after the other, are the message."""
    return geyser_pb2.SubscribeUpdate(filters=names).SerializeToString()


class Update:
    """Something that happened in a slot. Slotted, and set by hand below: every transaction makes several."""

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
        """All who were to be told have been: the encodings would only take room until the slot is forgotten."""
        self._payloads = None

    def _build(self, shape: Hashable) -> geyser_pb2.SubscribeUpdate:
        raise AssertionError("every kind of update builds itself")


class AccountUpdate(Update):
    """account None: closed, shown as an empty one. signature: base58; None where the chain itself wrote."""

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
        told = geyser_pb2.SubscribeUpdateAccount(account=self.info(shape), slot=self.slot, is_startup=False)
        return geyser_pb2.SubscribeUpdate(account=told)


def sliced(data: bytes, slices: Slices) -> bytes:
    """A slice that the data does not fill is left out whole."""
    if not slices:
        return data
    return b"".join(data[start:end] for start, end in slices if end <= len(data))


class TransactionUpdate(Update):
    """Two shapes: the transaction with all it did, and its outcome alone (is_status)."""

    __slots__ = ("_is_vote", "record")

    def __init__(self, record: TransactionRecord, created_ms: UnixMillis) -> None:
        self.slot, self.created_ms = record.slot, created_ms
        self._payloads = None
        self.record = record
        self._is_vote: bool | None = None  # Not asked yet.

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
            told = geyser_pb2.SubscribeUpdateTransaction(transaction=self.info(), slot=self.slot)
            return geyser_pb2.SubscribeUpdate(transaction=told)
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
    """parent None: not known at this point of a slot's life, as upstream."""

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
        told = geyser_pb2.SubscribeUpdateSlot(
            slot=self.slot, parent=self.parent, status=self.status, dead_error=self.dead_error
        )
        return geyser_pb2.SubscribeUpdate(slot=told)
