"""Subscriptions that a socket offers, whichever context brings them: their prices, and where their events go.

Implements: interface, "WebSocket /ws" and "Signal billing". Ports and one noun; no rules live here. The door
(streams/websocket/client_streams.py) charges the beginning of a subscription and each event that it delivers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from actors.errors import Refusal


class StreamEvent(msgspec.Struct, frozen=True, eq=False):
    """One event for any number of subscribers. head: the notification's JSON up to the number of the subscription.

    units: its price in parts of a credit (prices.units_per_credit). ends: the subscription is over with it.
    """

    head: bytes
    units: int
    ends: bool = False


class Sink(Protocol):
    """Where the events of one subscription go. account: the public key of its socket. balance: the credits that the
    account has left, at least what an open stream needs; those that are held ahead for events do not count.

    on_clear: set it to be told when is_clear becomes true again.
    """

    on_clear: Callable[[], None] | None

    @property
    def account(self) -> bytes: ...

    @property
    def balance(self) -> int: ...

    def __call__(self, event: StreamEvent, /) -> None: ...

    @property
    def is_clear(self) -> bool:
        """Return whether no event waits for this client. A subscription that can wait checks before each event."""
        ...


class OpenSubscription(Protocol):
    def close(self) -> None:
        """End the subscription: no further event comes. Repeating it changes nothing."""
        ...


class SubscriptionKind(Protocol):
    """One subscribe method and its unsubscribe method. Other contexts bring theirs by way of the wiring.

    id_prefix: of string ids (`sig_sub_`); None: ids are numbers. connect_credits: for each subscription.
    meter_name: the method that the ledger shows for events. takes_names: whether parameters may be given by name; they
    are then the fields of the one object that it takes.
    """

    subscribe: str
    unsubscribe: str
    id_prefix: str | None
    connect_credits: int
    meter_name: str
    takes_names: bool

    def check(self, arguments: Sequence[Any]) -> Any | Refusal:
        """Read the parameters, before anything is charged. The result is passed to `open`."""
        ...

    async def open(self, wanted: Any, sink: Sink) -> OpenSubscription | Refusal | bytes:
        """Subscribe. bytes: a JSON-RPC error object, from the node for example, which is passed on."""
        ...
