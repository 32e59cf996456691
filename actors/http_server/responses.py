"""One HTTP answer as a value. Pure."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
import orjson

HeaderList: TypeAlias = list[tuple[bytes, bytes]]

CHUNKED = (b"transfer-encoding", b"chunked")
CLOSE = (b"connection", b"close")  # After a request of which not everything was read.


class MadeBody(Protocol):
    """A body that is made while it is sent, in chunks, as its length is not known before.

    close() must be called when it has been sent or is not needed; a second call changes nothing.
    """

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that it holds."""
        ...

    def pieces(self) -> AsyncIterator[tuple[bytes, bool]]:
        """Each piece, none of them empty, and whether it is the last one. Ends early after close()."""
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
    """Of a request that cannot be read to its end, where no door has words of its own."""
    told = {"code": "INVALID_REQUEST", "source": source, "constant": "INVALID_REQUEST", "message": reason}
    body = orjson.dumps({"error": told})
    length = (b"content-length", b"%d" % len(body))
    return HttpResponse(status, body, [(b"content-type", b"application/json"), length, CLOSE])
