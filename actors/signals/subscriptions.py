"""subscribeSignal and signalUnsubscribe, as the WebSocket door takes kinds of subscriptions.

Implements: interface, "WebSocket /ws" and "Signal billing"; string ids. The door charges the beginning and each event.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.errors import Err, Refusal, limit_reached
from actors.metering.api import Sink, StreamEvent
from actors.methods.prices import STREAMS, signal_units
from actors.signals.filters import WantedSignals, read_arguments
from actors.signals.hub import ACCOUNT_WALLETS_MAX, AWAY, SignalHub, WalletsFull
from actors.signals.subscription import SignalSubscription

EVENT_UNITS = signal_units()
_MADE_MAX = 64
_HEAD = b'{"jsonrpc":"2.0","method":"signalNotification","params":{"result":%b,"subscription":'
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "signals cannot be read at the moment")
_ACCOUNT_FULL = f"an account may watch {ACCOUNT_WALLETS_MAX} wallets at once; end a subscription"


class SignalSubscriptions:
    """A SubscriptionKind."""

    subscribe, unsubscribe = "subscribeSignal", "signalUnsubscribe"
    id_prefix: str | None = "sig_sub_"
    connect_credits = STREAMS["signals"]["connect_credits"]
    meter_name = "subscribeSignal"
    takes_names = True

    def __init__(self, hub: SignalHub) -> None:
        self._hub = hub
        self._made: dict[tuple[bytes, bool], StreamEvent] = {}  # The newest events.

    def check(self, arguments: Sequence[Any]) -> WantedSignals | Refusal:
        return read_arguments(arguments)

    async def open(self, wanted: WantedSignals, sink: Sink) -> "OpenSignals | Refusal | bytes":
        if not self._hub.may_watch(sink.account, wanted.filter):
            return limit_reached(ACCOUNT_WALLETS_MAX, _ACCOUNT_FULL)
        outlet = _Outlet(sink, self._event)
        try:
            subscription = await self._hub.subscribe(
                sink.account, wanted.filter, outlet, wanted.since, balance=sink.balance
            )
        except WalletsFull as full:
            return limit_reached(full.most, full.hint)
        except AWAY:
            return _AWAY
        sink.on_clear = subscription.resume
        self._hub.begin(subscription)
        return OpenSignals(self._hub, subscription)

    def _event(self, body: bytes, charged: bool) -> StreamEvent:
        """Make one event for all sockets: the hub passes the same body to one subscriber after the other."""
        made = self._made.get((body, charged))
        if made is None:
            made = StreamEvent(_HEAD % body, EVENT_UNITS if charged else 0)
            if len(self._made) >= _MADE_MAX:
                del self._made[next(iter(self._made))]
            self._made[body, charged] = made
        return made


class OpenSignals:
    def __init__(self, hub: SignalHub, subscription: SignalSubscription) -> None:
        self._hub, self._subscription = hub, subscription

    def close(self) -> None:
        self._hub.unsubscribe(self._subscription)


class _Outlet:
    def __init__(self, sink: Sink, make: Callable[[bytes, bool], StreamEvent]) -> None:
        self._sink, self._make = sink, make

    def deliver(self, body: bytes, charged: bool) -> bool:
        if not self._sink.is_clear:
            return False
        self._sink(self._make(body, charged))
        return True
