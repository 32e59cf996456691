"""The hub: one subscription at the nodes for all, repaired after a loss, filled or told as a gap."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from actors.metering.api import StreamEvent
from actors.stream_config import StreamsConfig
from actors.streams.hub.actor import StreamUrl
from actors.streams.hub.feed import FeedSubscription, TopicFeed
from actors.streams.hub.native import TopicKey, read
from tests.streams.fake_node import SLOTS, FakeNode
from tests.streams.world import ACCOUNT, ONE, TWO, Hub, a_feed, account_value

SIGNATURE = "5" * 87


class Listener:
    """A subscriber that keeps what it hears."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def __call__(self, event: StreamEvent) -> None:
        said = orjson.loads(event.head + b"0}}")
        self.events.put_nowait((said["method"], said["params"]["result"]))

    async def hear(self) -> tuple[str, Any]:
        async with asyncio.timeout(10):
            return await self.events.get()


def topic(method: str, *arguments: Any) -> TopicKey:
    key = read(method, list(arguments))
    assert isinstance(key, TopicKey), key
    return key


@asynccontextmanager
async def a_hub(nodes: int = 1, config: StreamsConfig | None = None) -> AsyncIterator[Hub]:
    fakes = [FakeNode() for _ in range(nodes)]
    for fake in fakes:
        await fake.start()
    hub = Hub(fakes, config)
    await hub.start()
    yield hub
    await hub.stop()
    for fake in fakes:
        await fake.stop()


async def subscribed(feed: TopicFeed, key: TopicKey) -> tuple[Listener, FeedSubscription]:
    listener = Listener()
    subscription = await feed.subscribe(key, listener)
    assert isinstance(subscription, FeedSubscription), subscription
    return listener, subscription


def _asked(nodes: Sequence[FakeNode], method: str) -> int:
    return sum(name == method for node in nodes for name, _ in node.asked)


async def test_equal_subscriptions_of_two_replicas_are_one_at_the_node() -> None:
    """Design, "Growth": a thousand clients of one account cost the node one subscription, which ends with the last."""
    key = topic("accountSubscribe", ACCOUNT)
    async with a_hub() as hub, a_feed(hub, ONE) as one, a_feed(hub, TWO) as two:
        heard = await asyncio.gather(*(subscribed(feed, key) for feed in (one, two) for _ in range(500)))
        assert _asked(hub.nodes, "accountSubscribe") == 1
        await hub.nodes[0].notify("accountSubscribe", account_value(5, 101))
        for listener, _ in heard:
            assert await listener.hear() == ("accountNotification", account_value(5, 101))
        for _, subscription in heard[1:]:
            subscription.close()
        assert hub.nodes[0].open_count("accountSubscribe") == 1
        heard[0][1].close()
        await hub.nodes[0].until("accountSubscribe", 0)


async def test_the_nodes_refusal_is_passed_on_to_everybody_and_nothing_is_kept() -> None:
    """Decisions, "Errors of the node": upstream errors pass through untouched."""
    key = topic("voteSubscribe")
    async with a_hub() as hub, a_feed(hub) as feed:
        error = {"code": -32601, "message": "Method not found"}
        hub.nodes[0].refuses["voteSubscribe"] = error
        for answer in await asyncio.gather(*(feed.subscribe(key, Listener()) for _ in range(3))):
            assert isinstance(answer, bytes) and orjson.loads(answer) == error
        assert len(feed) == 0 and len(hub.hub.topics) == 0


async def test_a_lost_node_is_replaced_and_the_time_between_told() -> None:
    """No silent gap: from the newest slot of the lost connection to the newest that is known."""
    async with a_hub(nodes=2) as hub, a_feed(hub) as feed:
        first, second = hub.nodes
        listener, _ = await subscribed(feed, topic("logsSubscribe", "all"))
        serving = first if first.open_count("logsSubscribe") else second
        other = second if serving is first else first
        await serving.new_slot(110)
        await first.until(SLOTS, 1)
        await second.until(SLOTS, 1)
        await serving.notify("logsSubscribe", {"context": {"slot": 110}, "value": {}})
        assert (await listener.hear())[0] == "logsNotification"
        hub.answers.results["getSlot"] = 125
        await serving.stop()
        method, gap = await listener.hear()
        # Of finalized events the gap begins at the root, as they come later than their slots.
        assert method == "gapNotification" and (gap["from_slot"], gap["to_slot"]) == (110 - 32, 125)
        assert "lost" in gap["reason"]
        await other.notify("logsSubscribe", {"context": {"slot": 130}, "value": {}})
        assert (await listener.hear())[1]["context"]["slot"] == 130


