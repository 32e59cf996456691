"""Guards the frames of the hot link: whole however they are cut, bounded, and sent between peers that live."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.hotlink.frames import (
    BEAT_SECONDS,
    FAILED,
    FRAME_BYTES_MAX,
    SILENT_BEATS_MAX,
    TAG_BYTES,
    UNKNOWN,
    FrameConnection,
    FrameTooLong,
    Splitter,
    framed,
    message,
)

from .test_link import ECHO, Ask, Told

NEAR_KEY, FAR_KEY = b"n" * 32, b"f" * 32
SIGN_OF_LIFE = b""


class Far:
    """The other end of a connection that stands, byte by byte: tags what it sends, and checks what it is sent."""

    def __init__(self, own_key: bytes = FAR_KEY, near_key: bytes = NEAR_KEY) -> None:
        self._sent = hashlib.blake2b(key=own_key, digest_size=TAG_BYTES)
        self._received = hashlib.blake2b(key=near_key, digest_size=TAG_BYTES)

    def frames(self, *contents: bytes) -> bytes:
        return b"".join(self._frame(content) for content in contents)

    def _frame(self, content: bytes) -> bytes:
        frame = (len(content) + TAG_BYTES).to_bytes(4, "big") + content
        self._sent.update(frame)
        return frame + self._sent.digest()

    def contents(self, frames: list[bytes]) -> list[bytes]:
        """Each tag is over all that was said in its direction so far, without the tags in it."""
        contents = []
        for frame in frames:
            contents.append(frame[:-TAG_BYTES])
            self._received.update(len(frame).to_bytes(4, "big") + contents[-1])
            assert frame[-TAG_BYTES:] == self._received.digest()
        return contents


class ManualLoop:
    """Timers and turns that happen when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.soon: list[Callable[[], None]] = []

    def call_later(self, seconds: float, callback: Callable[..., None], *arguments: Any) -> asyncio.Handle:
        self.timers.append((seconds, lambda: callback(*arguments)))
        return cast(asyncio.Handle, _Cancellable())

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self.soon.append(lambda: callback(*arguments))

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()

    def fire(self) -> float:
        """The oldest timer; gives its seconds."""
        seconds, callback = self.timers.pop(0)
        callback()
        return seconds


class _Cancellable:
    def cancel(self) -> None: ...


