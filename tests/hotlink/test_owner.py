"""Guards the owner's side of the hot link byte by byte: greetings, bad frames, peers that do not listen or speak."""

import asyncio
import logging
import socket
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.api import HOLD
from actors.calls import HoldRequest, KeyProof
from actors.hotlink import frames as frames_module
from actors.hotlink import owner as owner_module
from actors.hotlink.frames import FRAME_BYTES_MAX, framed, message
from actors.hotlink.handshake import NONCE_BYTES, PEER_BYTES, REPLICA_PROOF_BYTES, Transcript
from actors.hotlink.owner import UNPROVEN_MAX, LinkServer, _Session, each
from actors.hotlink.replica import Link, LinkTimeout

from .test_frames import Far, ManualLoop, Transport, made
from .test_link import COMMIT, ECHO, Ask, Owner, linked


class Stranger:
    """A client that speaks the link's bytes itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._far = Far()

    @classmethod
    async def at(cls, owner: Owner) -> "Stranger":
        return cls(*await asyncio.open_connection("127.0.0.1", owner.port))

    async def frame(self) -> bytes:
        async with asyncio.timeout(10):
            return await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))

    async def ended(self) -> bool:
        """Until the owner ends the connection; whether it said nothing more."""
        async with asyncio.timeout(10):
            try:
                return await self._reader.read() == b""
            except ConnectionResetError:
                return True

    async def prove(self, secret: bytes = b"secret", peer: bytes = b"stranger") -> None:
        """Until the owner has proven itself too."""
        transcript = Transcript(secret, await self.frame(), bytes(NONCE_BYTES), peer)
        self.writer.write(framed(transcript.replica_proof()))
        assert transcript.is_owner_proof(await self.frame())
        self._far = Far(transcript.replica_key(), transcript.owner_key())

    def send(self, content: bytes) -> None:
        self.writer.write(self._far.frames(content))

    async def answer(self) -> bytes:
        """The next frame that is not a sign of life."""
        while True:
            (content,) = self._far.contents([await self.frame()])
            if content:
                return content


def proof(secret: bytes, nonce: bytes) -> bytes:
    return Transcript(secret, nonce, bytes(NONCE_BYTES), b"stranger").replica_proof()


def asked(frame: int, *texts: str) -> bytes:
    return message(ECHO.number, (frame, [(number, Ask(text)) for number, text in enumerate(texts)]))


async def test_a_proof_is_answered_with_the_owners_and_answers_follow() -> None:
    """Rule: the owner speaks first; the proof names the peer; an answer acknowledges its frame."""
    owner = await Owner().start()
    stranger = await Stranger.at(owner)
    await stranger.prove()
    stranger.send(asked(7, "a", "b"))
    answer = await stranger.answer()
    assert answer[0] == ECHO.number
    assert msgspec.msgpack.decode(answer[1:]) == [7, [[0, ["A"]], [1, ["B"]]]]
    stranger.writer.close()
    await owner.server.stop()


async def test_the_system_watches_for_the_loss_of_the_peers_machine() -> None:
    """A machine that is cut off sends no end of a connection, and its owners are another machine's soon."""
    owner = await Owner().start()
    link = linked(owner)
    await asyncio.wait_for(link.call(ECHO, Ask("a"), 10_000), 10)
    for connection in (link._connection, next(iter(owner.server._connections))):
        assert connection is not None
        used = connection._transport.get_extra_info("socket")
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4_000
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
    await link.stop()
    await owner.server.stop()


