"""Guards what a replica does on its own: bounds, time limits, and never giving its loop up."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from actors.hotlink import frames as frames_module
from actors.hotlink import replica as replica_module
from actors.hotlink.frames import framed, message
from actors.hotlink.handshake import NONCE_BYTES, REPLICA_PROOF_BYTES, Transcript, transcript_of
from actors.hotlink.owner import LinkServer
from actors.hotlink.replica import Link, LinkFull, LinkTimeout, _Connection

from .test_frames import Far, Transport, made
from .test_link import COMMIT, ECHO, Ask, Owner, Told, linked

OWNER_NONCE = bytes(NONCE_BYTES)


def greeted_by(replica_proof: bytes) -> Transcript:
    """As an owner sees it that has sent OWNER_NONCE."""
    transcript = transcript_of(b"secret", OWNER_NONCE, replica_proof)
    assert transcript is not None and transcript.is_replica_proof(replica_proof)
    return transcript


def owner_proof(replica_proof: bytes) -> bytes:
    return framed(greeted_by(replica_proof).owner_proof())


async def nowhere() -> tuple[str, int]:
    raise OSError("no owner")


async def test_a_full_link_refuses_new_work_and_never_the_end_of_admitted_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: bounded queues everywhere; but what was admitted can always be settled."""
    monkeypatch.setattr(replica_module, "UNANSWERED_MAX", 2)
    link = Link(b"secret", (ECHO, COMMIT), nowhere)
    link.call(ECHO, Ask("1"), 1, new_work=True)
    link.call(ECHO, Ask("2"), 1, new_work=True)
    with pytest.raises(LinkFull):
        link.call(ECHO, Ask("3"), 1, new_work=True)
    link.call(COMMIT, Ask("the end of 1"), 1)
    assert link.unanswered == 3


async def test_without_an_owner_a_call_ends_in_time() -> None:
    """Rule: no call waits for ever; whether it was carried out is then not known."""
    link = Link(b"secret", (ECHO, COMMIT), nowhere)
    link.start()
    with pytest.raises(LinkTimeout):
        await asyncio.wait_for(link.call(ECHO, Ask("x"), 1), 5)
    assert link.unanswered == 0 and not link.connected
    await link.stop()


async def test_without_an_owner_what_nobody_waits_for_any_more_is_not_kept() -> None:
    """Rule: bounded queues everywhere, however long an owner is away."""
    link = Link(b"secret", (ECHO, COMMIT), nowhere)
    link.start()
    lasting = link.call(ECHO, Ask("lasting"), 60_000)
    for _ in range(3):
        with pytest.raises(LinkTimeout):
            await asyncio.wait_for(link.call(ECHO, Ask("short"), 1), 5)
        assert [call.future for call in link._lanes[ECHO.number].waiting] == [lasting]
    await link.stop()
    with pytest.raises(LinkTimeout):
        await lasting


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("moment", ["accepted", "challenged", "taken"])
async def test_a_link_that_is_being_made_can_be_stopped(moment: str, steps: int) -> None:
    """Whatever moment of the owner's greeting it is: a stop that goes unheard would keep its process for ever."""
    accepted, ended = asyncio.Event(), asyncio.Event()
    go_on = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if moment == "accepted":
            accepted.set()
            await go_on.wait()
        writer.write(framed(OWNER_NONCE))
        if moment != "accepted":
            proof = (await reader.readexactly(4 + REPLICA_PROOF_BYTES))[4:]
            accepted.set()
            await go_on.wait()
        if moment == "taken":
            writer.write(owner_proof(proof))
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)

    async def somewhere() -> tuple[str, int]:
        return "127.0.0.1", server.sockets[0].getsockname()[1]

    link = Link(b"secret", (ECHO, COMMIT), somewhere)
    link.start()
    await asyncio.wait_for(accepted.wait(), 5)
    go_on.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    await asyncio.wait_for(link.stop(), 5)
    assert not link.connected
    await asyncio.wait_for(ended.wait(), 5)
    server.close()


