"""What a connection and its calls share."""

from actors.grpc_http2.frames import LARGE_BYTES, MessageCutter
from actors.grpc_http2.links import joined
from tests.grpc_http2.servers import framed


async def test_a_message_in_pieces_becomes_one() -> None:
    """Design, "Work on the loop": by a thread; a small one is as it came."""
    assert await joined(b"small") == b"small"
    large = bytes(range(256)) * (LARGE_BYTES // 128)
    cutter = MessageCutter(1 << 30)
    data = framed(large)
    found = [message for at in range(0, len(data), 99_999) for _, message in cutter.take(data[at : at + 99_999])]
    assert len(found) == 1 and isinstance(found[0], list)
    assert await joined(found[0]) == large
