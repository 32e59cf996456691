"""Requests that arrive too slowly lose their connection: a byte a second must hold no memory of a replica for long.

Implements: hostile input 48. A shell around uvicorn's protocol, as swift_http.py is.
The front has a time limit for the head and for the first 15 kB of the body; what is longer is passed on as it comes.
This is the limit for the rest of it, and for all of a request that comes to a replica directly.
Not here: clients that take nothing of their answer (swift_http.py).
"""

import asyncio
from typing import Any

import orjson
from uvicorn.config import HTTP_PROTOCOLS, Config
from uvicorn.server import ServerState

from actors.errors import Err
from actors.gateway.swift_http import SwiftHttp

# The longest body, 256 KiB, needs 26 kB a second: less than a weak mobile connection has.
ARRIVAL_SECONDS_MAX = 10.0
_ERROR = {
    "code": Err.INVALID_REQUEST.name,
    "message": f"{Err.INVALID_REQUEST.row.message}: the request took too long to arrive",
    "data": {"source": "gateway", "constant": Err.INVALID_REQUEST.name},
}
_BODY = orjson.dumps({"error": _ERROR})
_HEAD = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
_ANSWER = b"%bcontent-length: %d\r\n\r\n%b" % (_HEAD, len(_BODY), _BODY)


class TimedHttp(SwiftHttp):
    """SwiftHttp with a limit for how long a request may take to arrive.

    The timer is set only when a request is not whole after the bytes that began it, so most calls cost no timer.
    """

    arrival_seconds_max = ARRIVAL_SECONDS_MAX

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._is_arriving = False
        self._arrival: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_arriving and self._arrival is None:
            self._arrival = self.loop.call_later(self.arrival_seconds_max, self._too_slow)

    def on_message_begin(self) -> None:
        self._is_arriving = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_arriving = False
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        super().connection_lost(exc)

    def _too_slow(self) -> None:
        self._arrival = None
        if self.transport.is_closing():
            return
        if not self._answers_something():
            self.transport.write(_ANSWER)
        self.transport.close()

    def _answers_something(self) -> bool:
        """Whether an answer is under way, or may be: another one must not be written into it."""
        if self._answering is not None:
            return True
        cycle: Any = self.cycle
        if cycle is None or cycle is self._exchange or cycle.response_complete:
            return False
        return bool(getattr(cycle, "response_started", True))


def use() -> None:
    """Have uvicorn use this protocol for the servers that it starts in this process from now on."""
    HTTP_PROTOCOLS["auto"] = f"{__name__}:{TimedHttp.__name__}"
