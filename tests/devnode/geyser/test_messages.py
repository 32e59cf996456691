"""Encoded updates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from devnode.geyser.messages import SlotUpdate, Update, header, sliced

from .samples import (
    CREATED_MS,
    KEYS,
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
    """Header (names) and payload (shared by subscribers), joined, decode as one update."""
    whole = decoded(account_update(data=b"abc"), ())
    assert list(whole.filters) == ["a", "b"]
    assert whole.WhichOneof("update_oneof") == "account"
    assert whole.created_at.ToMilliseconds() == CREATED_MS


def test_an_account_update_has_all_fields() -> None:
    """Every field of the format is set."""
    sent = decoded(account_update(KEYS[1], KEYS[2], 9, b"abc"), ()).account
    assert (sent.slot, sent.is_startup) == (SLOT, False)
    info = sent.account
    assert (info.pubkey, info.owner) == (bytes(KEYS[1]), bytes(KEYS[2]))
    assert (info.lamports, info.data, info.write_version) == (9, b"abc", 7)
    assert info.rent_epoch == RENT_EPOCH_EXEMPT and not info.executable
    assert len(info.txn_signature) == 64 and info.HasField("txn_signature")


def test_a_write_of_the_chain_itself_has_no_signature() -> None:
    """The field is absent, not empty."""
    assert not decoded(account_update(signature=None), ()).account.account.HasField("txn_signature")


def test_a_closed_account_is_shown_as_an_empty_one() -> None:
    """It has no lamports and no data, and the system program owns it."""
    info = decoded(closed_update(), ()).account.account
    assert (info.lamports, info.data, info.owner) == (0, b"", bytes(SYSTEM_PROGRAM))


@given(
    data=st.binary(max_size=30),
    lengths=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=4),
)
def test_slices_are_joined_and_incomplete_ones_left_out(data: bytes, lengths: list[tuple[int, int]]) -> None:
    """Slices keep the order of the request; without slices, all data is sent."""
    slices, at = [], 0
    for gap, length in lengths:
        slices.append((at + gap, at + gap + length))
        at += gap + length
    wanted = b"".join(data[start:end] for start, end in slices if end <= len(data)) if slices else data
    assert sliced(data, tuple(slices)) == wanted


def test_encodings_are_made_once_and_dropped() -> None:
    """Each shape is encoded once, and `forget` frees the memory."""
    update = account_update(data=b"abcdef")
    first = update.payload(((0, 2),))
    assert update.payload(((0, 2),)) is first
    assert update.payload(()) != first
    update.forget()
    again = update.payload(((0, 2),))
    assert again == first and again is not first


@pytest.mark.parametrize("err", [None, FAILED])
def test_a_transaction_has_two_shapes(err: object) -> None:
    """The shapes are the whole transaction, and its status alone."""
    update = transaction_update(what=meta(err), position=3)
    whole = decoded(update, False).transaction
    assert whole.slot == SLOT and whole.transaction.index == 3
    assert whole.transaction.meta.HasField("err") is (err is not None)
    status = decoded(update, True).transaction_status
    assert (status.slot, status.index, status.is_vote) == (SLOT, 3, False)
    assert status.signature == whole.transaction.signature == whole.transaction.transaction.signatures[0]
    assert status.HasField("err") is (err is not None)


def test_a_missing_parent_or_error_is_absent() -> None:
    """Both fields are optional in the format, so absent differs from 0 or empty."""
    sent = decoded(SlotUpdate(SLOT, None, geyser_pb2.SLOT_COMPLETED, CREATED_MS)).slot
    assert not sent.HasField("parent") and not sent.HasField("dead_error")
    dead = decoded(SlotUpdate(SLOT, 0, geyser_pb2.SLOT_DEAD, CREATED_MS, "why")).slot
    assert dead.HasField("parent") and dead.parent == 0 and dead.dead_error == "why"
