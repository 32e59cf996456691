"""Guards the hot link: coalescing, flow control, proof of the cluster's secret, and asking again after a break."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from actors.clock import Clock, SystemClock
from actors.hotlink import owner as owner_module
from actors.hotlink import replica as replica_module
from actors.hotlink.frames import AskAgain, MessageKind
from actors.hotlink.handshake import PEER_BYTES
from actors.hotlink.owner import LinkServer, each
from actors.hotlink.replica import Link, LinkTimeout


class Ask(msgspec.Struct, frozen=True, array_like=True):
    text: str


class Told(msgspec.Struct, frozen=True, array_like=True):
    text: str


ECHO = MessageKind(1, Ask, Told)
COMMIT = MessageKind(2, Ask, Told)


class Owner:
    """A link server whose commits finish when the test says so."""

    def __init__(self, secret: bytes = b"secret") -> None:
        self.frames: list[list[str]] = []
        self.commits: list[asyncio.Future[None]] = []
        self.asked = [asyncio.Event() for _ in range(4)]  # The n-th is set by the n-th frame of commits.
        self.server = LinkServer(secret, {ECHO: self.echo, COMMIT: self.commit})
        self.port = 0

    async def start(self) -> "Owner":
        self.port = await self.server.start("127.0.0.1", self.port)
        return self

    def echo(self, items: list[Ask]) -> list[Any]:
        self.frames.append([item.text for item in items])
        return [self._slow(item) if item.text.startswith("slow") else Told(item.text.upper()) for item in items]

    async def _slow(self, item: Ask) -> Told:
        await asyncio.sleep(0)
        return Told(item.text.upper())

    def commit(self, items: list[Ask]) -> list[Any]:
        self.frames.append([item.text for item in items])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked[len(self.commits)].set()
        self.commits.append(future)
        return [(Told(item.text), future) for item in items]


async def owner_that_tells_who_is_gone() -> tuple[Owner, asyncio.Queue[bytes]]:
    owner, gone = Owner(), asyncio.Queue[bytes]()
    owner.server = LinkServer(b"secret", {ECHO: owner.echo, COMMIT: owner.commit}, gone.put_nowait)
    return await owner.start(), gone


def linked(
    owner: Owner, secret: bytes = b"secret", peer: bytes = bytes(PEER_BYTES), clock: Clock | None = None
) -> Link:
    async def resolve() -> tuple[str, int]:
        return "127.0.0.1", owner.port

    link = Link(secret, (ECHO, COMMIT), resolve, peer, clock or SystemClock())
    link.start()
    return link


@contextlib.asynccontextmanager
async def scene(owner: Owner | None = None, secret: bytes = b"secret") -> AsyncIterator[tuple[Owner, Link]]:
    """An owner that listens, and a replica that is linked to it."""
    owner = await (owner or Owner()).start()
    link = linked(owner, secret)
    try:
        yield owner, link
    finally:
        await link.stop()
        await owner.server.stop()


async def commits(owner: Owner, count: int) -> None:
    """Until the owner has been asked for so many commits; a frame crosses a real socket, so it is not at once."""
    async with asyncio.timeout(60):
        await owner.asked[count - 1].wait()


async def test_what_gathers_goes_in_one_frame() -> None:
    """Rule: never one message per item; everything that waits when the link is ready is one frame."""
    async with scene() as (owner, link):
        answers = await asyncio.gather(*(link.call(ECHO, Ask(f"a{n}"), 60_000) for n in range(50)))
        assert [answer.text for answer in answers] == [f"A{n}" for n in range(50)]
        assert len(owner.frames) == 1, "all fifty waited for the connection, so one frame carries them"


async def test_slow_items_do_not_hold_up_the_others() -> None:
    """Rule: an account that must be loaded first does not delay accounts that are ready."""
    async with scene() as (_, link):
        slow, fast = link.call(ECHO, Ask("slow"), 60_000), link.call(ECHO, Ask("fast"), 60_000)
        assert (await fast).text == "FAST"
        assert (await slow).text == "SLOW"


async def test_a_commit_is_awaited_and_at_most_two_frames_fly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a post is answered only when its group is durable; at most two frames of a kind are in flight."""
    monkeypatch.setattr(replica_module, "FEW_CALLS", 0)
    async with scene() as (owner, link):
        futures = []
        for n in range(4):
            futures.append(link.call(COMMIT, Ask(str(n)), 60_000))
            await commits(owner, min(n + 1, 2))
        assert not any(future.done() for future in futures)
        owner.commits[0].set_result(None)
        await futures[0]
        await commits(owner, 3)
        assert owner.frames[2] == ["2", "3"], "what gathered while two flew is one frame"
        for commit in owner.commits[1:]:
            commit.set_result(None)
        await asyncio.gather(*futures)


