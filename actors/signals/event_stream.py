"""GET /signals/stream: the subscription as server-sent events, for clients that cannot hold a WebSocket.

Implements: interface, "Signal billing" (connect charge, then each event, from an allowance); money rule 10.
The id of each event is its cursor, so a client that reconnects with Last-Event-ID misses nothing. A stream whose key is
replaced, whose session ends, whose account is suspended or runs out of credits gets the event `error` within a second,
as a WebSocket gets its close code, and ends.

The connect charge is held first and posted once the subscription stands, so that a refused stream is free.

When full: while BUFFER_MAX events wait for the client, further ones wait in the log. Above STREAMS_MAX streams of a
replica, or ACCOUNT_STREAMS_MAX of one account, or without a place by balance (STREAMS): 503, free.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator

import orjson

from actors.calls import Proof, ProvenProof
from actors.errors import Err, Refusal
from actors.metering.meter import Meter
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.pages import PageAnswer, PageRequest
from actors.place_shares import CREDITS_A_PLACE, PlaceShares
from actors.signals.filters import WantedSignals, read_query
from actors.signals.hub import ACCOUNT_WALLETS_MAX, AWAY, SignalHub, WalletsFull
from actors.signals.subscription import SignalSubscription
from actors.signals.subscriptions import EVENT_UNITS, SignalSubscriptions

BUFFER_MAX = 100
# Fewer than the gateway's streamed answers, because that limit would refuse a stream after its charge.
STREAMS_MAX = 1_900
ACCOUNT_STREAMS_MAX = 500
STREAMS = PlaceShares(total=STREAMS_MAX, kept=400, base=4, of_one_max=ACCOUNT_STREAMS_MAX)
_KEEP_ALIVE_SECONDS = 15.0
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "signals cannot be read at the moment")
_FULL = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many open streams of signals here; nothing is charged")
_NOT_RECORDED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the charge could not be recorded; nothing is charged for this stream"
)
_TOO_MANY_WALLETS = Refusal(Err.INVALID_REQUEST, f"an account may watch {ACCOUNT_WALLETS_MAX} wallets at once")


_HEADERS = (("cache-control", "no-store"), ("x-accel-buffering", "no"))


class SignalEventStream:
    def __init__(self, hub: SignalHub, meters: Meters, watch: StandingWatch) -> None:
        self._hub, self._meters, self._watch = hub, meters, watch
        self._streams: Counter[bytes] = Counter()  # Open streams and those that begin, by account.

    async def answer(self, request: PageRequest) -> PageAnswer | Refusal:
        query = dict(request.query)
        since = request.headers.get("last-event-id")
        if since is not None:
            query["since"] = since
        wanted = read_query(query)
        if isinstance(wanted, Refusal):
            return wanted
        if self._streams.total() >= STREAMS_MAX or self._streams[request.account] >= ACCOUNT_STREAMS_MAX:
            return _FULL
        self._streams[request.account] += 1
        try:
            return await self._begin(request, wanted)
        finally:
            self._leave(request.account)

    async def _begin(self, request: PageRequest, wanted: WantedSignals) -> PageAnswer | Refusal:
        kind = SignalSubscriptions
        charge = await self._meters.begin(request.payer, kind.subscribe, kind.connect_credits)
        if isinstance(charge, Refusal):
            return charge
        balance, own = charge.balance, self._streams[request.account] - 1  # Without this stream.
        if own >= STREAMS.most(own, self._streams.total() - 1, balance):
            await self._meters.release(charge)
            return _no_place(own + 1, balance)
        if request.is_head:
            await self._meters.release(charge)
            return PageAnswer(_nothing(), 200, "text/event-stream", _HEADERS)
        listener, is_paid = _Listener(), False
        try:
            # Nothing is awaited between this check and the count.
            if not self._hub.may_watch(request.account, wanted.filter):
                return _TOO_MANY_WALLETS
            subscription = await self._hub.subscribe(
                request.account, wanted.filter, listener, wanted.since, balance=balance
            )
            is_paid = await self._meters.post(charge)
        except WalletsFull as full:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, full.hint)
        except AWAY:
            return _AWAY
        finally:
            if not is_paid:
                await self._meters.release(charge)
        if not is_paid:
            return _NOT_RECORDED
        proof = request.proof or request.payer
        pieces = self._pieces(listener, subscription, proof, request.payer)
        return PageAnswer(pieces, 200, "text/event-stream", _HEADERS)

    def _leave(self, account: bytes) -> None:
        self._streams[account] -= 1
        if not self._streams[account]:
            del self._streams[account]

    async def _pieces(
        self, listener: "_Listener", subscription: SignalSubscription, proof: Proof, payer: ProvenProof
    ) -> AsyncGenerator[bytes, None]:
        """Yield the stream. Everything that must be undone begins in here, because a generator that never runs is never
        closed."""
        account = subscription.pubkey
        self._streams[account] += 1
        # Opened only now, because a meter is closed when its last stream leaves.
        meter = listener.meter = self._meters.open(payer, SignalSubscriptions.meter_name)
        meter.join(listener, subscription.resume, listener.end)
        self._watch.join(proof, payer, listener, listener.end)
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
            self._watch.leave(proof, payer, listener)
            meter.leave(listener)
            self._leave(account)


def _no_place(streams: int, balance: int) -> Refusal:
    if (needed := streams * CREDITS_A_PLACE) > balance:
        return Refusal(Err.INSUFFICIENT_CREDITS, f"{streams} streams need a balance of {needed} credits")
    return _FULL


async def _nothing() -> AsyncGenerator[bytes, None]:
    """Yield nothing: a HEAD begins no stream and costs nothing."""
    for piece in tuple[bytes, ...]():
        yield piece


def _error(refusal: Refusal) -> bytes:
    """Return the last event, in the form of the interface's HTTP errors."""
    name = refusal.err.name
    told = {"code": name, "source": "gateway", "constant": name, "message": refusal.detail or refusal.message}
    return b"event: error\ndata: %b\n\n" % orjson.dumps({"error": told})


class _Listener:
    """The sink of one stream."""

    def __init__(self) -> None:
        self.meter: Meter | None = None  # None until its events begin.
        self.ended: Refusal | None = None
        self._buffer: deque[bytes] = deque()
        self._woken = asyncio.Event()

    def deliver(self, body: bytes, charged: bool) -> bool:
        if self.ended is not None or self.meter is None or len(self._buffer) >= BUFFER_MAX:
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
        """Yield the waiting events, or a keep-alive comment."""
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
    """Format an event. A gap has no cursor, so a client that reconnects after it continues from the signal before
    it."""
    cursor = body.rpartition(b'"cursor":"')[2].partition(b'"')[0] if b'"cursor":"' in body else b""
    return b"%bevent: signal\ndata: %b\n\n" % (b"id: %b\n" % cursor if cursor else b"", body)
