"""GET /signals/stream: the subscription as server-sent events, for clients that cannot hold a WebSocket.

Implements: interface, "Signal billing" (connect charge, then each event, from an allowance); decisions, money rule 10.
The id of each event is its cursor, so a client that reconnects with Last-Event-ID misses nothing. A stream whose key is
replaced, whose session ends, whose account is suspended or runs out of credits gets the event `error` within a second,
as a WebSocket gets its close code, and ends.

When full: while BUFFER_MAX events wait for the client, further ones wait in the log.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import orjson

from actors.calls import Proof, ProvenProof
from actors.errors import Err, Refusal
from actors.pages import PageAnswer, PageRequest
from actors.signals.filters import read_query
from actors.signals.hub import ACCOUNT_WALLETS_MAX, AWAY, SignalHub
from actors.signals.subscription import SignalSubscription

BUFFER_MAX = 100
EVENT_UNITS = 10  # Tenths of a credit.
_KEEP_ALIVE_SECONDS = 15.0
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "signals cannot be read at the moment")
_TOO_MANY_WALLETS = Refusal(Err.INVALID_REQUEST, f"an account may watch {ACCOUNT_WALLETS_MAX} wallets at once")


class EventMeter(Protocol):
    """The allowance of one account, as streams/meters.py has it."""

    def join(self, stream: object, on_cover: Callable[[], None], on_end: Callable[[Refusal], None]) -> None: ...

    def leave(self, stream: object) -> None: ...

    def spend(self, units: int, stream: object) -> bool: ...


class StreamCharges(Protocol):
    async def connect(self, pubkey: bytes) -> Refusal | None:
        """Charge the beginning of a subscription."""
        ...

    def meter(self, pubkey: bytes) -> EventMeter: ...

    def join(self, proof: Proof, stream: object, on_end: Callable[[Refusal], None]) -> None:
        """Watch whether the account may go on; on_end: it may not."""
        ...

    def leave(self, proof: Proof, stream: object) -> None: ...


class SignalEventStream:
    def __init__(self, hub: SignalHub, charges: StreamCharges) -> None:
        self._hub, self._charges = hub, charges

    async def answer(self, request: PageRequest) -> PageAnswer | Refusal:
        query = dict(request.query)
        since = request.headers.get("last-event-id")
        if since is not None:
            query["since"] = since
        wanted = read_query(query)
        if isinstance(wanted, Refusal):
            return wanted
        if not self._hub.may_watch(request.account, wanted.filter):
            return _TOO_MANY_WALLETS
        refusal = await self._charges.connect(request.account)
        if refusal is not None:
            return refusal
        listener = _Listener(self._charges.meter(request.account))
        proof = request.proof or ProvenProof(request.account)
        try:
            subscription = await self._hub.subscribe(request.account, wanted.filter, listener, wanted.since)
        except AWAY:
            return _AWAY
        headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")]
        return PageAnswer(self._pieces(listener, subscription, proof), 200, "text/event-stream", headers)

    async def _pieces(
        self, listener: "_Listener", subscription: SignalSubscription, proof: Proof
    ) -> AsyncGenerator[bytes, None]:
        """Everything that must be undone begins in here, as a generator that never runs is never closed."""
        listener.meter.join(listener, subscription.resume, listener.end)
        self._charges.join(proof, listener, listener.end)
        self._hub.begin(subscription)
        try:
            yield b"retry: 1000\n\n"
            while True:
                async for piece in listener.pieces():
                    yield piece
                if listener.ended is not None:
                    yield _error(listener.ended)
                    return
                subscription.resume()
        finally:
            self._hub.unsubscribe(subscription)
            self._charges.leave(proof, listener)
            listener.meter.leave(listener)


def _error(refusal: Refusal) -> bytes:
    """The last event: in the form of the interface's HTTP errors."""
    told = {"code": refusal.err.name, "message": refusal.detail or refusal.message}
    return b"event: error\ndata: %b\n\n" % orjson.dumps({"error": told})


class _Listener:
    """The sink of one stream."""

    def __init__(self, meter: EventMeter) -> None:
        self.meter = meter
        self.ended: Refusal | None = None
        self._buffer: deque[bytes] = deque()
        self._woken = asyncio.Event()

    def deliver(self, body: bytes, charged: bool) -> bool:
        if self.ended is not None or len(self._buffer) >= BUFFER_MAX:
            return False
        if charged and not self.meter.spend(EVENT_UNITS, self):
            return False
        self._buffer.append(body)
        self._woken.set()
        return True

    def end(self, refusal: Refusal) -> None:
        self.ended = refusal
        self._woken.set()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield what waits, or a sign of life."""
        try:
            async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            yield b": still here\n\n"
            return
        self._woken.clear()
        while self._buffer:
            body = self._buffer.popleft()
            yield _event(body)


def _event(body: bytes) -> bytes:
    """A gap has no cursor, so a client that reconnects after it asks from the signal before it."""
    cursor = body.rpartition(b'"cursor":"')[2].partition(b'"')[0] if b'"cursor":"' in body else b""
    return b"%bevent: signal\ndata: %b\n\n" % (b"id: %b\n" % cursor if cursor else b"", body)
