"""Messages of the Yellowstone stream are read as the JSON form of the same transaction is."""

import os

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.geyser_proto.geyser_pb2 import SubscribeUpdate, SubscribeUpdateTransactionInfo
from actors.signals.classify import classify
from actors.signals.from_geyser import read_head, read_update
from bench.yellowstone_servers import trade
from tests.signals import samples
from tests.signals.geyser_messages import message_of

EXAMPLES = int(os.environ.get("SIGNALS_FUZZ", "200"))
PLAIN = [name for name in samples.of_signals() if "header" in str(samples.load(name)["payload"])]


@pytest.mark.parametrize("name", PLAIN)
def test_both_sources_give_the_same_transaction(name: str) -> None:
    """The polling fallback and the stream must classify alike."""
    payload = samples.load(name)["payload"]
    transaction = samples.transaction(samples.load(name))
    assert read_update(transaction.slot, message_of(transaction, payload)) == transaction


def test_a_failed_transaction_is_read_as_failed() -> None:
    payload = samples.load(PLAIN[0])["payload"]
    info = message_of(samples.transaction(samples.load(PLAIN[0])), payload)
    info.meta.err.err = b"\x08\x00\x00\x00"
    transaction = read_update(1, info)
    assert transaction is not None and transaction.failed


_MESSAGE = message_of(
    samples.transaction(samples.load(PLAIN[0])), samples.load(PLAIN[0])["payload"]
).SerializeToString()


@settings(max_examples=EXAMPLES)
@given(place=st.integers(0, len(_MESSAGE) - 1), put=st.binary(min_size=1, max_size=4))
def test_a_damaged_message_is_read_or_none(place: int, put: bytes) -> None:
    """Threat 33: indexes out of range, wrong lengths, missing parts; never an exception."""
    damaged = _MESSAGE[:place] + put + _MESSAGE[place + len(put) :]
    info = SubscribeUpdateTransactionInfo()
    try:
        info.ParseFromString(damaged)
    except DecodeError:
        return
    transaction = read_update(1, info)
    if transaction is not None:
        classify(transaction, large_swap_lamports=1, watched_wallets=set(transaction.keys[:1]))


@given(slot=st.integers(1, (1 << 64) - 1), number=st.integers(0, (1 << 63) - 1), names=st.lists(st.text(max_size=20)))
def test_a_head_says_what_the_decoded_update_says(slot: int, number: int, names: list[str]) -> None:
    """A classifier leaves updates out by it, so a wrong one would lose signals."""
    update = trade(slot, number, 5)
    del update.filters[:]
    update.filters.extend(names)
    update.created_at.FromNanoseconds(5)
    head = read_head(update.SerializeToString())
    assert head == (slot, update.transaction.transaction.signature)


@given(payload=st.binary(max_size=300), cut=st.integers(0, 300))
def test_a_head_of_other_bytes_is_none_or_true(payload: bytes, cut: int) -> None:
    """Never an exception, and never a head of what protobuf reads in another way."""
    whole = trade(7, 8, 5).SerializeToString()
    for raw in (payload, b'"' + payload, whole[:cut], whole[:60] + payload):
        head = read_head(raw)
        if head is None:
            continue
        try:
            found = SubscribeUpdate.FromString(raw).transaction
        except DecodeError:
            continue
        assert head == (found.slot, found.transaction.signature)


def test_slots_and_pings_have_no_head() -> None:
    slot = SubscribeUpdate(filters=["slots"])
    slot.slot.slot = 5
    assert read_head(slot.SerializeToString()) is None
    assert read_head(SubscribeUpdate(ping={}).SerializeToString()) is None
    assert read_head(b"") is None
