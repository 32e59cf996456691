import msgspec

from actors.hotlink.messages import FAILED, UNKNOWN, message

from .test_link import ECHO, Ask, Told


def test_a_message_is_its_kind_and_messagepack() -> None:
    assert message(3, [1, "a"]) == b"\3" + msgspec.msgpack.encode([1, "a"])


def test_a_reply_may_be_a_word_in_its_place() -> None:
    """An owner that cannot say, or failed, says so for one item of a frame; the others have their replies."""
    asked, answered = [(1, Ask("a")), (2, Ask("b"))], [(2, UNKNOWN), (1, Told("A")), (3, FAILED)]
    sent, back = message(ECHO.number, (7, asked)), message(ECHO.number, (7, answered))
    assert ECHO.frame_decoder().decode(sent[1:]) == (7, asked)
    assert ECHO.answer_decoder().decode(back[1:]) == (7, answered)