@pytest.mark.parametrize(
    "greeting",
    [
        framed(proof(b"guess", bytes(32))),
        framed(bytes(REPLICA_PROOF_BYTES)),
        framed(bytes(PEER_BYTES)),
        framed(b""),
        (REPLICA_PROOF_BYTES + 1).to_bytes(4, "big"),
        framed(asked(1, "x")),
    ],
    ids=["wrong secret", "zeros", "a peer alone", "nothing", "a frame longer than a proof", "no proof"],
)
async def test_who_does_not_prove_the_secret_is_sent_away(greeting: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Rule: nobody without the secret of the cluster is listened to, and it is logged who tried."""
    owner = await Owner().start()
    stranger = await Stranger.at(owner)
    await stranger.frame()
    with caplog.at_level(logging.WARNING):
        stranger.writer.write(greeting + framed(asked(1, "x")))
        assert await stranger.ended()
    assert "127.0.0.1" in caplog.text and "dropped" in caplog.text
    assert owner.frames == []
    stranger.writer.close()
    await owner.server.stop()


async def test_a_proof_holds_for_one_connection_only() -> None:
    """Rule: what was heard on the wire opens nothing; each connection has its own nonce."""
    owner = await Owner().start()
    first, second = await Stranger.at(owner), await Stranger.at(owner)
    nonces = [await first.frame(), await second.frame()]
    assert nonces[0] != nonces[1]
    second.writer.write(framed(proof(b"secret", nonces[0])))
    assert await second.ended()
    first.writer.close()
    second.writer.close()
    await owner.server.stop()


async def test_strangers_who_prove_nothing_do_not_gather() -> None:
    """Rule: bounded queues everywhere: however many connect and say nothing, a replica still gets in, at once."""
    owner = await Owner().start()
    strangers = [await Stranger.at(owner) for _ in range(UNPROVEN_MAX + 3)]
    for stranger in strangers:
        await stranger.frame()
    assert len(owner.server._unproven) == UNPROVEN_MAX
    assert [await stranger.ended() for stranger in strangers[:3]] == [True] * 3
    link = linked(owner)
    assert (await link.call(ECHO, Ask("a"), 5_000)).text == "A"
    await link.stop()
    for stranger in strangers:
        stranger.writer.close()
    await owner.server.stop()
    assert not owner.server._unproven


@pytest.mark.parametrize(
    "bad",
    [None, message(99, (1, [])), message(ECHO.number, ["no frame"])],
    ids=["too long", "unknown kind", "unreadable"],
)
async def test_a_frame_that_cannot_be_taken_ends_its_connection_alone(bad: bytes | None) -> None:
    """Rule: nothing a peer sends ends the owner, or the connections of others."""
    owner = await Owner().start()
    link = linked(owner)
    stranger = await Stranger.at(owner)
    await stranger.prove()
    if bad is None:
        stranger.writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    else:
        stranger.send(bad)
    assert await stranger.ended()
    assert owner.frames == []
    assert (await link.call(ECHO, Ask("a"), 5_000)).text == "A"
    stranger.writer.close()
    await link.stop()
    await owner.server.stop()


class Proven:
    """A connection that has proven itself, without a network; turns happen when the test says so."""

    def __init__(self, owner: Owner) -> None:
        self.loop = ManualLoop()
        self.session = _Session(owner.server, cast(asyncio.AbstractEventLoop, self.loop))
        self.transport: Transport = made(self.session)
        (nonce,) = self.transport.take()
        transcript = Transcript(b"secret", nonce, bytes(NONCE_BYTES), b"stranger")
        self.session.data_received(framed(transcript.replica_proof()))
        assert self.transport.take() == [transcript.owner_proof()]
        self._far = Far(transcript.replica_key(), transcript.owner_key())

    def frames(self, *contents: bytes) -> bytes:
        return self._far.frames(*contents)

    def receive(self, *contents: bytes) -> None:
        """All in one read."""
        self.session.data_received(self._far.frames(*contents))

    def answers(self) -> list[list[Any]]:
        """Of each frame written since: the number of the frame that it acknowledges, and the replies."""
        return [msgspec.msgpack.decode(content[1:]) for content in self._far.contents(self.transport.take())]


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3), max_size=5), st.lists(st.integers(1, 40), max_size=30))
def test_frames_are_handled_once_each_however_they_are_cut(frames: list[list[str]], sizes: list[int]) -> None:
    """Rule: one call of the handler a frame, in order; one answer a frame."""
    owner = Owner()
    proven = Proven(owner)
    stream = proven.frames(*(asked(number, *texts) for number, texts in enumerate(frames, 1)))
    for size in [*sizes, len(stream) or 1]:
        proven.session.data_received(stream[:size])
        stream = stream[size:]
    assert owner.frames == frames
    answers = proven.answers()
    assert [answer[0] for answer in answers] == list(range(1, len(frames) + 1))
    assert [[text for _, (text,) in answer[1]] for answer in answers] == [
        [text.upper() for text in texts] for texts in frames
    ]


def test_all_frames_of_one_read_are_answered_in_one_write() -> None:
    """Rule: a write wakes the peer, so what is ready together leaves together."""
    proven = Proven(Owner())
    proven.receive(asked(1, "a"), asked(2, "b"))
    assert len(proven.transport.writes) == 1
    assert len(proven.answers()) == 2


async def test_commits_that_end_in_one_turn_are_answered_in_one_write() -> None:
    """Rule: as above, for answers that had to wait; two frames, each acknowledged by its own commit."""
    owner = Owner()
    proven = Proven(owner)
    for frame in (1, 2):
        proven.receive(message(COMMIT.number, (frame, [(frame, Ask("x"))])))
    assert proven.transport.writes == [], "neither is durable"
    for commit in owner.commits:
        commit.set_result(None)
    await asyncio.sleep(0)
    proven.loop.turn()
    assert len(proven.transport.writes) == 1
    assert [answer[0] for answer in proven.answers()] == [1, 2]


async def test_the_answer_to_the_only_commit_leaves_without_another_turn() -> None:
    """A lone caller waits for it; and what waits no more is not counted for the next one."""
    owner = Owner()
    proven = Proven(owner)
    for frame in (1, 2):
        proven.receive(message(COMMIT.number, (frame, [(frame, Ask("x"))])))
        owner.commits[-1].set_result(None)
        await asyncio.sleep(0)
        assert len(proven.transport.writes) == 1, "the loop has had no further turn"
        assert [answer[0] for answer in proven.answers()] == [frame]
    proven.loop.turn()
    assert proven.transport.writes == []


async def test_a_commit_that_ends_after_its_replica_left_is_told_to_nobody() -> None:
    owner = Owner()
    proven = Proven(owner)
    proven.receive(message(COMMIT.number, (1, [(1, Ask("x"))])))
    proven.session.connection_lost(None)
    owner.commits[0].set_exception(ConnectionError("commit failed"))
    await asyncio.sleep(0)
    proven.loop.turn()
    assert proven.transport.writes == []


async def test_a_request_that_fails_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """By the client's request and by the operation, whether it fails at once or later."""
    request = HoldRequest(b"replica1" + bytes(8), KeyProof(b"", bytes(8)), (), "a1-7")

    async def later(_: HoldRequest) -> Any:
        raise ZeroDivisionError

    def at_once(_: HoldRequest) -> Any:
        raise ZeroDivisionError

    for handle in (at_once, later):
        server = LinkServer(b"secret", {HOLD: each(handle)})
        port = await server.start("127.0.0.1", 0)
        link = Link(b"secret", (HOLD,), lambda port=port: _at(port))  # type: ignore[misc]
        link.start()
        with pytest.raises(LinkTimeout):
            await link.call(HOLD, request, 10_000)
        await link.stop()
        await server.stop()
    named = [(vars(line)["request_id"], vars(line)["operation"]) for line in caplog.records if "failed" in line.message]
    assert named == [("a1-7", request.operation.hex())] * 2


async def _at(port: int) -> tuple[str, int]:
    return "127.0.0.1", port


# --- peers that do not listen, or do not speak --------------------------------------------------------------------


async def test_an_owner_reads_no_further_while_its_answers_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: bounded queues everywhere; and once they are taken, everything asked is answered, in order."""
    monkeypatch.setattr(frames_module, "OUTBOX_BYTES_MAX", 1 << 16)
    full = asyncio.Event()
    pause = _Session.pause_writing

    def pause_writing(self: _Session) -> None:
        pause(self)
        full.set()

    monkeypatch.setattr(_Session, "pause_writing", pause_writing)
    owner = await Owner().start()
    stranger = await Stranger.at(owner)
    await stranger.prove()
    text, frames = "a" * (1 << 18), 200
    for number in range(1, frames + 1):
        stranger.send(asked(number, text))
    await asyncio.wait_for(full.wait(), 20)
    (session,) = owner.server._connections
    taken = len(owner.frames)
    for _ in range(100):
        await asyncio.sleep(0)
    kept = cast(asyncio.WriteTransport, session._transport).get_write_buffer_size()
    assert len(owner.frames) == taken < frames and kept <= (1 << 16) + 2 * len(text)
    for number in range(1, frames + 1):
        assert msgspec.msgpack.decode((await stranger.answer())[1:])[0] == number
    stranger.writer.close()
    await owner.server.stop()


async def test_a_silent_peer_is_dropped_and_told_gone_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a half-open connection is noticed without anybody having to close it."""
    monkeypatch.setattr(frames_module, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    gone: asyncio.Queue[bytes] = asyncio.Queue()
    owner = Owner()
    owner.server = LinkServer(b"secret", {ECHO: owner.echo}, gone.put_nowait)
    await owner.start()
    link = linked(owner)
    stranger = await Stranger.at(owner)
    await stranger.prove()
    assert await asyncio.wait_for(gone.get(), 10) == b"stranger"
    assert (await link.call(ECHO, Ask("alive"), 5_000)).text == "ALIVE"
    assert gone.empty(), "the other replica says nothing either, but lives"
    stranger.writer.close()
    await link.stop()
    await owner.server.stop()


async def test_an_owner_that_stops_tells_nobody_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the replica that died."""
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0)
    gone: asyncio.Queue[bytes] = asyncio.Queue()
    owner = Owner()
    owner.server = LinkServer(b"secret", {ECHO: owner.echo}, gone.put_nowait)
    await owner.start()
    link = linked(owner)
    await link.call(ECHO, Ask("a"), 5_000)
    await owner.server.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert gone.empty()
    await link.stop()
