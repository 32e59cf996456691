"""Guards the greeting of a hot link: both ends prove the secret of the cluster, and nothing overheard is a proof."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.hotlink.frames import framed
from actors.hotlink.handshake import REPLICA_PROOF_BYTES, Transcript, transcript_of
from actors.hotlink.replica import Link, LinkTimeout

from .test_link import COMMIT, ECHO, Ask, Owner, Told, linked

MAC_BYTES = 32
Answer = Callable[[bytes], bytes]  # Of a false owner: what it sends once it has the replica's proof.


async def frame_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


class FalseOwner:
    """Listens where an owner should, and keeps what replicas send behind their proof."""

    def __init__(self, nonce: bytes, answer: Answer) -> None:
        self._nonce, self._answer = nonce, answer
        self.proofs: list[bytes] = []
        self.taken = b""  # All that replicas sent behind their proofs.
        self.refused = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(framed(self._nonce))
            self.proofs.append(await frame_of(reader))
            writer.write(self._answer(self.proofs[-1]))
            self.taken += await asyncio.wait_for(reader.read(), 5)
        self.refused.set()
        writer.close()


@contextlib.asynccontextmanager
async def a_replica_of(false: FalseOwner) -> AsyncIterator[Link]:
    """A replica that was led to the false owner, with a call that waits to be sent."""
    server = await asyncio.start_server(false.serve, "127.0.0.1", 0)

    async def resolve() -> tuple[str, int]:
        return "127.0.0.1", server.sockets[0].getsockname()[1]

    link = Link(b"secret", (ECHO, COMMIT), resolve)
    link.start()
    waiting = link.call(ECHO, Ask("for the owner alone"), 60_000)
    try:
        yield link
    finally:
        await link.stop()
        server.close()
        with pytest.raises(LinkTimeout):
            await waiting


def nothing_but(answer: bytes) -> Answer:
    return lambda proof: answer


FALSE_ANSWERS: dict[str, Answer] = {
    "the proof is taken": nothing_but(framed(b"")),
    "zeros": nothing_but(framed(bytes(MAC_BYTES))),
    "no proof at all": nothing_but(framed(b"welcome")),
    "its own proof sent back": lambda proof: framed(proof[-MAC_BYTES:]),
    "its nonce sent back": lambda proof: framed(proof[8 : 8 + MAC_BYTES]),
    "all of it sent back": framed,
}


@pytest.mark.parametrize("answer", FALSE_ANSWERS)
async def test_a_false_owner_at_the_owners_address_gets_no_frame(answer: str) -> None:
    """Rule: a replica sends a request only to an owner that has proven the secret; its own proof sent back is none."""
    false = FalseOwner(bytes(MAC_BYTES), FALSE_ANSWERS[answer])
    async with a_replica_of(false) as link:
        await asyncio.wait_for(false.refused.wait(), 10)
        assert false.taken == b"" and not link.connected and link.unanswered == 1


async def test_a_replayed_greeting_of_the_true_owner_is_refused() -> None:
    """Rule: what was overheard on one connection opens no other, as each replica's nonce is fresh."""
    owner = await Owner().start()
    heard = b""

    async def overhear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        of_owner, to_owner = await asyncio.open_connection("127.0.0.1", owner.port)
        nonce = await frame_of(of_owner)
        writer.write(framed(nonce))
        to_owner.write(framed(await frame_of(reader)))
        proof = await frame_of(of_owner)
        writer.write(framed(proof))
        heard = nonce + proof
        to_owner.close()
        writer.close()

    between = await asyncio.start_server(overhear, "127.0.0.1", 0)
    wire = Owner()
    wire.port = between.sockets[0].getsockname()[1]
    link = linked(wire)
    async with asyncio.timeout(10):
        while len(heard) < MAC_BYTES:  # noqa: ASYNC110  # It happens in the replica's own tasks.
            await asyncio.sleep(0.01)
    await link.stop()
    between.close()
    await owner.server.stop()

    nonce, proof = heard[:MAC_BYTES], heard[MAC_BYTES:]
    false = FalseOwner(nonce, nothing_but(framed(proof)))
    async with a_replica_of(false) as replica:
        await asyncio.wait_for(false.refused.wait(), 10)
        assert false.taken == b"" and not replica.connected


