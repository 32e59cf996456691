"""Updates as they are encoded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from actors.devnode.geyser.messages import SlotUpdate, Update, header, sliced, timestamp
from actors.geyser_proto import geyser_pb2
from actors.units import UnixMillis

from .samples import (
    CREATED_MS,
    KEYS,
    SIGNATURE,
    SLOT,
    account_update,
    closed_update,
    meta,
    transaction_update,
)

FAILED = {"InstructionError": [0, {"Custom": 1}]}


def decoded(update: Update, shape: object = None) -> geyser_pb2.SubscribeUpdate:
    return geyser_pb2.SubscribeUpdate.FromString(header(["a", "b"]) + update.payload(shape))


def test_the_two_parts_are_one_message() -> None:
    """Names differ by subscriber, the rest is shared: their bytes together are the whole update."""
    whole = decoded(account_update(data=b"abc"), ())
    assert list(whole.filters) == ["a", "b"]
    assert whole.WhichOneof("update_oneof") == "account"
    assert whole.created_at.ToMilliseconds() == CREATED_MS


def test_an_account_is_told_in_full() -> None:
    """Every field of the format."""
    told = decoded(account_update(KEYS[1], KEYS[2], 9, b"abc"), ()).account
    assert (told.slot, told.is_startup) == (SLOT, False)
    info = told.account
    assert (info.pubkey, info.owner) == (bytes(KEYS[1]), bytes(KEYS[2]))
    assert (info.lamports, info.data, info.write_version) == (9, b"abc", 7)
    assert info.rent_epoch == RENT_EPOCH_EXEMPT and not info.executable
    assert len(info.txn_signature) == 64 and info.HasField("txn_signature")


def test_a_write_of_the_chain_itself_has_no_signature() -> None:
    """Absent, not empty."""
    assert not decoded(account_update(signature=None), ()).account.account.HasField("txn_signature")


def test_a_closed_account_is_an_empty_one() -> None:
    """No lamports, no data, the system program's."""
    info = decoded(closed_update(), ()).account.account
    assert (info.lamports, info.data, info.owner) == (0, b"", bytes(SYSTEM_PROGRAM))


@given(
    data=st.binary(max_size=30),
    lengths=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=4),
)
def test_slices_are_whole_or_not_there(data: bytes, lengths: list[tuple[int, int]]) -> None:
    """In the order asked for, one after the other; without slices, all of the data."""
    slices, at = [], 0
    for gap, length in lengths:
        slices.append((at + gap, at + gap + length))
        at += gap + length
    wanted = b"".join(data[start:end] for start, end in slices if end <= len(data)) if slices else data
    assert sliced(data, tuple(slices)) == wanted


def test_encodings_are_made_once_and_let_go() -> None:
    """One for each shape; after everybody was told they take no room."""
    update = account_update(data=b"abcdef")
    first = update.payload(((0, 2),))
    assert update.payload(((0, 2),)) is first
    assert update.payload(()) != first
    update.forget()
    again = update.payload(((0, 2),))
    assert again == first and again is not first


@pytest.mark.parametrize("err", [None, FAILED])
def test_a_transaction_has_two_shapes(err: object) -> None:
    """With all it did, and its outcome alone."""
    update = transaction_update(what=meta(err), position=3)
    whole = decoded(update, False).transaction
    assert whole.slot == SLOT and whole.transaction.index == 3
    assert whole.transaction.meta.HasField("err") is (err is not None)
    status = decoded(update, True).transaction_status
    assert (status.slot, status.index, status.is_vote) == (SLOT, 3, False)
    assert status.signature == whole.transaction.signature == whole.transaction.transaction.signatures[0]
    assert status.HasField("err") is (err is not None)


def test_what_a_slot_does_not_know_is_absent() -> None:
    """Parent and error are optional in the format: absent is not 0 or empty."""
    told = decoded(SlotUpdate(SLOT, None, geyser_pb2.SLOT_COMPLETED, CREATED_MS)).slot
    assert not told.HasField("parent") and not told.HasField("dead_error")
    dead = decoded(SlotUpdate(SLOT, 0, geyser_pb2.SLOT_DEAD, CREATED_MS, "why")).slot
    assert dead.HasField("parent") and dead.parent == 0 and dead.dead_error == "why"


def test_times_keep_their_milliseconds() -> None:
    """The format has seconds and nanoseconds."""
    assert timestamp(UnixMillis(1_001)).nanos == 1_000_000


def test_signatures_are_64_bytes() -> None:
    """Base58 inside, raw on the wire."""
    update = account_update(signature=SIGNATURE)
    assert len(decoded(update, ()).account.account.txn_signature) == 64
