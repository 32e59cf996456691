"""One HTTP answer as a value. Pure."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
import orjson

HeaderList: TypeAlias = list[tuple[bytes, bytes]]

CHUNKED = (b"transfer-encoding", b"chunked")
CLOSE = (b"connection", b"close")  # For a request that was not read completely.


class MadeBody(Protocol):
    """A body produced while it is sent, in chunks, because its length is not known before.

    Call close() when it was sent or is not needed; repeating it changes nothing.
    """

    @property
    def held_bytes(self) -> int:
        """Return the bytes of memory that it holds."""
        ...

    def pieces(self) -> AsyncIterator[tuple[bytes, bool]]:
        """Yield each non-empty piece, and whether it is the last. Ends early after close()."""
        ...

    def close(self) -> None: ...


class HttpResponse(msgspec.Struct):
    """One HTTP answer. headers: all of them, the length too. parts: a body in pieces, in place of `body`. made: a body
    that is made meanwhile, in place of both.

    charges: what was paid for the answer; the door is asked whether it may leave, and told when it has.
    """

    status: int
    body: bytes
    headers: HeaderList = []
    charges: Sequence[Any] = ()
    parts: Sequence[bytes | memoryview] = ()
    made: MadeBody | None = None


def refusal(reason: str, status: int, source: str = "gateway") -> HttpResponse:
    """Make the answer to a request that cannot be read to its end, if no door answers it."""
    told = {"code": "INVALID_REQUEST", "source": source, "constant": "INVALID_REQUEST", "message": reason}
    body = orjson.dumps({"error": told})
    length = (b"content-length", b"%d" % len(body))
    return HttpResponse(status, body, [(b"content-type", b"application/json"), length, CLOSE])
