import pytest

from devnode.tpu.streams import PAUSE_SECONDS_MAX, STREAM_BYTES_MAX, Streams, StreamTooLong


def test_pieces_are_put_together_by_stream() -> None:
    streams = Streams()
    assert streams.receive(2, b"a", False, 0) is None
    assert streams.receive(6, b"x", False, 0) is None and streams.has_open
    assert streams.receive(2, b"b", True, 1) == b"ab"
    assert streams.receive(6, b"", True, 1) == b"x"
    assert streams.receive(10, b"whole", True, 1) == b"whole" and not streams.has_open


def test_a_stream_has_at_most_the_bytes_of_a_transaction() -> None:
    """The limit holds for one piece and for several."""
    streams = Streams()
    assert streams.receive(2, bytes(STREAM_BYTES_MAX), True, 0) == bytes(STREAM_BYTES_MAX)
    with pytest.raises(StreamTooLong):
        streams.receive(6, bytes(STREAM_BYTES_MAX + 1), True, 0)
    streams.receive(10, bytes(STREAM_BYTES_MAX), False, 0)
    with pytest.raises(StreamTooLong):
        streams.receive(10, b"x", True, 0)


def test_a_stream_that_pauses_too_long_is_dropped() -> None:
    """Its later pieces are ignored; other streams are not affected."""
    streams = Streams()
    streams.receive(2, b"a", False, 0)
    streams.receive(6, b"x", False, 1)
    assert streams.drop_stalled(PAUSE_SECONDS_MAX) == []
    assert streams.drop_stalled(PAUSE_SECONDS_MAX + 0.1) == [2]
    assert streams.receive(2, b"b", False, 3) is None and streams.receive(2, b"c", True, 3) is None
    assert streams.receive(6, b"y", True, 3) == b"xy" and not streams.has_open


def test_a_reset_stream_is_forgotten() -> None:
    streams = Streams()
    streams.receive(2, b"a", False, 0)
    assert streams.forget(2) and not streams.forget(2) and not streams.has_open
