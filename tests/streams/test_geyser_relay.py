"""A stream that is passed through one to one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from actors.config import GeyserConfig
from actors.streams import geyser_ends
from actors.streams.geyser_ends import StreamEnd
from actors.streams.geyser_relay import relay


class NodeCall:
    """A call of the node that gives these payloads and then this status."""

    def __init__(self, payloads: list[bytes], status: tuple[grpc.StatusCode, str]) -> None:
        self.payloads, self.status = payloads, status
        self.written: list[bytes] = []
        self.was_cancelled = False

    async def read(self) -> Any:
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


async def run(call: NodeCall, refused: StreamEnd | None = None) -> tuple[StreamEnd, list[bytes]]:
    got: list[bytes] = []

    async def write(payload: bytes) -> None:
        got.append(payload)
        await asyncio.sleep(0)

    async def establish() -> StreamEnd | None:
        return refused

    return await relay(call, GeyserConfig(), establish).run(asked(b"one", b"two"), write), got


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
