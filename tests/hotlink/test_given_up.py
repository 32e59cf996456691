"""A replica that its owner has given up starts over under another name, and a replica knows until when it was not."""

import asyncio

import pytest

from actors.clock import ManualClock
from actors.hotlink.owner import StartOver
from actors.hotlink.replica import LinkGivenUp

from .test_link import COMMIT, ECHO, Ask, Owner, Told, linked

FIRST, SECOND = b"name-one", b"name-two"


class Fenced(Owner):
    """An owner that has given up some names."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up: set[bytes] = set()
        self.names: list[bytes] = []
        self.server.is_given_up = self._is_given_up

    def _is_given_up(self, peer: bytes) -> bool:
        self.names.append(peer)
        return peer in self.given_up


async def test_an_answered_frame_says_how_long_the_replica_is_not_given_up() -> None:
    """Four seconds from when it was sent, not from when it was answered; an unanswered one says nothing."""
    owner, clock = await Fenced().start(), ManualClock()
    link = linked(owner, peer=FIRST, clock=clock)
    assert link.heard_until == 0
    await link.call(ECHO, Ask("a"), 5_000)
    first = link.heard_until
    assert first == clock.monotonic() + 4
    waiting = link.call(COMMIT, Ask("b"), 5_000)
    await asyncio.wait_for(owner.asked[0].wait(), 5)
    clock.advance(3)
    assert link.heard_until == first
    owner.commits[0].set_result(None)
    await waiting
    assert link.heard_until == first, "it was sent when the first was"
    await link.call(ECHO, Ask("c"), 5_000)
    assert link.heard_until == first + 3
    await link.stop()
    await owner.server.stop()


async def test_an_replica_hears_that_it_was_given_up_before_any_answer() -> None:
    """Else an answer on the new connection would let it believe that it was in touch all the time."""
    owner, clock = await Fenced().start(), ManualClock()
    owner.given_up = {FIRST}
    link = linked(owner, peer=FIRST, clock=clock)
    heard: list[float] = []

    def given_up() -> None:
        heard.append(link.heard_until)
        link.start_over(SECOND)

    link.on_given_up = given_up
    asked = link.call(ECHO, Ask("a"), 5_000)
    assert (await asked).text == "A"
    assert heard == [0], "told once, and before the answer"
    assert owner.names == [FIRST, SECOND]
    assert link.peer == SECOND and link.heard_until == clock.monotonic() + 4
    await link.stop()
    await owner.server.stop()


async def test_a_request_of_a_given_up_replica_is_refused_alone() -> None:
    """Others of the same frame are answered: a replica that started over still has requests of its old name."""
    owner = await Fenced().start()
    handler, decoder = owner.server.handlers[ECHO.number]

    def refusing(items: list[Ask]) -> list[object]:
        return [StartOver() if item.text == "old" else reply for item, reply in zip(items, handler(items), strict=True)]

    owner.server.handlers[ECHO.number] = refusing, decoder
    link = linked(owner, peer=FIRST, clock=ManualClock())
    old, new = link.call(ECHO, Ask("old"), 5_000), link.call(ECHO, Ask("new"), 5_000)
    assert await new == Told("NEW")
    with pytest.raises(LinkGivenUp):
        await old
    assert link.unanswered == 0
    await link.stop()
    await owner.server.stop()


async def test_starting_over_sends_again_what_is_unanswered() -> None:
    """On a new connection under the new name; whether it is still served is for its handler to say."""
    owner, clock = await Fenced().start(), ManualClock()
    link = linked(owner, peer=FIRST, clock=clock)
    waiting = link.call(COMMIT, Ask("kept"), 20_000)
    await asyncio.wait_for(owner.asked[0].wait(), 5)
    link.start_over(SECOND)
    assert link.heard_until == 0
    await asyncio.wait_for(owner.asked[1].wait(), 5)
    owner.commits[1].set_result(None)
    assert (await waiting).text == "kept"
    assert owner.names == [FIRST, SECOND]
    await link.stop()
    await owner.server.stop()
