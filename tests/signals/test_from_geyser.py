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


def _field(number: int, kind: int, content: bytes) -> bytes:
    """A field as protobuf writes it; kind 2 has its length before it. Others are as they are, also wrong."""
    tag = number << 3 | kind
    head = bytes([tag & 0x7F | 0x80, tag >> 7]) if tag > 0x7F else bytes([tag])
    return head + (_length(len(content)) if kind == 2 else b"") + content


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


_SIGNATURES = st.binary(min_size=64, max_size=64) | st.binary(max_size=66)
_UNKNOWN = st.builds(
    _field, st.integers(1, 40), st.sampled_from((0, 1, 2, 5)), st.binary(min_size=8, max_size=8) | st.binary(max_size=9)
)


@st.composite
def _updates(draw: st.DrawFn) -> bytes:
    """Updates with all their fields, in their order or in any other, some twice, among fields that nobody knows."""

    def mixed(*fields: bytes) -> bytes:
        if draw(st.booleans()):
            return b"".join(fields)
        more = draw(st.lists(st.sampled_from(fields) | _UNKNOWN, max_size=3))
        return b"".join(draw(st.permutations((*fields, *more))))

    vote, slot = b"\x10" + bytes([draw(st.integers(0, 1))]), _length(draw(st.integers(0, 1 << 13)))
    info = mixed(_field(1, 2, draw(_SIGNATURES)), vote, _field(3, 2, b""), b"\x28\x05")
    transaction = mixed(_field(1, 2, info), _field(2, 0, slot))
    return mixed(_field(1, 2, b"programs"), _field(4, 2, transaction), _field(11, 2, b""))


@given(_updates())
@settings(max_examples=EXAMPLES)
def test_a_head_is_what_protobuf_reads_whatever_stands_where(payload: bytes) -> None:
    """Unknown fields, other orders, fields that come twice: of these the last one counts, or they are merged."""
    head = read_head(payload)
    try:
        found = SubscribeUpdate.FromString(payload)
    except DecodeError:
        return
    assert head is None or (head == (found.transaction.slot, found.transaction.transaction.signature))
    assert head is None or found.HasField("transaction")


def test_a_second_transaction_is_not_overlooked() -> None:
    first, second = trade(7, 8, 5).SerializeToString(), trade(9, 10, 5).SerializeToString()
    assert read_head(first) == (7, trade(7, 8, 5).transaction.transaction.signature)
    assert read_head(first + second) is None


def test_slots_and_pings_have_no_head() -> None:
    slot = SubscribeUpdate(filters=["slots"])
    slot.slot.slot = 5
    assert read_head(slot.SerializeToString()) is None
    assert read_head(SubscribeUpdate(ping={}).SerializeToString()) is None
    assert read_head(b"") is None
