"""A gateway behind a real port, for the client: the real door, owner of accounts and hub."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ledger_gateway import Gateway, Wallet
from ledger_gateway.client import Gateway as _Gateway
from tests.gateway.test_wire import listening
from tests.gateway.world import World, a_world


class Waits:
    """A sleep that takes no time and remembers what was asked of it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.then: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)
        if self.then is not None:
            await self.then()


class Served:
    """A world and its port."""

    def __init__(self, world: World, port: int) -> None:
        self.world, self.url, self.waits = world, f"http://127.0.0.1:{port}", Waits()

    def gateway(self, credential: Any = None, **options: Any) -> _Gateway:
        given = {"sleep": self.waits, "jitter": lambda: 0.0, "now": self.world.clock.now, **options}
        return Gateway(self.url, credential, **given)

    async def wallet(self, credits: int = 0) -> Wallet:
        """A wallet with an account."""
        customer = await self.world.customer(credits)
        return Wallet(bytes(customer.key))


@contextlib.asynccontextmanager
async def a_gateway(**settings: Any) -> AsyncIterator[Served]:
    async with a_world(**settings) as world, listening(world.door, True) as port:
        yield Served(world, port)


@contextlib.asynccontextmanager
async def raw_server(*answers: bytes, then_close: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers its requests with these bytes, one after the other, the last one for ever; and the heads
    of the requests that it read."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            heads.append(head)
            writer.write(answers[min(len(heads), len(answers)) - 1])
            await writer.drain()
            if not then_close:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()


def http(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
