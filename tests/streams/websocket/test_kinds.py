"""Native subscriptions as a socket offers them."""

from actors.methods.prices import SIGNALS, STREAMS, SUBSCRIPTIONS
from actors.streams.hub.feed import NOTIFICATION_UNITS, TopicFeed
from actors.streams.websocket.kinds import CONNECT_CREDITS, native_kinds
from tests.streams.hub.test_feed import PlayedLink
from tests.streams.world import ONE


async def test_the_published_methods_and_prices_are_those_that_are_served() -> None:
    """Interface, "WebSocket /ws"; decisions: prices are published in /pricing."""
    kinds = native_kinds(TopicFeed(PlayedLink(), ONE))
    assert {kind.subscribe for kind in kinds} == {row.name for row in SUBSCRIPTIONS} - {SIGNALS}
    unsubscribes = {row.name: row.unsubscribe for row in SUBSCRIPTIONS}
    assert all(kind.unsubscribe == unsubscribes[kind.subscribe] for kind in kinds)
    published = STREAMS["websocket"]
    assert published["connect_credits"] == CONNECT_CREDITS
    assert published["notifications_per_credit"] * NOTIFICATION_UNITS == 10
