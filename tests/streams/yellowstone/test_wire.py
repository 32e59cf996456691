"""The fields of a protobuf message are found without decoding them."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.wire import encoded_varint, fields


@given(st.integers(0, 2**64 - 1), st.binary(max_size=300), st.text(max_size=50))
def test_the_fields_of_a_real_message_are_found_where_they_are(slot: int, data: bytes, name: str) -> None:
    account = geyser_pb2.SubscribeUpdateAccountInfo(lamports=slot, data=data)
    update = geyser_pb2.SubscribeUpdate(
        filters=[name], account=geyser_pb2.SubscribeUpdateAccount(slot=slot, account=account)
    )
    raw = update.SerializeToString()
    found = list(fields(raw))
    assert [raw[value:end].decode() for number, _, value, end in found if number == 1] == [name]
    ((_, start, value, end),) = [one for one in found if one[0] == 2]
    assert geyser_pb2.SubscribeUpdateAccount.FromString(raw[value:end]) == update.account
    assert raw[start:value].endswith(encoded_varint(end - value))
    assert found[0][1] == 0 and found[-1][3] == len(raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_a_decode_error(raw: bytes) -> None:
    """Threat 62: a client's bytes are cut before they are decoded, so nothing else may be raised."""
    try:
        ends = [end for *_, end in fields(raw)]
    except DecodeError:
        return
    assert ends == sorted(ends) and (not raw or ends[-1] == len(raw))


@pytest.mark.parametrize("raw", [b"\x0a\x05abc", b"\x0b", b"\xff" * 11, b"\x09\x00"])
def test_a_message_that_was_cut_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        list(fields(raw))
