"""The subscriptions of the chain's nodes as kinds that a socket offers: checked by hub/native.py, opened at the hub.

Implements: interface, "WebSocket /ws"; decisions, "native WebSocket subscriptions" (5 credits for each, 1 for 10
notifications). Not here: the hub.
"""

from collections.abc import Sequence
from typing import Any

from actors.errors import Refusal
from actors.metering.api import OpenSubscription, Sink
from actors.methods.prices import STREAMS
from actors.streams.hub import native
from actors.streams.hub.feed import TopicFeed

CONNECT_CREDITS = STREAMS["websocket"]["connect_credits"]
METER_NAME = "websocketNotifications"  # In the ledger, of all native subscriptions together.


class NativeKind:
    """A SubscriptionKind."""

    id_prefix: str | None = None
    connect_credits = CONNECT_CREDITS
    meter_name = METER_NAME
    takes_names = False

    def __init__(self, subscribe: str, feed: TopicFeed) -> None:
        self.subscribe, self._feed = subscribe, feed
        self.unsubscribe = f"{subscribe.removesuffix('Subscribe')}Unsubscribe"

    def check(self, arguments: Sequence[Any]) -> native.TopicKey | Refusal:
        return native.read(self.subscribe, list(arguments))

    async def open(self, wanted: native.TopicKey, sink: Sink) -> OpenSubscription | Refusal | bytes:
        return await self._feed.subscribe(wanted, sink)


def native_kinds(feed: TopicFeed) -> list[NativeKind]:
    return [NativeKind(method, feed) for method in native.METHODS]
