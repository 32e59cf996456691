"""What befalls JSON-RPC calls at the HTTP door: refused with 429, left hanging, answered with garbage, cut off.

Implements: one fate for a body; of a batch, the first call that has a bad one decides. A hanging call is carried out
and answered once its time is over, or never where it has none: the client has to leave.
Not here: which call has which fate (plan.py), HTTP itself (rpc/http.py).
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from typing import Any

import orjson

from actors.devnode.block_engine.endpoints import ENGINE_METHODS
from actors.devnode.faults.faults import Faults
from actors.devnode.faults.plan import CallFate, CallFaults, FaultPlan, PlanError
from actors.devnode.rpc.asgi import Receive, Reply, Send, send_reply
from actors.devnode.rpc.table import METHODS

_HTML = b"<html><head><title>502 Bad Gateway</title></head><body>bad gateway</body></html>"
# What the server logs of a call that is broken off here on purpose: no mistake, so no line.
BROKEN_OFF_LOG = "ASGI callable returned without completing response."


def refuse_unknown_methods(plan: FaultPlan) -> FaultPlan:
    """The plan as it is. Raises PlanError where it names a method that does not exist: nothing would befall it."""
    unknown = set(plan.calls) - {"*"} - METHODS.keys() - ENGINE_METHODS
    if unknown:
        raise PlanError(f"calls: no such method: {', '.join(sorted(unknown))}")
    return plan


async def answer_faultily(
    faults: Faults, body: bytes, answer: Callable[[bytes], bytes | None], receive: Receive, send: Send
) -> bool:
    """Do what the body's fate says. False: it has none, and nothing was done."""
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
    """Wait; whether the client left before the time was over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if hang_ms is None else hang_ms / 1000):
            while (await receive())["type"] != "http.disconnect":
                pass
            return True
    return False


def garbage(answer: bytes) -> bytes:
    """What no parser takes: cut off, a proxy's page, bytes that are no text, or nothing. Which of them depends on the
    answer alone."""
    shapes = (answer[: len(answer) // 2], _HTML, b"\xff\xfe" + answer[:32][::-1] + b"\x00", b"")
    return shapes[zlib.crc32(answer) % len(shapes)]


async def _break_off(send: Send, answer: bytes) -> None:
    """More is announced than comes: the server ends the connection when it sees that."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer) + 1).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer[:1], "more_body": True})
