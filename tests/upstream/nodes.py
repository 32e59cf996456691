"""A node on the loopback whose answers are raw bytes, chosen by the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec


class _Request(msgspec.Struct):
    id: msgspec.Raw


RESULT = b'{"jsonrpc":"2.0","result":"ok","id":1}'  # Exchange.response puts the request's id in place of this one.
_DECODER = msgspec.json.Decoder(_Request)
Answer = Callable[["Exchange"], Awaitable[None]]


def response(body: bytes = RESULT, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = (b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Exchange:
    """One request as the node read it, and the raw connection to answer on."""

    def __init__(self, number: int, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.number, self.head, self.body, self.writer = number, head, body, writer
        self.id: bytes = bytes(_DECODER.decode(body).id)

    def response(self, body: bytes = RESULT, *headers: bytes, status: bytes = b"200 OK") -> bytes:
        """An answer to this request: where the body ends in `"id":1}`, it has the request's id."""
        own = body.removesuffix(b'"id":1}')
        return response(body if own == body else own + b'"id":%b}' % self.id, *headers, status=status)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """An RST instead of an orderly end."""
        self.writer.transport.abort()

    async def hang(self) -> None:
        await asyncio.Event().wait()


class RawNode:
    """Counts connections and requests; answers each request with what `answer` sends."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer or self.answer_ok
        self.connections = 0
        self.open = self.most_open = 0  # Connections at once.
        self.exchanges: list[Exchange] = []
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @staticmethod
    async def answer_ok(exchange: Exchange) -> None:
        await exchange.send(exchange.response())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                exchange = Exchange(len(self.exchanges), head, await reader.readexactly(length), writer)
                self.exchanges.append(exchange)
                await self.answer(exchange)
                if writer.transport.is_closing():
                    break
        self.open -= 1
        writer.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(node: RawNode) -> AsyncIterator[RawNode]:
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    node.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        yield node
    finally:
        server.close()
        await node.stop()