async def test_an_account_that_changed_meanwhile_is_delivered() -> None:
    """Filled where the chain allows; contents in between may be missing, so the gap is told too."""
    async with a_hub() as hub, a_feed(hub) as feed:
        node = hub.nodes[0]
        listener, _ = await subscribed(feed, topic("accountSubscribe", ACCOUNT))
        await node.notify("accountSubscribe", account_value(5, 101))
        await listener.hear()
        hub.answers.results["getAccountInfo"] = account_value(6, 105)
        node.cut()
        assert (await listener.hear())[0] == "gapNotification"
        assert await listener.hear() == ("accountNotification", account_value(6, 105))
        assert hub.answers.asked[0][1][1]["minContextSlot"] == 101
        node.cut()  # The same as before: nothing was missed that could be known.
        await node.until("accountSubscribe", 0)
        await node.until("accountSubscribe", 1)
        await node.notify("accountSubscribe", account_value(7, 110))
        assert await listener.hear() == ("accountNotification", account_value(7, 110))


async def test_a_signature_that_was_decided_meanwhile_is_delivered_and_ends() -> None:
    """Nothing of a signature is missed: its state is asked for after the loss."""
    async with a_hub() as hub, a_feed(hub) as feed:
        listener, _ = await subscribed(feed, TopicKey("signatureSubscribe", orjson.dumps([SIGNATURE])))
        status = {"slot": 104, "confirmations": None, "err": None, "confirmationStatus": "finalized"}
        hub.answers.results["getSignatureStatuses"] = {"context": {"slot": 105}, "value": [status]}
        hub.nodes[0].cut()
        assert await listener.hear() == ("signatureNotification", {"context": {"slot": 104}, "value": {"err": None}})
        assert len(feed) == 0 and len(hub.hub.topics) == 0


async def test_a_hub_that_is_restarted_is_told_the_topics_again() -> None:
    """Clients keep their subscriptions, and hear of the gap."""
    async with a_hub() as hub, a_feed(hub) as feed:
        listener, _ = await subscribed(feed, topic("slotSubscribe"))
        await hub.nodes[0].new_slot(101)
        while (await listener.hear())[1]["slot"] < 101:
            pass
        await hub.stop()
        await hub.start()
        method, gap = await listener.hear()
        assert method == "gapNotification" and gap["from_slot"] <= gap["to_slot"]
        await hub.nodes[0].new_slot(140)
        while (await listener.hear())[1].get("slot") != 140:
            pass


async def test_a_replica_that_dies_leaves_nothing_behind() -> None:
    """Its topics end at the node once its link has been gone for a while."""
    async with a_hub() as hub:
        async with a_feed(hub) as feed:
            await subscribed(feed, topic("accountSubscribe", ACCOUNT))
        hub.hub.gone(ONE)
        await hub.nodes[0].until("accountSubscribe", 0)
        assert len(hub.hub.topics) == 0


async def test_without_a_node_a_subscription_is_refused_in_time() -> None:
    """An unreachable node is an error, not silence."""
    async with a_hub() as hub, a_feed(hub) as feed:
        await hub.nodes[0].stop()
        answer = await feed.subscribe(topic("slotSubscribe"), Listener())
        assert isinstance(answer, bytes) and orjson.loads(answer)["code"] == -32003


async def test_a_node_that_is_drained_gives_its_topics_to_another_one() -> None:
    """Subscribers stay, and hear of the gap; the place of the node is used again."""
    async with a_hub(2) as hub, a_feed(hub) as feed:
        one, two = hub.nodes
        urls = [StreamUrl("node-1", one.url), StreamUrl("node-2", two.url)]
        hub.hub.use(urls[:1])
        listener, _ = await subscribed(feed, topic("logsSubscribe", "all"))
        assert one.open_count("logsSubscribe") == 1
        for left, urls_now in ((one, urls[1:]), (two, urls[:1]), (one, urls[1:])):
            taken = two if left is one else one
            hub.hub.use(urls_now)
            await taken.until("logsSubscribe", 1)
            assert (await listener.hear())[0] == "gapNotification"
            await left.until("logsSubscribe", 0)
            taken.slot += 10
            await taken.notify("logsSubscribe", {"context": {"slot": taken.slot}, "value": {}})
            assert (await listener.hear())[1]["context"]["slot"] == taken.slot
            assert hub.hub.health()["up"] == [urls_now[0].name]
        assert len(hub.hub._sockets) == 2
