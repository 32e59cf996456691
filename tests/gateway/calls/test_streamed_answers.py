"""Answers that come piece by piece, through the real door."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from actors.gateway.calls import disconnects, streamed_answers
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import AsgiClient
from actors.gateway.calls.streamed_answers import StreamedAnswers
from actors.pages import Page, PageAnswer, PageRequest
from tests.gateway.test_short_way import Client
from tests.gateway.test_wire import listening
from tests.gateway.world import a_world, constant


class Source:
    """A page that streams what the test puts in; it notes how many pieces were asked for, and its end."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.asked = 0
        self.ended = asyncio.Event()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                self.asked += 1
                piece = await self.pieces.get()
                if piece is None:
                    return
                yield piece
        finally:
            self.ended.set()

    async def handler(self, request: PageRequest) -> PageAnswer:
        return PageAnswer(self.stream(), content_type="text/event-stream")

    @property
    def pages(self) -> tuple[Page, ...]:
        return (Page("GET", "/events", self.handler, is_public=True, is_limited=False),)


REQUEST = b"GET /events HTTP/1.1\r\nhost: a\r\n\r\n"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The disconnection of a client is looked for from the next turn of the loop on."""
    monkeypatch.setattr(disconnects, "LOOK_AFTER_SECONDS", 0)


async def test_pieces_leave_as_they_come_until_the_generator_ends():
    """The connection stays good for the next request."""
    source = Source()
    async with a_world(pages=source.pages) as world, listening(world.door) as port:
        client = await Client.connect(port)
        client.send(REQUEST)
        source.pieces.put_nowait(b"data: 1\n\n")
        head = await asyncio.wait_for(client.reader.readuntil(b"data: 1\n\n"), 10)
        assert b"content-type: text/event-stream" in head and b"content-length" not in head
        assert not source.ended.is_set()
        source.pieces.put_nowait(b"data: 2\n\n")
        source.pieces.put_nowait(None)
        rest = await asyncio.wait_for(client.reader.readuntil(b"0\r\n\r\n"), 10)
        assert b"data: 2\n\n" in rest
        client.send(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        assert [status for status, _, _ in await client.read(1)] == [503]
        client.writer.close()


async def test_a_client_that_leaves_ends_the_generator():
    """Threat 36: nothing works on for a client that is gone."""
    source = Source()
    async with a_world(pages=source.pages) as world, listening(world.door) as port:
        client = await Client.connect(port)
        client.send(REQUEST)
        source.pieces.put_nowait(b"data: 1\n\n")
        await asyncio.wait_for(client.reader.readuntil(b"data: 1\n\n"), 10)
        client.writer.close()
        await asyncio.wait_for(source.ended.wait(), 10)


async def test_a_replica_that_closes_breaks_streams_off():
    """A drain does not wait for a stream that never ends."""
    source = Source()
    async with a_world(pages=source.pages) as world, listening(world.door) as port:
        client = await Client.connect(port)
        client.send(REQUEST)
        source.pieces.put_nowait(b"data: 1\n\n")
        await asyncio.wait_for(client.reader.readuntil(b"data: 1\n\n"), 10)
        await world.door.close()
        await asyncio.wait_for(source.ended.wait(), 10)
        assert not (await asyncio.wait_for(client.reader.read(), 10)).endswith(b"0\r\n\r\n")


async def test_too_many_streams_are_refused_before_they_begin(monkeypatch):
    """The generator is closed, and was never asked for a piece."""
    monkeypatch.setattr(streamed_answers, "STREAMS_MAX", 0)
    source = Source()
    async with a_world(pages=source.pages) as world:
        response = await world.http.get("/events")
        assert (response.status_code, constant(response)) == (503, "SERVICE_TEMPORARILY_UNAVAILABLE")
        assert source.asked == 0


async def test_a_head_request_starts_no_stream():
    source = Source()
    async with a_world(pages=source.pages) as world:
        assert (await world.http.head("/events")).headers["content-type"] == "text/event-stream"
        assert source.asked == 0


async def test_the_next_piece_is_asked_for_once_the_last_one_was_taken():
    """Backpressure: a client that takes nothing costs one piece of memory, however much there is."""
    source, taken, wanted = Source(), asyncio.Event(), asyncio.Event()
    for _ in range(5):
        source.pieces.put_nowait(b"data\n\n")
    source.pieces.put_nowait(None)

    async def send(message) -> None:
        if message.get("body"):
            wanted.set()
            await taken.wait()

    async def receive():
        await asyncio.Event().wait()

    response = Response(200, b"", [], stream=source.stream())
    client = AsgiClient([], None, receive)
    sending = asyncio.ensure_future(StreamedAnswers().send(send, client, response, is_head=False))
    await wanted.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert source.asked == 1
    taken.set()
    await sending
    assert source.asked == 6


async def test_a_replica_that_leaves_ends_streams_as_if_they_were_over():
    """The answer is whole, so a client of server-sent events connects again and names its last event. Others go on
    until it is their turn."""
    source = Source()
    async with a_world(pages=source.pages) as world, listening(world.door) as port:
        streams = world.door._streams
        client = await Client.connect(port)
        client.send(REQUEST)
        source.pieces.put_nowait(b"data: 1\n\n")
        await asyncio.wait_for(client.reader.readuntil(b"data: 1\n\n"), 10)
        streams.stop_taking()
        assert streams.left == 1 and not streams.is_full
        streams.end_some(0)
        assert not source.ended.is_set()
        streams.end_some(3)
        assert streams.left == 0
        await asyncio.wait_for(source.ended.wait(), 10)
        assert (await asyncio.wait_for(client.reader.readuntil(b"0\r\n\r\n"), 10)).endswith(b"0\r\n\r\n")