async def test_a_failed_commit_is_asked_again() -> None:
    """Rule: nobody is answered from state that was not written; the replica asks again by operation id."""
    async with scene() as (owner, link):
        future = link.call(COMMIT, Ask("x"), 60_000)
        await commits(owner, 1)
        owner.commits[0].set_exception(ConnectionError("commit failed"))
        await commits(owner, 2)
        owner.commits[1].set_result(None)
        assert (await future).text == "x"


async def test_a_broken_link_asks_again_at_the_new_owner() -> None:
    """Rule: on a broken link the replica finds the owner again and re-sends what is unanswered."""
    first = await Owner().start()
    link = linked(first)
    future = link.call(COMMIT, Ask("kept"), 60_000)
    await commits(first, 1)
    await first.server.stop()
    second = Owner()
    second.port = 0
    await second.start()
    first.port = second.port
    await commits(second, 1)
    second.commits[0].set_result(None)
    assert (await future).text == "kept"
    await link.stop()
    await second.server.stop()


async def test_a_wrong_secret_gets_no_answers() -> None:
    """Rule: the link's first frame proves the secret of the cluster."""
    async with scene(secret=b"guess") as (owner, link):
        future = link.call(ECHO, Ask("x"), 1)
        with pytest.raises(LinkTimeout):
            await future
        assert owner.frames == []


async def test_a_peer_that_stays_away_is_gone_and_one_that_returns_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a replica is dead when all its connections have been gone for a while; it is told once."""
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.05)
    owner, gone = await owner_that_tells_who_is_gone()
    links = [linked(owner, peer=peer) for peer in (b"leaving!", b"leaving!", b"staying!")]
    for link in links:
        await link.call(ECHO, Ask("hello"), 60_000)
    await links[0].stop()
    await links[1].stop()
    assert await asyncio.wait_for(gone.get(), 60) == b"leaving!"
    assert (await links[2].call(ECHO, Ask("here"), 60_000)).text == "HERE"
    assert gone.empty()
    await links[2].stop()
    await owner.server.stop()


async def test_a_peer_that_breaks_twice_gets_the_whole_time_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: the time away counts from the last break; a replica that came back in between is not declared dead."""
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 1.0)
    owner, gone = await owner_that_tells_who_is_gone()

    async def visit() -> None:
        link = linked(owner, peer=b"visitor!")
        await link.call(ECHO, Ask("hello"), 60_000)
        await link.stop()

    await visit()
    again = asyncio.get_running_loop().time()  # Before the second break, which the owner may see before `stop` ends.
    await visit()
    assert await asyncio.wait_for(gone.get(), 60) == b"visitor!"
    assert asyncio.get_running_loop().time() - again >= 1.0
    assert gone.empty(), "told once"
    await owner.server.stop()


async def test_an_item_that_fails_fails_alone() -> None:
    """Rule: one bad item does not starve its replica; it is refused, not asked again, and the others are answered."""
    owner = Owner()

    def handle(item: Ask) -> Told:
        if item.text == "bad":
            raise ValueError("a fault of the owner's")
        return Told(item.text)

    owner.server = LinkServer(b"secret", {ECHO: each(handle)})
    async with scene(owner) as (_, link):
        futures = [link.call(ECHO, Ask(text), 60_000) for text in ("a", "bad", "b")]
        assert [(await futures[0]).text, (await futures[2]).text] == ["a", "b"]
        with pytest.raises(LinkTimeout, match="failed"):
            await futures[1]


async def test_an_owner_that_cannot_say_is_asked_again() -> None:
    """Rule: while the ledger is being recovered a settle is neither lost nor refused, but asked again."""
    owner = Owner()
    times = {"now": 0, "later": 0}

    async def later(item: Ask) -> Told:
        times["later"] += 1
        if times["later"] < 3:
            raise AskAgain
        return Told(item.text)

    def now(item: Ask) -> Any:
        times["now"] += 1
        if times["now"] < 3:
            raise AskAgain
        return Told(item.text)

    owner.server = LinkServer(b"secret", {ECHO: each(now), COMMIT: each(later)})
    async with scene(owner) as (_, link):
        assert (await link.call(ECHO, Ask("a"), 60_000)).text == "a"
        assert (await link.call(COMMIT, Ask("b"), 60_000)).text == "b"
        assert times == {"now": 3, "later": 3}
