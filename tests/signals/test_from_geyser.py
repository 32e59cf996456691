"""Messages of the Yellowstone stream are read as the JSON form of the same transaction is."""

import os

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.geyser_proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from actors.signals.classify import classify
from actors.signals.from_geyser import read_update
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