@pytest.mark.parametrize("to", ["owner", "edge"])
async def test_a_relay_between_replica_and_owner_adds_nothing(to: str) -> None:
    """Rule: passing the greeting on makes nobody a peer: a frame of the relay's own ends the connection, untaken."""
    owner = await Owner().start()
    forged = {
        "owner": b"\1" + msgspec.msgpack.encode([1, [[1, Ask("forged")]]]),
        "edge": b"\1" + msgspec.msgpack.encode([1, [[1, Told("forged")]]]),
    }[to]
    relayed: list[int] = []

    async def relay(of_replica: asyncio.StreamReader, to_replica: asyncio.StreamWriter) -> None:
        of_owner, to_owner = await asyncio.open_connection("127.0.0.1", owner.port)
        for reader, writer in ((of_owner, to_replica), (of_replica, to_owner), (of_owner, to_replica)):
            writer.write(framed(await frame_of(reader)))
        relayed.append(1)
        if len(relayed) == 1:
            (to_owner if to == "owner" else to_replica).write(framed(forged))

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    writer.write(framed(await frame_of(reader)))
            writer.close()

        await asyncio.gather(copy(of_owner, to_replica), copy(of_replica, to_owner))

    between = await asyncio.start_server(relay, "127.0.0.1", 0)
    wire = Owner()
    wire.port = between.sockets[0].getsockname()[1]
    link = linked(wire)
    answer = await asyncio.wait_for(link.call(ECHO, Ask("own"), 20_000), 10)
    assert answer.text == "OWN" and ["forged"] not in owner.frames
    assert len(relayed) == 2, "the connection that carried it is over, and the call went on by another"
    await link.stop()
    between.close()
    await owner.server.stop()


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.binary(min_size=8, max_size=8))
def test_a_proof_is_of_one_role_one_connection_and_one_peer(
    owner_nonce: bytes, replica_nonce: bytes, peer: bytes
) -> None:
    """Rule: secret, role, both nonces and the peer are all in the MAC: with any of them exchanged it is another."""
    transcript = Transcript(b"secret", owner_nonce, replica_nonce, peer)
    seen = transcript_of(b"secret", owner_nonce, transcript.replica_proof())
    assert seen is not None and seen.is_replica_proof(transcript.replica_proof())
    assert (seen.peer, transcript.is_owner_proof(seen.owner_proof())) == (peer, True)
    other = bytes(byte ^ 1 for byte in owner_nonce)
    others = [
        Transcript(b"another", owner_nonce, replica_nonce, peer),
        Transcript(b"secret", other, replica_nonce, peer),
        Transcript(b"secret", owner_nonce, bytes(byte ^ 1 for byte in replica_nonce), peer),
        Transcript(b"secret", owner_nonce, replica_nonce, bytes(byte ^ 1 for byte in peer)),
    ]
    for wrong in others:
        assert not transcript.is_replica_proof(wrong.replica_proof()) and not transcript.is_owner_proof(
            wrong.owner_proof()
        )
    assert not transcript.is_owner_proof(transcript.replica_proof()[-MAC_BYTES:]), "the other role's"
    assert b"secret" not in transcript.replica_proof() + transcript.owner_proof()


@pytest.mark.parametrize("length", [0, 1, 71, 73])
def test_a_proof_of_another_length_is_none(length: int) -> None:
    """Rule: nothing is cut out of what is too short or too long."""
    assert REPLICA_PROOF_BYTES == 72
    assert transcript_of(b"secret", bytes(32), bytes(length)) is None
