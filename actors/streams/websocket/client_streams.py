"""The subscriptions of one client's socket: opened for a charge, metered event by event, and ended clearly.

Implements: interface, "WebSocket /ws" and the close codes; decisions, "gaps of native subscriptions" and money rule 10;
threats 30 and 31. A shell.

Nothing is delivered that is not covered by the allowance. An event that cannot leave now (the client takes nothing, or
the allowance is being held) waits, and events of the same socket wait behind it. Waiting events share their bytes with
all other sockets.
When full: a socket for which more than streams.waiting_bytes_max wait is closed with 1013.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from actors.calls import Proof, ProvenProof
from actors.errors import Err, Refusal, limit_reached
from actors.metering.api import OpenSubscription, StreamEvent, SubscriptionKind
from actors.metering.meter import Meter
from actors.metering.meters import Meters
from actors.streams.websocket.openings import Openings

logger = logging.getLogger(__name__)

TOO_SLOW, AUTH_FAILED, OUT_OF_CREDITS, POLICY = 1013, 4001, 4002, 1008
_TAIL = b"}}"
_NO_SUCH = Refusal(Err.INVALID_PARAMS, "Invalid subscription id.")
_NOT_RECORDED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the charge could not be recorded; nothing is charged for this call"
)
_CLIENT_LEFT = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the connection is closed")


class ClientSocket(Protocol):
    """The methods of a WebSocket that this module uses."""

    @property
    def is_full(self) -> bool: ...

    @property
    def is_open(self) -> bool: ...

    def send_text(self, *parts: bytes) -> None: ...

    def close(self, code: int, reason: str) -> None: ...

    def leave(self, code: int, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """body: `"result":...` or `"error":...`. sent: to be called when it is written; notifications may follow then."""

    body: bytes
    sent: Callable[[], None] | None = None

    @property
    def is_error(self) -> bool:
        return self.body.startswith(b'"error"')


class _Subscription:
    """Also the Sink of its events."""

    __slots__ = ("_streams", "balance", "id", "is_over", "is_told", "kind", "meter", "on_clear", "opened")

    def __init__(
        self, streams: "ClientStreams", kind: SubscriptionKind, raw_id: bytes, meter: Meter, balance: int
    ) -> None:
        self._streams, self.balance = streams, balance
        self.kind, self.id, self.meter = kind, raw_id, meter
        self.is_told = self.is_over = False  # Whether the client knows its id; whether no event of it may leave.
        self.opened: OpenSubscription | None = None
        self.on_clear: Callable[[], None] | None = None

    def __call__(self, event: StreamEvent) -> None:
        self._streams.deliver(self, event)

    @property
    def account(self) -> bytes:
        return self._streams.pubkey

    @property
    def is_clear(self) -> bool:
        return self.is_told and self._streams.is_clear


class ClientStreams:
    """Belongs to one socket. by_method: of subscribe and of unsubscribe methods."""

    def __init__(
        self,
        socket: ClientSocket,
        payer: ProvenProof,
        proof: Proof,
        meters: Meters,
        by_method: Mapping[str, SubscriptionKind],
        subscriptions_max: int,
        waiting_bytes_max: int,
        openings: Openings,
        on_closed: Callable[["ClientStreams"], None],
    ) -> None:
        self.socket, self.payer, self.pubkey, self.proof = socket, payer, payer.pubkey, proof
        self._meters, self._by_method, self._on_closed = meters, by_method, on_closed
        self._subscriptions_max, self._waiting_bytes_max = subscriptions_max, waiting_bytes_max
        self._openings = openings
        self._subscriptions: dict[bytes, _Subscription] = {}
        self._opening = 0
        self._numbers = 0
        self._joined: dict[str, Meter] = {}
        self._waiting: deque[tuple[_Subscription, StreamEvent]] = deque()
        self._waiting_bytes = 0

    # A method, because the type checker assumes that a property is unchanged after an await.
    def _is_open(self) -> bool:
        return self.socket.is_open

    def serves(self, method: str) -> bool:
        return method in self._by_method

    async def call(self, method: str, arguments: list[Any] | dict[str, Any]) -> StreamAnswer | Refusal:
        """Subscribe or unsubscribe. A dict: the parameters are given by name."""
        kind = self._by_method[method]
        if isinstance(arguments, dict):
            if method != kind.subscribe or not kind.takes_names:
                return Refusal(Err.INVALID_PARAMS, f'"params" must be an array: {method} takes them by position')
            arguments = [arguments]
        if method == kind.unsubscribe:
            return self._unsubscribe(arguments)
        wanted = kind.check(arguments)
        if isinstance(wanted, Refusal):
            return wanted
        limit = self._subscriptions_max
        if len(self._subscriptions) + self._opening >= limit:
            return StreamAnswer(b'"error":' + limit_reached(limit))
        self._opening += 1
        try:
            async with self._openings.turn(self.pubkey):
                return await self._subscribe(kind, wanted) if self._is_open() else _CLIENT_LEFT
        finally:
            self._opening -= 1

    def writable(self) -> None:
        self._drain()

    def closed(self) -> None:
        """Post delivered events and release everything, because the socket ends."""
        for subscription in list(self._subscriptions.values()):
            self._end(subscription)
        self._waiting.clear()
        for meter in self._joined.values():
            meter.leave(self)
        self._joined.clear()
        self._on_closed(self)

    # --- subscribing

    async def _subscribe(self, kind: SubscriptionKind, wanted: Any) -> StreamAnswer | Refusal:
        """Hold the charge, subscribe, post the charge, and answer: like any call."""
        charge = await self._meters.begin(self.proof, kind.subscribe, kind.connect_credits)
        if isinstance(charge, Refusal):
            return charge
        if not self._is_open():
            await self._meters.release(charge)
            return _CLIENT_LEFT
        subscription = _Subscription(self, kind, self._new_id(kind), self._meter(kind), charge.balance)
        is_paid = False
        try:
            opened = await kind.open(wanted, subscription)
            if isinstance(opened, Refusal | bytes):
                return opened if isinstance(opened, Refusal) else StreamAnswer(b'"error":' + opened)
            subscription.opened = opened
            if not self._is_open():
                return _CLIENT_LEFT
            is_paid = await self._meters.post(charge)
            if not is_paid:
                return _NOT_RECORDED
        finally:
            if not is_paid:
                self._end(subscription)
                await self._meters.release(charge)
        if self._is_open():
            self._subscriptions[subscription.id] = subscription
        else:
            self._end(subscription)
        return StreamAnswer(b'"result":' + subscription.id, lambda: self._told(subscription))

    def _told(self, subscription: _Subscription) -> None:
        subscription.is_told = True
        self._drain()

    def _new_id(self, kind: SubscriptionKind) -> bytes:
        self._numbers += 1
        return b"%d" % self._numbers if kind.id_prefix is None else b'"%b%d"' % (kind.id_prefix.encode(), self._numbers)

    def _meter(self, kind: SubscriptionKind) -> Meter:
        meter = self._joined.get(kind.meter_name)
        if meter is None:
            meter = self._joined[kind.meter_name] = self._meters.open(self.payer, kind.meter_name)
            meter.join(self, self._drain, self._out_of_credits)
        return meter

    def _unsubscribe(self, arguments: Sequence[Any]) -> StreamAnswer | Refusal:
        """Unsubscribe. As on a node, any unsubscribe method ends any subscription of its socket."""
        if len(arguments) != 1 or type(arguments[0]) not in (int, str):
            return _NO_SUCH
        subscription = self._subscriptions.get(orjson.dumps(arguments[0]) if _is_plain(arguments[0]) else b"")
        if subscription is None:
            return _NO_SUCH
        self._end(subscription)
        return StreamAnswer(b'"result":true')

    def _end(self, subscription: _Subscription) -> None:
        subscription.is_over = True
        self._subscriptions.pop(subscription.id, None)
        if subscription.opened is not None:
            subscription.opened.close()

    # --- events

    def deliver(self, subscription: _Subscription, event: StreamEvent) -> None:
        if subscription.is_over or not self.socket.is_open:
            return
        if self._waiting or not self._send(subscription, event):
            self._waiting.append((subscription, event))
            self._waiting_bytes += len(event.head)
            if self._waiting_bytes > self._waiting_bytes_max:
                self._waiting.clear()
                self.socket.close(TOO_SLOW, f"more than {self._waiting_bytes_max} bytes of notifications wait")

    @property
    def is_clear(self) -> bool:
        """Return whether nothing waits for this client, here or in its socket."""
        return not self._waiting and not self.socket.is_full and self.socket.is_open

    def _send(self, subscription: _Subscription, event: StreamEvent) -> bool:
        """Send one event, if it can leave now and is paid for."""
        if not subscription.is_told or self.socket.is_full:
            return False
        if event.units and not subscription.meter.spend(event.units, self):
            return False
        self.socket.send_text(event.head, subscription.id, _TAIL)
        if event.ends:
            self._end(subscription)
        return True

    def _drain(self) -> None:
        """Send waiting events in order. Events of an ended subscription are dropped."""
        waiting = self._waiting
        while waiting and self.socket.is_open:
            subscription, event = waiting[0]
            if not subscription.is_over and not self._send(subscription, event):
                return
            waiting.popleft()
            self._waiting_bytes -= len(event.head)
        if self.is_clear:
            for subscription in list(self._subscriptions.values()):
                if subscription.on_clear is not None:
                    subscription.on_clear()

    def _out_of_credits(self, refusal: Refusal) -> None:
        if refusal.err is Err.INSUFFICIENT_CREDITS:
            self.socket.close(OUT_OF_CREDITS, "insufficient_credits: deposit and connect again")
        elif refusal.err is Err.KEY_BUDGET_EXCEEDED:
            self.socket.close(OUT_OF_CREDITS, f"key_budget_exceeded: {refusal.message}")
        elif refusal.err is Err.HOURLY_LIMIT_EXCEEDED:
            self.socket.close(OUT_OF_CREDITS, f"hourly_limit_exceeded: {refusal.message}")
        # The key is frozen or expired, and the watch has not reported it yet.
        elif refusal.err is Err.AUTH_FAILED and self.payer.key:
            self.socket.close(AUTH_FAILED, "auth_failed: the API key was frozen or deleted, or its time is over")
        else:
            self.socket.close(POLICY, f"policy_violation: {refusal.message}")


def _is_plain(value: int | str) -> bool:
    return isinstance(value, str) or 0 <= value < 1 << 63
