"""What sockets sell is what the catalog lists."""

from typing import Any

from actors.metering.api import SubscriptionKind
from actors.methods import prices
from actors.signals.subscriptions import SignalSubscriptions
from actors.streams.websocket.kinds import native_kinds

UNUSED: Any = None


def test_each_kind_that_a_socket_sells_is_in_the_catalog_at_its_price() -> None:
    """Interface, "WebSocket /ws": a subscription that the price list does not name could not be explained to its
    buyer, and one that no kind serves would be advertised in vain."""
    kinds: list[SubscriptionKind] = [*native_kinds(UNUSED), SignalSubscriptions(UNUSED)]
    listed = {row.name: row.unsubscribe for row in prices.SUBSCRIPTIONS}
    assert {kind.subscribe: kind.unsubscribe for kind in kinds} == listed
    for kind in kinds:
        row = prices.STREAMS["signals" if kind.subscribe == prices.SIGNALS else "websocket"]
        assert kind.connect_credits == row["connect_credits"], kind.subscribe
