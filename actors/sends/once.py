"""The same signed bytes sent twice are one send: within a window the node gets them once, whichever replica is asked.

Implements: decisions, "same bytes sent again". Each call is paid for, as its answer is the signature. A send that the
node refused, or did not answer, is no send: the next call tries again.

In a replica, callers with the same settings share one task: an error of the node, such as that of a preflight, must
not reach a caller that asked for none. Between other settings, and between replicas, a mark in Redis says that a
signature is on its way, was sent, or has a race; it costs each send one round trip to Redis before the node is asked.
The mark of a race is set before the racer has stored the race, so it does not say that anybody has sent: a caller that
finds it asks the racer, and sends by itself where the racer does not answer. While Redis does not answer within a
moment, each replica knows of its own sends alone: a chain takes the same bytes twice without harm.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, cast

import orjson
import redis.asyncio
import redis.exceptions

from actors.background import Background
from actors.sends.api import RacerUnreachable
from actors.sends.core import WINDOW_SLOTS
from actors.units import base58_text
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer

logger = logging.getLogger(__name__)

WINDOW_SECONDS = WINDOW_SLOTS * 0.4
_KEPT_MAX = 20_000  # The oldest are forgotten.
_REDIS_SECONDS = 0.1
_LOOK_AGAIN_SECONDS = 0.05
_LOOKS_MAX = 40  # Two seconds. The replica that sends may be dead, so its mark is ignored then.
_SENDING, _SENT, _RACING = b"sending", b"sent", b"racing"


class SendMarks(Protocol):
    """Signatures of the last WINDOW_SECONDS, for all replicas. Raises nothing: a mark that cannot be read is absent."""

    async def claim(self, signature: bytes) -> bytes | None:
        """Mark a signature as on its way. None: it was unmarked, and the caller sends it; else its mark."""
        ...

    async def sent(self, signature: bytes) -> None:
        """Mark the bytes as sent: later callers are answered with the signature."""
        ...

    async def racing(self, signature: bytes) -> None:
        """Mark that the racer was asked to send it: later callers ask the racer whether it has."""
        ...

    async def failed(self, signature: bytes) -> None:
        """Remove the mark, because it was not sent."""
        ...


class RedisSendMarks:
    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def claim(self, signature: bytes) -> bytes | None:
        async def claim() -> bytes | None:
            name = _name(signature)
            if await self._client.set(name, _SENDING, nx=True, px=_window_ms()):
                return None
            return cast("bytes | None", await self._client.get(name))  # The client does not decode.

        marked: bytes | None = await self._ask(claim())
        return marked

    async def sent(self, signature: bytes) -> None:
        await self._ask(self._client.set(_name(signature), _SENT, px=_window_ms()))

    async def racing(self, signature: bytes) -> None:
        await self._ask(self._client.set(_name(signature), _RACING, px=_window_ms()))

    async def failed(self, signature: bytes) -> None:
        await self._ask(self._client.delete(_name(signature)))

    async def _ask(self, command: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(_REDIS_SECONDS):
                return await command
        except (redis.exceptions.RedisError, OSError, TimeoutError) as error:
            logger.info("the marks of sends cannot be read: %s", type(error).__name__)
            return None


class SentOnce:
    """Belongs to one event loop. race_sent: asks the racer whether it has sent a signature; raises RacerUnreachable.
    marks: None where there is one replica."""

    def __init__(
        self,
        race_sent: Callable[[bytes], Awaitable[bool]],
        marks: SendMarks | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._race_sent, self._marks, self._sleep = race_sent, marks, sleep
        # By signature and hash of the settings, oldest first.
        self._sends: dict[tuple[bytes, bytes], tuple[float, asyncio.Task[NodeAnswer]]] = {}
        self._background = Background(logger, "a send could not be marked")

    async def send(
        self, signature: bytes, settings: bytes, send: Callable[[], Coroutine[Any, Any, NodeAnswer]], now: float
    ) -> NodeAnswer:
        """settings: how it is sent; now: monotonic seconds. A caller that leaves ends the send of nobody else."""
        self._forget(now)
        name = (signature, hashlib.sha256(settings).digest())
        found = self._sends.get(name)
        if found is None:
            task = asyncio.create_task(send() if self._marks is None else self._send_marked(signature, send))
            self._sends[name] = (now, task)
            task.add_done_callback(lambda done: self._ended(name, done))
        else:
            task = found[1]
        return await asyncio.shield(task)

    def race_begins(self, signature: bytes) -> None:
        """The racer is asked to broadcast this transaction: sends of the same bytes need not, once it has."""
        if self._marks is not None:
            self._background.start(self._marks.racing(signature))

    def race_refused(self, signature: bytes) -> None:
        if self._marks is not None:
            self._background.start(self._marks.failed(signature))

    async def _send_marked(self, signature: bytes, send: Callable[[], Coroutine[Any, Any, NodeAnswer]]) -> NodeAnswer:
        assert self._marks is not None
        for _ in range(_LOOKS_MAX):
            mark = await self._marks.claim(signature)
            if mark is None:
                break
            try:
                if mark == _SENT or (mark == _RACING and await self._race_sent(signature)):
                    return replies.made(orjson.dumps(base58_text(signature)))
            except RacerUnreachable:  # Perhaps the race was never stored, so nobody else may have these bytes.
                break
            await self._sleep(_LOOK_AGAIN_SECONDS)
        answer = await send()
        was_sent = answer.kind is AnswerKind.RESULT
        self._background.start(self._marks.sent(signature) if was_sent else self._marks.failed(signature))
        return answer

    def _ended(self, name: tuple[bytes, bytes], task: "asyncio.Task[NodeAnswer]") -> None:
        if task.cancelled() or task.exception() is not None or task.result().kind is not AnswerKind.RESULT:
            found = self._sends.get(name)
            if found is not None and found[1] is task:
                del self._sends[name]

    def _forget(self, now: float) -> None:
        while self._sends:
            name, (at, task) = next(iter(self._sends.items()))
            if len(self._sends) < _KEPT_MAX and (now - at < WINDOW_SECONDS or not task.done()):
                return
            del self._sends[name]


def _name(signature: bytes) -> bytes:
    return b"sends:once:" + signature


def _window_ms() -> int:
    return round(WINDOW_SECONDS * 1000)
