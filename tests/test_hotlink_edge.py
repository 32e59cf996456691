"""Guards what an edge does on its own: bounds, time limits, and never giving its loop up."""

import asyncio
from typing import Any

import pytest

from actors import hotlink_edge
from actors.hotlink import LinkServer
from actors.hotlink_edge import Link, LinkFull, LinkTimeout

from .test_hotlink import COMMIT, ECHO, Ask, Owner, linked


async def nowhere() -> tuple[str, int]:
    raise OSError("no owner")


async def test_a_full_link_refuses_new_work_and_never_the_end_of_admitted_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: bounded queues everywhere; but what was admitted can always be settled."""
    monkeypatch.setattr(hotlink_edge, "UNANSWERED_MAX", 2)
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


@pytest.mark.parametrize("steps", range(4))
async def test_a_link_that_is_being_made_can_be_stopped(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Whatever moment of the owner's greeting it is: a stop that goes unheard would keep its process for ever."""
    greeted, listening = asyncio.Event(), asyncio.Event()

    class Connection:
        async def __aenter__(self) -> "Connection":
            return self

        async def __aexit__(self, *error: object) -> None: ...

        async def recv(self) -> bytes:
            listening.set()
            await greeted.wait()
            return b"nonce"

        async def send(self, message: bytes) -> None: ...

        def __aiter__(self) -> "Connection":
            return self

        async def __anext__(self) -> bytes:
            await asyncio.Event().wait()
            raise AssertionError("never")

    async def somewhere() -> tuple[str, int]:
        return "127.0.0.1", 1

    monkeypatch.setattr(hotlink_edge, "connect", lambda *_, **__: Connection())
    link = Link(b"secret", (ECHO, COMMIT), somewhere)
    link.start()
    await listening.wait()
    greeted.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    await asyncio.wait_for(link.stop(), 5)


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
