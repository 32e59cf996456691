"""Messages in data, and data in frames: however they are cut, the messages are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.grpc_http2 import frames
from actors.grpc_http2.frames import HEAD, MessageCutter, Outgoing, TooLong
from actors.grpc_http2.links import joined
from tests.grpc_http2.servers import framed


async def _cut(cutter: MessageCutter, data: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in [*sizes, len(data)]:
        found += [await joined(message) for _, message in cutter.take(memoryview(data)[:size])]
        data = data[size:]
    return found


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(0, 200), max_size=40))
async def test_messages_are_the_same_however_their_bytes_come(messages: list[bytes], sizes: list[int]) -> None:
    cutter = MessageCutter(1_000)
    assert await _cut(cutter, framed(*messages), sizes) == messages
    assert cutter.is_between


@given(st.lists(st.integers(0, 4 << 20), max_size=12))
async def test_a_large_message_comes_in_pieces_beside_small_ones(sizes: list[int]) -> None:
    """Design, "Work on the loop": it is joined in a thread, and never copied as it grows."""
    messages = [b"before", bytes([7]) * (frames.LARGE_BYTES + 3), b"", bytes([8]) * (2 * frames.LARGE_BYTES), b"after"]
    cutter = MessageCutter(4 << 20)
    assert await _cut(cutter, framed(*messages), sizes) == messages
    assert cutter.is_between
    cutter.take(framed(bytes(frames.LARGE_BYTES))[:-1])
    assert not cutter.is_between


def test_settings_that_h2_does_not_know_are_left_out() -> None:
    """Threat 35: it would keep each of them. The last value of one counts, and a table of headers stays small."""
    told = [(4, 1), (1, 1 << 32 - 1), (4, 70_000), (5, 20_000), *((code, 1) for code in range(9, 2_000)), (7, 3)]
    payload = b"".join(code.to_bytes(2) + value.to_bytes(4) for code, value in told)
    found = frames.known_settings(0, payload)[HEAD.size :]
    assert {found[at + 1]: int.from_bytes(found[at + 2 : at + 6]) for at in range(0, len(found), 6)} == {
        1: 4_096,
        4: 70_000,
        5: 20_000,
    }
    assert len(found) == 3 * frames.SETTING_BYTES


def test_a_message_above_the_limit_is_refused_by_its_length_alone() -> None:
    cutter = MessageCutter(10)
    assert cutter.take(framed(bytes(10))) == [(False, bytes(10))]
    with pytest.raises(TooLong, match="11 bytes, more than 10"):
        cutter.take(framed(bytes(11))[:5])


@given(
    messages=st.lists(st.binary(max_size=400), min_size=1, max_size=12),
    takes=st.lists(st.integers(0, 900), max_size=12),
    frame_bytes=st.integers(1, 300),
)
def test_what_waits_goes_out_in_order_within_windows_and_frames(
    messages: list[bytes], takes: list[int], frame_bytes: int
) -> None:
    """RFC 9113, 4.1 and 6.9: no frame is larger than the peer takes, no take larger than its window."""
    out = Outgoing()
    for message in messages:
        out.put_message(message)
    sent, wanted = b"", framed(*messages)
    for most in [*takes, len(wanted)]:
        before = out.bytes
        data = b"".join(out.frames(5, most, frame_bytes))
        assert before - out.bytes == min(most, before)
        while data:
            high, low, kind, flags, stream = HEAD.unpack_from(data)
            length = high << 8 | low
            assert (kind, flags, stream) == (frames.DATA, 0, 5) and 0 < length <= frame_bytes
            sent += data[HEAD.size : HEAD.size + length]
            data = data[HEAD.size + length :]
    assert sent == wanted and not out.bytes