class Standing:
    """A link whose connection stands, without a network."""

    def __init__(self, link: Link | None = None) -> None:
        self.link = link or Link(b"secret", (ECHO, COMMIT), nowhere)
        self.connection = _Connection(self.link, asyncio.get_running_loop())
        self.transport: Transport = made(self.connection)
        self.connection.data_received(framed(OWNER_NONCE))
        (proof,) = self.transport.take()
        assert not self.link.connected, "the owner may refuse the proof, and has not given its own"
        transcript = greeted_by(proof)
        self._far = Far(transcript.owner_key(), transcript.replica_key())
        self.connection.data_received(framed(transcript.owner_proof()))
        assert self.link.connected

    async def turn(self) -> None:
        for _ in range(2):
            await asyncio.sleep(0)

    def texts(self) -> list[list[str]]:
        """Of each frame written since."""
        contents = self._far.contents(self.transport.take())
        frames = [msgspec.msgpack.decode(content[1:]) for content in contents]
        return [[item[0] for _, item in items] for _, items in frames]

    def answer(self, frame: int, *sequences: int) -> None:
        self.receive(message(ECHO.number, (frame, [(n, Told("told")) for n in sequences])))

    def receive(self, content: bytes) -> None:
        self.connection.data_received(self._far.frames(content))

    def end(self) -> None:
        self.connection.connection_lost(None)


async def test_calls_of_all_kinds_in_one_turn_are_one_write() -> None:
    """Rule: a write wakes the owner, the dearest thing a call does; what gathers in a turn leaves in one."""
    standing = Standing()
    for text in "abc":
        standing.link.call(ECHO, Ask(text), 5_000)
    standing.link.call(COMMIT, Ask("d"), 5_000)
    assert standing.transport.writes == [], "the turn is not over"
    await standing.turn()
    assert len(standing.transport.writes) == 1
    assert standing.texts() == [["a", "b", "c"], ["d"]]
    standing.end()


async def test_the_last_call_leaves_at_once_with_what_waits() -> None:
    """No other call is expected to join its frame, so the end of the turn is not waited for; nothing leaves twice."""
    standing = Standing()
    standing.link.call(COMMIT, Ask("notice"), 5_000)
    standing.link.call(ECHO, Ask("last"), 5_000, is_last=True)
    assert len(standing.transport.writes) == 1
    assert standing.texts() == [["last"], ["notice"]]
    await standing.turn()
    assert standing.transport.writes == []
    standing.connection.pause_writing()
    standing.link.call(ECHO, Ask("later"), 5_000, is_last=True)
    assert standing.transport.writes == [], "a full transport takes nothing"
    standing.connection.resume_writing()
    assert standing.texts() == [["later"]]
    standing.end()


async def test_while_the_transport_is_full_calls_stay_on_their_lane() -> None:
    """Rule: an owner that does not read makes this side keep calls, which time out, not frames without bound."""
    standing = Standing()
    standing.connection.pause_writing()
    futures = [standing.link.call(ECHO, Ask(text), 5_000) for text in "ab"]
    await standing.turn()
    assert standing.transport.writes == [] and standing.link.unanswered == 2
    standing.connection.resume_writing()
    assert standing.texts() == [["a", "b"]]
    standing.answer(1, 1, 2)
    assert [(await future).text for future in futures] == ["told", "told"]
    standing.end()


async def test_what_waits_for_room_leaves_when_a_frame_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: at most two frames of a kind fly, of so many items each."""
    monkeypatch.setattr(replica_module, "FRAME_ITEMS_MAX", 2)
    monkeypatch.setattr(replica_module, "FEW_CALLS", 0)
    standing = Standing()
    for text in "abcdefg":
        standing.link.call(ECHO, Ask(text), 5_000)
    await standing.turn()
    assert standing.texts() == [["a", "b"], ["c", "d"]]
    standing.answer(0, 1, 2)
    await standing.turn()
    assert standing.texts() == [], "answered, but no frame was acknowledged"
    standing.answer(1)
    await standing.turn()
    assert standing.texts() == [["e", "f"]]
    standing.end()


async def test_a_few_calls_leave_at_once_in_however_many_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: the owner's group waits for the few calls that are under way, so none of them waits for the group here."""
    monkeypatch.setattr(replica_module, "FEW_CALLS", 4)
    standing = Standing()
    for text in "abcdef":
        standing.link.call(ECHO, Ask(text), 5_000)
        await standing.turn()
    assert standing.texts() == [["a"], ["b"], ["c"], ["d"]]
    standing.answer(1)
    await standing.turn()
    assert standing.texts() == [["e", "f"]]
    standing.answer(2)
    standing.answer(2)
    standing.link.call(ECHO, Ask("g"), 5_000)
    await standing.turn()
    assert standing.texts() == [], "four are in flight, as a frame is acknowledged once"
    standing.end()


