"""One HTTP answer as a value. Pure."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import orjson

HeaderList: TypeAlias = list[tuple[bytes, bytes]]

CLOSE = (b"connection", b"close")  # After a request of which not everything was read.


class HttpResponse(msgspec.Struct):
    """One HTTP answer. headers: all of them, the length too. parts: a body in pieces, in place of `body`.

    charges: what was paid for the answer; the door is asked whether it may leave, and told when it has.
    """

    status: int
    body: bytes
    headers: HeaderList = []
    charges: Sequence[Any] = ()
    parts: Sequence[bytes | memoryview] = ()


def refusal(reason: str, status: int, source: str = "gateway") -> HttpResponse:
    """Of a request that cannot be read to its end, where no door has words of its own."""
    told = {"code": "INVALID_REQUEST", "source": source, "constant": "INVALID_REQUEST", "message": reason}
    body = orjson.dumps({"error": told})
    length = (b"content-length", b"%d" % len(body))
    return HttpResponse(status, body, [(b"content-type", b"application/json"), length, CLOSE])
