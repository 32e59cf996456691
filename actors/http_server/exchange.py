"""Interfaces between the server of a connection and the door behind it: requests, answers, doors.

Vocabulary of this folder and of the doors. Not here: how requests are read and answers written (server.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec

from actors.http_server.responses import HeaderList, HttpResponse
from actors.http_server.unread_answers import UnreadAnswers

Send: TypeAlias = Callable[[Any], Awaitable[None]]  # As an ASGI application gets it.


# The bytes of a whole answer that keeps its connection; or a coroutine that makes an answer; or a future that gets such
# bytes, of a request whose `hurry` sets it at once.
Answer: TypeAlias = "bytes | Coroutine[Any, Any, HttpResponse] | asyncio.Future[bytes]"


class HttpRequest(msgspec.Struct, eq=False):
    """One POST, and what uvicorn wants to know of whatever it calls a cycle. body: whole when the door gets it.

    client: host and port of the peer, where it has them. notes: the door's own, from `takes` to `answer`.
    hurry: set by a door whose answer is a future: gives that future its result.
    """

    door: "Door"
    target: bytes
    headers: HeaderList
    by_name: dict[bytes, bytes]  # The same headers; of a repeated name, one value.
    client: tuple[str, int] | None
    keep_alive: bool
    body: bytes = b""
    size: int = 0
    pieces: list[bytes] | None = None  # Pieces of a body that arrives in several.
    disconnected: bool = False
    response_complete: bool = False
    waiting: asyncio.Future[Any] | None = None  # Set while the answer is being made.
    work: Coroutine[Any, Any, HttpResponse] | None = None  # Makes the answer.
    hurry: Callable[[], None] | None = None
    notes: Any = None

    @property
    def peer(self) -> str | None:
        return None if self.client is None else self.client[0]

    @property
    def response_started(self) -> bool:
        """Return whether the answer of a request that is still being read is complete."""
        return False

    @property
    def message_event(self) -> "HttpRequest":
        return self

    def set(self) -> None:
        """Called by uvicorn when the connection is lost."""
        waiting = self.waiting
        if self.disconnected and isinstance(waiting, asyncio.Task):
            waiting.cancel()


class Upgrade(msgspec.Struct):
    """A WebSocket handshake that a door accepts. headers: of the answer.

    protocol: makes the protocol of the connection from then on, given the set of the server's connections.
    refused: constants of the error table, where the connection is accepted only to be closed; for the metrics.
    """

    headers: HeaderList
    protocol: Callable[[set[Any]], asyncio.Protocol]
    refused: Sequence[str] = ()


class AnswerWithdrawn(Exception):
    """Raised while an answer is sent: it must not reach its end. The text names the request."""


class Charges(Protocol):
    """Asked about paid answers just before they leave."""

    def may_leave(self, charges: Sequence[Any]) -> bool:
        """Return whether an answer with these charges may leave at once."""

    async def confirmed(self, response: Any, notes: Any) -> HttpResponse:
        """Return the response, or another one instead, if the answer may not leave at once. Write it immediately."""

    async def send_parts(self, send: Send, response: Any) -> bool:
        """Send the parts of a response, or its made body, as ASGI messages. False: its client took nothing. Raises
        AnswerWithdrawn."""

    def delivered(self, charges: Sequence[Any]) -> None:
        """Record that the answer with these charges has left."""


class Door(Protocol):
    """Answers POSTs without ASGI. late: for doors that make coroutines: asked about charges, and sends parts."""

    @property
    def body_bytes_max(self) -> int: ...

    @property
    def late(self) -> Charges | None: ...

    def takes(self, request: HttpRequest) -> bool:
        """Return whether the door answers this request, of which only the head is known. Others use ASGI."""
        ...

    def answer(self, request: HttpRequest) -> Answer:
        """Answer a complete request that `takes` accepted."""
        ...

    def too_long(self, request: HttpRequest) -> HttpResponse:
        """Answer a body of more than body_bytes_max; nothing more of it is kept."""
        ...

    def refused(self, reason: str, status: int) -> HttpResponse:
        """Answer a request that is not read to its end; its connection is closed."""
        ...


class SocketDoor(Door, Protocol):
    """A door that also takes WebSocket handshakes, on Doorway.websocket_paths."""

    async def upgrade(self, request: HttpRequest) -> "HttpResponse | Upgrade":
        """Accept the handshake, or refuse it with an ordinary answer. Raises nothing."""
        ...


@dataclass(slots=True)
class Doorway:
    """What the connections of one server share, and its limits. door: None while there is none.

    websocket_paths: where WebSocket is served; None: on every path. arrival_seconds_max: how long a request may take to
    arrive; None: as long as it likes. unread: the budget for answers that clients do not read. name_of: names the
    client of a request by its headers and its peer, as the limits know it; None: by its peer.
    """

    door: Door | None = None
    websocket_paths: frozenset[bytes] | None = frozenset()
    arrival_seconds_max: float | None = None
    unread: UnreadAnswers = field(default_factory=UnreadAnswers)
    name_of: Callable[[HeaderList, str | None], str] | None = None
