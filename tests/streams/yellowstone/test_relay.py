"""A stream that is passed through one to one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.relay import relay


class NodeCall:
    """A call of the node that gives these payloads and then this status."""

    def __init__(self, payloads: list[bytes], status: tuple[grpc.StatusCode, str]) -> None:
        self.payloads, self.status = payloads, status
        self.written: list[bytes] = []
        self.was_cancelled = self.is_silent = False

    async def read(self) -> Any:
        if not self.payloads and self.is_silent:
            await asyncio.Event().wait()
        return self.payloads.pop(0) if self.payloads else grpc.aio.EOF

    async def write(self, payload: bytes) -> None:
        self.written.append(payload)

    async def done_writing(self) -> None:
        self.written.append(b"done")

    async def code(self) -> grpc.StatusCode:
        return self.status[0]

    async def details(self) -> str:
        return self.status[1]

    def cancel(self) -> None:
        self.was_cancelled = True


async def asked(*payloads: bytes) -> AsyncIterator[bytes]:
    for payload in payloads:
        yield payload


async def run(
    call: NodeCall, refused: StreamEnd | None = None, silence_seconds: float = 60.0
) -> tuple[StreamEnd, list[bytes]]:
    got: list[bytes] = []

    async def write(payload: bytes) -> None:
        got.append(payload)
        await asyncio.sleep(0)

    async def establish() -> StreamEnd | None:
        return refused

    return await relay(call, establish, silence_seconds).run(asked(b"one", b"two"), write), got


async def test_bytes_pass_in_both_directions_and_the_status_is_the_nodes() -> None:
    """Nothing here must know the messages."""
    call = NodeCall([b"x", b"y"], (grpc.StatusCode.UNIMPLEMENTED, "no shreds"))
    end, got = await run(call)
    assert (end.code, end.text) == (12, "no shreds")
    assert got == [b"x", b"y"] and call.written == [b"one", b"two", b"done"] and call.was_cancelled


async def test_nothing_is_delivered_that_is_not_paid() -> None:
    call = NodeCall([b"x"], (grpc.StatusCode.OK, ""))
    assert await run(call, geyser_ends.NOT_RECORDED) == (geyser_ends.NOT_RECORDED, [])


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED])
async def test_a_node_that_refuses_the_gateway_is_not_the_clients_fault(code: grpc.StatusCode) -> None:
    """A client that reads UNAUTHENTICATED would look for a fault in its own key."""
    end, _ = await run(NodeCall([], (code, "No valid auth token")))
    assert end is geyser_ends.NOT_REACHED


@pytest.mark.parametrize("pings", [0, 2])
async def test_a_node_that_goes_silent_ends_the_stream(pings: int) -> None:
    """Minutes are paid only while the node is heard; before a request it owes nothing."""
    call = NodeCall([b"ping"] * pings, (grpc.StatusCode.OK, ""))
    call.is_silent = True
    end, got = await run(call, silence_seconds=0.05)
    assert end.code == geyser_ends.UNAVAILABLE and "has sent nothing for 0.05 s" in end.text
    assert got == [b"ping"] * pings and call.was_cancelled


async def test_a_client_that_asks_late_is_not_cut_before() -> None:
    """The node's silence begins with the first request, whether a message came before it or not."""
    for pings in (0, 1):
        call = NodeCall([b"ping"] * pings, (grpc.StatusCode.OK, ""))
        call.is_silent = True
        may_ask = asyncio.Event()

        async def late(may_ask: asyncio.Event = may_ask) -> AsyncIterator[bytes]:
            await may_ask.wait()
            yield b"one"

        running = asyncio.create_task(relay(call, _nothing_to_pay, 0.02).run(late(), _ignored))
        await asyncio.sleep(0.1)
        assert not running.done() and call.written == []
        may_ask.set()
        assert (await running).code == geyser_ends.UNAVAILABLE
        assert call.written[0] == b"one"


async def test_a_node_that_takes_the_connection_and_says_nothing_ends_the_stream() -> None:
    """The real library: neither the write nor the read of such a call ever ends by itself."""
    silent = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{silent.sockets[0].getsockname()[1]}")
    call: Any = channel.stream_stream("/geyser.Geyser/SubscribeDeshred")()
    try:
        async with asyncio.timeout(10):
            end = await relay(call, _nothing_to_pay, 0.1).run(asked(b"one"), _ignored)
            assert "has sent nothing" in end.text and call.cancelled()
            sending = [task for task in asyncio.all_tasks() if "_send" in repr(task.get_coro())]
            await asyncio.gather(*sending, return_exceptions=True)
    finally:
        silent.close()
        await channel.close()


async def _nothing_to_pay() -> StreamEnd | None:
    return None


async def _ignored(payload: bytes) -> None:
    """Take a payload."""
