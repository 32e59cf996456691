"""Notices of transactions on the deposit account as soon as they are final, so that the watcher need not wait.

Implements: "subscription for speed, paging for truth". A notice only wakes the watcher, which then pages, so a lost or
false notice changes no credit. Without a socket, deposits wait for the watcher's next look.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import orjson
import websockets
from websockets.asyncio.client import ClientConnection, connect

from actors.background import Background

logger = logging.getLogger(__name__)

_FRAME_BYTES_MAX = 1 << 20
_OPEN_SECONDS = 5.0
_PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0)


class DepositSubscription:
    """ws_url: None: no node has a WebSocket. wake: called for every notice and after every reconnect, because notices
    in between were lost."""

    def __init__(
        self,
        ws_url: str | None,
        account: str,
        wake: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ws_url, self._account, self._wake, self._sleep = ws_url, account, wake, sleep
        self._background = Background(logger, "notices of deposits failed")
        self.connected = False
        self._moved = asyncio.Event()
        self._socket: ClientConnection | None = None

    def use(self, ws_url: str | None) -> None:
        """Listen to this node from now on."""
        if ws_url != self._ws_url:
            self._ws_url = ws_url
            self._moved.set()
            if self._socket is not None:
                self._background.start(self._socket.close())

    def start(self) -> None:
        self._background.start(self._follow())

    async def stop(self) -> None:
        await self._background.stop()

    async def _follow(self) -> None:
        attempt = 0
        while True:
            self._moved.clear()
            if self._ws_url is None:
                await self._moved.wait()
                continue
            try:
                attempt = await self._listen(self._ws_url, attempt)
            except (OSError, TimeoutError, websockets.WebSocketException) as error:
                # The URL may contain a key, so only the kind of failure is logged.
                logger.info("no notices of deposits: %s", type(error).__name__)
            finally:
                self.connected, self._socket = False, None
            await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1

    async def _listen(self, ws_url: str, attempt: int) -> int:
        params = [{"mentions": [self._account]}, {"commitment": "finalized"}]
        request = {"jsonrpc": "2.0", "id": 1, "method": "logsSubscribe", "params": params}
        async with connect(ws_url, max_size=_FRAME_BYTES_MAX, open_timeout=_OPEN_SECONDS) as socket:
            self._socket = socket
            if self._moved.is_set():
                return attempt
            await socket.send(orjson.dumps(request).decode())
            async for _ in socket:  # The first message is the answer to the subscription itself.
                attempt, self.connected = 0, True
                self._wake()
        return attempt