class Transport:
    """Keeps what is written, each write apart."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.aborted, self.reading = False, True

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> str | None:
        return None if name == "socket" else name

    def take(self) -> list[bytes]:
        """The frames written since, and forget them."""
        written, self.writes = b"".join(self.writes), []
        return list(Splitter(FRAME_BYTES_MAX).feed(written))


def made(connection: FrameConnection) -> Transport:
    transport = Transport()
    connection.connection_made(cast(asyncio.Transport, transport))
    return transport


class End(FrameConnection):
    """Greeted by any one frame."""

    def __init__(self, loop: ManualLoop) -> None:
        super().__init__(cast(asyncio.AbstractEventLoop, loop), 4)
        self.frames: list[bytes] = []
        self.reads = 0

    def greeted(self, frame: bytes) -> None:
        self.stand(NEAR_KEY, FAR_KEY)

    def taken(self, frame: bytes) -> None:
        if frame == b"bad":
            raise ValueError("no such frame")
        self.frames.append(frame)

    def read(self) -> None:
        self.reads += 1

    def lost(self) -> None: ...


class Greeted:
    """One end that stands, and the other, which the test is."""

    def __init__(self) -> None:
        self.loop, self.far = ManualLoop(), Far()
        self.end = End(self.loop)
        self.transport = made(self.end)
        self.end.data_received(framed(b"hi"))
        assert self.end.standing

    def receive(self, *contents: bytes) -> None:
        """All in one read."""
        self.end.data_received(self.far.frames(*contents))

    def written(self) -> list[bytes]:
        """Contents of the frames written since."""
        return self.far.contents(self.transport.take())


@given(st.lists(st.binary(max_size=20), max_size=8), st.lists(st.integers(1, 30), max_size=40))
def test_frames_are_whole_however_they_are_cut(contents: list[bytes], sizes: list[int]) -> None:
    """A read may end anywhere, and hold several frames or a part of one."""
    stream = b"".join(framed(content) for content in contents)
    splitter, found = Splitter(20), []
    for size in [*sizes, len(stream)]:
        part, stream = stream[:size], stream[size:]
        found += list(splitter.feed(part))
    assert found == contents and not stream


def test_a_long_frame_is_put_together_once() -> None:
    """What gathers is not looked through again with each part: a long frame must not cost the square of its length."""
    splitter, part = Splitter(FRAME_BYTES_MAX), bytes(1 << 16)
    assert list(splitter.feed((len(part) * 64).to_bytes(4, "big"))) == []
    for _ in range(63):
        kept = splitter._kept
        assert list(splitter.feed(part)) == [] and splitter._kept is kept, "grows where it is"
    assert list(splitter.feed(part)) == [part * 64]


@pytest.mark.parametrize("cut", [4, 8, 100])
def test_a_frame_that_is_too_long_is_refused_by_its_length_alone(cut: int) -> None:
    """Nothing of it is gathered; one that is exactly as long as allowed passes."""
    assert list(Splitter(20).feed(framed(bytes(20)))) == [bytes(20)]
    with pytest.raises(FrameTooLong):
        list(Splitter(20).feed(framed(bytes(21))[:cut]))


def test_before_the_greeting_only_a_short_frame_is_taken() -> None:
    """A stranger may not make this side gather anything; what comes with its greeting is held to the same."""
    stranger = End(ManualLoop())
    transport = made(stranger)
    stranger.data_received(framed(b"12345")[:4])
    assert transport.aborted and not stranger.standing
    friend = End(ManualLoop())
    made(friend)
    friend.data_received(framed(b"1234") + Far().frames(b"longer"))
    assert friend.standing and friend.frames == [b"longer"], "the greeting was over by then"


def test_a_frame_that_is_too_long_ends_the_connection() -> None:
    greeted = Greeted()
    greeted.end.data_received((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert greeted.transport.aborted and greeted.end.frames == []


def test_what_cannot_be_taken_ends_the_connection_and_nothing_after_it_is_taken() -> None:
    """A peer of another version must not end the process, and what it says next is not sure."""
    greeted = Greeted()
    greeted.receive(b"good", b"bad", b"late")
    greeted.receive(b"later")
    assert greeted.transport.aborted and greeted.end.frames == [b"good"]


def test_a_frame_that_somebody_between_changes_ends_the_connection() -> None:
    """Rule: after the greeting no frame is taken but the next one of the peer that proved itself."""
    own, other = Far(NEAR_KEY, FAR_KEY), Far(b"o" * 32)
    far = Far()
    first, second, third = far.frames(b"first"), far.frames(b"second"), far.frames(b"third")
    wrong = {
        "changed": first[:-1] + bytes((first[-1] ^ 1,)),
        "repeated": first + first,
        "left out": first + third,
        "exchanged": second + first,
        "joined": (len(first) + len(second) - 8).to_bytes(4, "big") + first[4:] + second[4:],
        "joined without the first tag": framed(first[4:-TAG_BYTES] + second[4:]),
        "cut": framed(first[4:-1]),
        "sent back": own.frames(b"first"),
        "of another connection": other.frames(b"first"),
        "without a tag": framed(b"first"),
        "empty": framed(b""),
    }
    for name, data in wrong.items():
        greeted = Greeted()
        greeted.end.data_received(data)
        assert greeted.transport.aborted, name
        assert greeted.end.frames == ([b"first"] if data.startswith(first) else []), name


def test_frames_of_one_read_are_taken_before_it_is_answered() -> None:
    greeted = Greeted()
    before = greeted.end.reads
    greeted.receive(b"a", SIGN_OF_LIFE, b"b")
    assert (greeted.end.frames, greeted.end.reads) == ([b"a", b"b"], before + 1), "a sign of life is no frame"


def test_frames_that_are_ready_together_are_one_write() -> None:
    """A write wakes the peer: the dearest thing a link does."""
    greeted = Greeted()
    greeted.end.write([b"a", b"b"])
    assert len(greeted.transport.writes) == 1
    assert greeted.written() == [b"a", b"b"]


def test_a_peer_that_is_silent_is_dropped_and_one_that_says_anything_is_not() -> None:
    """Rule: a half-open connection is noticed within 25 seconds, and never sooner than 20."""
    greeted = Greeted()
    loop, transport = greeted.loop, greeted.transport
    for _ in range(3 * SILENT_BEATS_MAX):
        assert loop.fire() == BEAT_SECONDS
        greeted.receive(SIGN_OF_LIFE)
    assert (greeted.written(), transport.aborted) == ([SIGN_OF_LIFE] * 3 * SILENT_BEATS_MAX, False)
    for _ in range(SILENT_BEATS_MAX):
        loop.fire()
    assert (len(loop.timers), transport.aborted) == (1, False)
    loop.fire()
    assert (len(loop.timers), transport.aborted) == (0, True)
    assert 20 <= BEAT_SECONDS * SILENT_BEATS_MAX < BEAT_SECONDS * (SILENT_BEATS_MAX + 1) <= 25


def test_a_peer_that_does_not_greet_is_dropped_at_the_first_beat() -> None:
    """Rule: a connection proves itself within 5 seconds, however many of its first bytes come one by one."""
    loop = ManualLoop()
    end = End(loop)
    transport = made(end)
    for byte in framed(b"1234")[:-1]:
        end.data_received(bytes((byte,)))
    assert loop.fire() == 5
    assert transport.aborted and not end.standing


def test_a_full_connection_sends_no_signs_of_life() -> None:
    """They would gather without bound, and the peer has enough to read."""
    greeted = Greeted()
    greeted.end.pause_writing()
    greeted.loop.fire()
    assert (greeted.end.full, greeted.transport.writes) == (True, [])
    greeted.end.resume_writing()
    greeted.loop.fire()
    assert (greeted.end.full, greeted.written()) == (False, [SIGN_OF_LIFE])


def test_what_is_written_after_the_end_goes_nowhere() -> None:
    """A commit may finish after its replica has left; that is no error."""
    greeted = Greeted()
    greeted.end.connection_lost(None)
    greeted.end.write([b"late"])
    assert greeted.transport.writes == [] and greeted.end.ended.is_set() and not greeted.end.standing


def test_a_message_is_its_kind_and_messagepack() -> None:
    assert message(3, [1, "a"]) == b"\3" + msgspec.msgpack.encode([1, "a"])


def test_a_reply_may_be_a_word_in_its_place() -> None:
    """An owner that cannot say, or failed, says so for one item of a frame; the others have their replies."""
    asked, answered = [(1, Ask("a")), (2, Ask("b"))], [(2, UNKNOWN), (1, Told("A")), (3, FAILED)]
    sent, back = message(ECHO.number, (7, asked)), message(ECHO.number, (7, answered))
    assert ECHO.frame_decoder().decode(sent[1:]) == (7, asked)
    assert ECHO.answer_decoder().decode(back[1:]) == (7, answered)
