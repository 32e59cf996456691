"""A second node of the product's network: passes each connection on to the node that the product has."""

import asyncio
import contextlib
import threading
from types import TracebackType
from urllib.parse import urlsplit

_REQUEST = b"POST "


class SecondNode:
    """It counts the requests, and the connections that are open. Runs in a thread of its own."""

    def __init__(self, node_url: str) -> None:
        parts = urlsplit(node_url)
        self._host, self._port = str(parts.hostname), parts.port
        self.requests = self.connections = 0
        self.url = self.ws_url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "SecondNode":
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = starting.result()
        port = self._server.sockets[0].getsockname()[1]
        self.url, self.ws_url = f"http://127.0.0.1:{port}", f"ws://127.0.0.1:{port}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_node, to_node = await asyncio.open_connection(self._host, self._port)
        self.connections += 1
        ways = [(reader, to_node), (from_node, writer)]
        try:  # A handler that ends cancelled is an error to asyncio of Python 3.11.
            passing = [asyncio.ensure_future(self._pass(*way)) for way in ways]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            return
        finally:
            self.connections -= 1
            writer.close()
            to_node.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                self.requests += data.count(_REQUEST)
                writer.write(data)
                await writer.drain()
