"""Applies the faults of JSON-RPC calls at the HTTP door: 429, a hanging call, garbage, a broken connection.

Implements: one fate for a request body; in a batch, the first call with a fault decides. A hanging call is executed
and answered after its time, or never if it has no time limit: then the client has to disconnect.
Not here: which call has which fate (plan.py), HTTP itself (rpc/http.py).
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from typing import Any

import orjson

from devnode.chain.faults import Faults
from devnode.faults.plan import CallFate, CallFaults
from devnode.rpc.asgi import Receive, Reply, Send, send_reply

_HTML = b"<html><head><title>502 Bad Gateway</title></head><body>bad gateway</body></html>"
# uvicorn logs this text when `_break_off` ends a response early. It is intended, so the log leaves the line out.
BROKEN_OFF_LOG = "ASGI callable returned without completing response."


async def answer_faultily(
    faults: Faults, body: bytes, answer: Callable[[bytes], bytes | None], receive: Receive, send: Send
) -> bool:
    """Apply the fault of this request. Returns False, without an answer, if it has none."""
    fate, settings = _fate_of(faults, body)
    if settings is None or fate is CallFate.ANSWERED:
        return False
    if fate is CallFate.TOO_MANY:
        await send_reply(send, _too_many(body, settings.retry_after_seconds))
    elif fate is CallFate.HANGS:
        if await _left_within(receive, settings.hang_ms):
            return True
        await send_reply(send, Reply(200, answer(body) or b""), cors=True)
    elif fate is CallFate.GARBAGE:
        await send_reply(send, Reply(200, garbage(answer(body) or b"")), cors=True)
    else:
        await _break_off(send, answer(body) or b"")
    return True


def _fate_of(faults: Faults, body: bytes) -> tuple[CallFate, CallFaults | None]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        return CallFate.ANSWERED, None
    for call in asked if isinstance(asked, list) else [asked]:
        method = call.get("method") if isinstance(call, dict) else None
        if isinstance(method, str):
            fate = faults.call_fate(method)
            if fate is not CallFate.ANSWERED:
                return fate, faults.call_faults(method)
    return CallFate.ANSWERED, None


def _too_many(body: bytes, retry_after_seconds: int | None) -> Reply:
    asked: Any = orjson.loads(body)
    identifier = asked.get("id") if isinstance(asked, dict) else None
    error = {"code": 429, "message": "Too many requests, slow down"}
    text = orjson.dumps({"jsonrpc": "2.0", "error": error, "id": identifier})
    retry = () if retry_after_seconds is None else ((b"retry-after", str(retry_after_seconds).encode()),)
    return Reply(429, text, headers=retry)


async def _left_within(receive: Receive, hang_ms: int | None) -> bool:
    """Wait until the time is over or the client disconnects; returns whether it disconnected."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if hang_ms is None else hang_ms / 1000):
            while (await receive())["type"] != "http.disconnect":
                pass
            return True
    return False


def garbage(answer: bytes) -> bytes:
    """Bytes that are not JSON: half of the answer, a proxy's HTML page, invalid UTF-8, or an empty body. The answer
    decides which."""
    shapes = (answer[: len(answer) // 2], _HTML, b"\xff\xfe" + answer[:32][::-1] + b"\x00", b"")
    return shapes[zlib.crc32(answer) % len(shapes)]


async def _break_off(send: Send, answer: bytes) -> None:
    """Send less than the content-length says, so that the server closes the connection."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer) + 1).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer[:1], "more_body": True})
