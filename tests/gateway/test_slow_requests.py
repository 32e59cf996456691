"""Requests that arrive too slowly, on a real socket. Threat 48."""

import asyncio
import contextlib
import json

import pytest

from .test_wire import BODY, listening, our_ways, post
from .world import a_world

_SECONDS_MAX = 0.2


async def drip(port: int, beginning: bytes, byte: bytes = b"x") -> bytes:
    """All that comes back to a client that sends a byte now and then, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = bytearray()

    async def read() -> None:
        with contextlib.suppress(ConnectionError):  # What was sent after the end is answered with a reset.
            while data := await reader.read(65_536):
                found.extend(data)

    writer.write(beginning)
    ended = asyncio.ensure_future(read())
    try:
        async with asyncio.timeout(_SECONDS_MAX * 50):
            while not ended.done():
                writer.write(byte)
                await asyncio.wait((ended,), timeout=_SECONDS_MAX / 4)
            return bytes(found)
    finally:
        ended.cancel()
        writer.close()


@our_ways
@pytest.mark.parametrize(
    "beginning",
    [
        post("key", b"", b"/", b"content-length: 1000", length=False),
        post("key", b"", b"/auth/challenge", b"content-length: 1000", length=False),
        b"POST / HTTP/1.1\r\nhost: gateway.test\r\nx-slow: ",
    ],
    ids=["a call's body", "another body", "headers"],
)
@pytest.mark.threat(48)
async def test_a_byte_at_a_time_is_cut_off(beginning, swift):
    """Threat 48: 408 as JSON, and the connection ends; bytes that come meanwhile buy no time."""
    async with a_world() as world, listening(world.door, swift, arrival_seconds_max=_SECONDS_MAX) as port:
        answer = await drip(port, beginning)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["error"]["code"] == "INVALID_REQUEST"


@our_ways
@pytest.mark.threat(48)
async def test_chunks_at_a_time_are_cut_off(swift):
    """Threat 48: a body without a length is no way around the limit."""
    async with a_world() as world, listening(world.door, swift, arrival_seconds_max=_SECONDS_MAX) as port:
        beginning = post("key", b"", b"/", b"transfer-encoding: chunked", length=False)
        assert (await drip(port, beginning, b"1\r\nx\r\n")).startswith(b"HTTP/1.1 408 ")


@our_ways
async def test_a_body_in_pieces_and_an_idle_connection_are_left_alone(swift):
    """The limit is for one request that arrives: not for its answer, and not for the time between two requests."""
    async with a_world() as world, listening(world.door, swift, arrival_seconds_max=_SECONDS_MAX) as port:
        customer = await world.customer(10)
        request = post(customer.api_key, BODY)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            for _ in range(2):
                for piece in (request[:-5], request[-5:]):
                    writer.write(piece)
                    await asyncio.sleep(_SECONDS_MAX / 3)
                assert (await reader.readuntil(b'"id":1}')).startswith(b"HTTP/1.1 200 ")
                await asyncio.sleep(_SECONDS_MAX * 1.3)
        assert len(await world.debits(customer)) == 2


@our_ways
async def test_a_slow_request_behind_a_call_writes_nothing_into_its_answer(swift):
    """What a client sends ahead slowly ends its connection without a second answer's bytes in the first."""
    async with a_world() as world, listening(world.door, swift, arrival_seconds_max=_SECONDS_MAX) as port:
        customer = await world.customer(10)
        beginning = post(customer.api_key, BODY) + b"POST / HTTP/1.1\r\nhost: gateway.test\r\nx-slow: "
        first, _, rest = (await drip(port, beginning)).partition(b'"id":1}')
        assert first.startswith(b"HTTP/1.1 200 ")
        assert rest.startswith(b"HTTP/1.1 408 ")


@our_ways
@pytest.mark.parametrize("start", [b"GET /pricing", b"HEAD /pricing", b"OPTIONS /", b"POST /nowhere"])
@pytest.mark.threat(47)
async def test_a_request_that_is_answered_gets_no_second_answer(swift, start):
    """Threats 47 and 48: its body is still to come, so the front may have given the connection to another
    client by the time that the limit is over."""
    async with a_world() as world, listening(world.door, swift, arrival_seconds_max=_SECONDS_MAX) as port:
        beginning = start + b" HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: 1000\r\n\r\n"
        answer = await drip(port, beginning)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"\r\nconnection: close\r\n" in answer
        assert not answer.startswith(b"HTTP/1.1 408 ")