async def test_after_a_break_what_is_unanswered_goes_again_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: resent by operation id, and nothing that was answered."""
    monkeypatch.setattr(replica_module, "FEW_CALLS", 0)
    standing = Standing()
    for text in "abc":
        standing.link.call(ECHO, Ask(text), 5_000)
        await standing.turn()
    assert standing.texts() == [["a"], ["b"]]
    standing.answer(1, 1)
    standing.end()
    assert not standing.link.connected and standing.link.unanswered == 2
    again = Standing(standing.link)
    assert again.texts() == [["b", "c"]]
    again.end()


async def test_what_pauses_before_it_is_asked_again_is_never_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a break sends it at once, and its pause is over. Else it would go again after its answer was delivered: the
    owner would take that answer for undelivered, and refund it when this replica ends."""
    monkeypatch.setattr(replica_module, "_AGAIN_SECONDS", (0,))
    standing = Standing()
    asked = standing.link.call(ECHO, Ask("asked"), 5_000)
    await standing.turn()
    assert standing.texts() == [["asked"]]
    standing.receive(message(ECHO.number, (1, [(1, None)])))
    standing.end()
    again = Standing(standing.link)
    assert again.texts() == [["asked"]]
    again.link.call(ECHO, Ask("other"), 5_000)
    await again.turn()
    assert again.texts() == [["other"]], "both frames fly, and the pause has ended"
    again.answer(2, 1)
    assert (await asked).text == "told"
    await again.turn()
    assert again.texts() == []
    again.end()


async def test_an_owner_that_falls_silent_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a half-open connection is noticed; the owner is looked up again, and what is unanswered is sent there."""
    monkeypatch.setattr(frames_module, "BEAT_SECONDS", 0.02)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(OWNER_NONCE))
        writer.write(owner_proof((await reader.readexactly(4 + REPLICA_PROOF_BYTES))[4:]))
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()

    silent = await asyncio.start_server(greet, "127.0.0.1", 0)
    owner = await Owner().start()
    ports = [owner.port, silent.sockets[0].getsockname()[1]]

    async def resolve() -> tuple[str, int]:
        return "127.0.0.1", ports.pop() if len(ports) > 1 else ports[0]

    link = Link(b"secret", (ECHO, COMMIT), resolve)
    link.start()
    assert (await asyncio.wait_for(link.call(ECHO, Ask("kept"), 20_000), 10)).text == "KEPT"
    await link.stop()
    silent.close()
    await owner.server.stop()


async def test_an_answer_that_cannot_be_read_does_not_end_the_link() -> None:
    """Rule: every call depends on the link's loop, so no answer, not even an owner's of another version, ends it."""
    owner = Owner()
    answers: list[Any] = [Ask("one field too few is still a Told"), None]

    def handle(items: list[Ask]) -> list[Any]:
        return [answers[0] if item.text == "odd" else owner.echo([item])[0] for item in items]

    owner.server = LinkServer(b"secret", {ECHO: handle})
    await owner.start()
    link = linked(owner)
    link._lanes[ECHO.number].decoder = _Refusing(link._lanes[ECHO.number].decoder)
    odd = link.call(ECHO, Ask("odd"), 300)
    with pytest.raises(LinkTimeout):
        await asyncio.wait_for(odd, 10)
    assert (await asyncio.wait_for(link.call(ECHO, Ask("fine"), 5_000), 10)).text == "FINE"
    await link.stop()
    await owner.server.stop()


class _Refusing:
    """A decoder that cannot read one particular answer."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    def decode(self, raw: Any) -> Any:
        if b"one field too few" in bytes(raw):
            raise ValueError("unreadable")
        return self._decoder.decode(raw)
