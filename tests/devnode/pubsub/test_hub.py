import asyncio
import contextlib

import pytest
from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.chain.bus import AccountWritten, SignatureReceived, SlotConfirmed, TransactionLanded
from devnode.faults.plan import CutConnections, Once
from devnode.pubsub.connection import Connection
from devnode.pubsub.hub import PubsubHub
from devnode.pubsub.topics import RootTopic, SlotTopic
from devnode.rpc.errors import RpcError
from tests.devnode.local_node import LocalNode

from .conftest import NewListener
from .listener import Listener

SINGLE = (AccountWritten, TransactionLanded, SignatureReceived)


def wanted(local: LocalNode) -> list[type]:
    return [kind for kind in SINGLE if local.chain.bus.wants(kind)]


def test_equal_subscriptions_share_one_text(local: LocalNode, new_listener: NewListener) -> None:
    """A notification is serialized once: both clients get the same object."""
    one, other = new_listener(), new_listener()
    assert one.subscribe("slotSubscribe") == other.subscribe("slotSubscribe")
    local.beat()
    (text,), (same,) = one.texts(), other.texts()
    assert text is same


def test_the_chain_creates_only_events_with_subscribers(local: LocalNode, listener: Listener) -> None:
    """The hub takes an event type from the first subscription that needs it to the end of the slot of the last."""
    assert wanted(local) == []
    slots = listener.subscribe("slotSubscribe")
    assert wanted(local) == []
    account = listener.subscribe("accountSubscribe", str(Pubkey.new_unique()))
    assert wanted(local) == [AccountWritten]
    logs = listener.subscribe("logsSubscribe", "all", {"commitment": "processed"})
    listener.subscribe("signatureSubscribe", str(Signature.new_unique()))
    assert wanted(local) == list(SINGLE)
    for identifier in (account, logs, slots):
        listener.ask("accountUnsubscribe", identifier)
    local.beat()
    listener.notifications()
    assert wanted(local) == [TransactionLanded, SignatureReceived]
    listener.hub.leave(listener.connection)
    local.beat()
    listener.notifications()
    assert wanted(local) == []


def test_another_event_type_loses_and_repeats_no_event(local: LocalNode, listener: Listener) -> None:
    """Events that are queued while the hub adds an event type are notified once, before later ones."""
    listener.subscribe("slotSubscribe")
    first = local.chain.levels.building.slot
    local.beat()
    listener.send({"jsonrpc": "2.0", "id": 1, "method": "accountSubscribe", "params": [str(Pubkey.new_unique())]})
    local.beat()
    listener.hub.pump()
    texts = [text for text in listener.queued() if "slotNotification" in text]
    assert [f'"slot":{slot}}}' in text for slot, text in zip((first + 1, first + 2), texts, strict=True)] == [True] * 2


def test_a_full_node_refuses_another_topic(local: LocalNode) -> None:
    """The error has Agave's text; another subscription to a known topic is accepted."""
    hub, one, other = PubsubHub(local.node, subscriptions_max=1), Connection(), Connection()
    assert hub.subscribe(SlotTopic(), one) == hub.subscribe(SlotTopic(), other)
    with pytest.raises(RpcError) as refused:
        hub.subscribe(RootTopic(), one)
    assert refused.value.code == -32603
    assert refused.value.message == "Internal Error: Subscription refused. Node subscription limit reached"


def test_a_client_that_left_gets_no_notification(local: LocalNode, hub: PubsubHub, new_listener: NewListener) -> None:
    """Other clients with the same subscription still get it."""
    gone, stays = new_listener(), new_listener()
    gone.subscribe("slotSubscribe")
    stays.subscribe("slotSubscribe")
    hub.leave(gone.connection)
    hub.leave(gone.connection)
    local.beat()
    assert len(stays.notifications()) == 1 and gone.notifications() == []


def test_a_cut_ends_every_connection_and_the_counts_say_so(
    local: LocalNode, hub: PubsubHub, new_listener: NewListener
) -> None:
    """Two clients of one topic are two subscriptions; a connection without any is cut as well."""
    one, other, idle = new_listener(), new_listener(), new_listener()
    for listener in (one, other, idle):
        hub.join(listener.connection)
    one.subscribe("slotSubscribe")
    other.subscribe("slotSubscribe")
    other.subscribe("logsSubscribe", "all")
    by_method = {"slotSubscribe": 2, "logsSubscribe": 1}
    assert hub.counts() == {"connections": 3, "subscriptions": 3, "by_method": by_method}
    other.ask("logsUnsubscribe", other.subscribe("logsSubscribe", "all"))
    assert hub.counts()["by_method"] == {"slotSubscribe": 2}
    local.node.faults.do_once(Once(cut_connections=CutConnections(pubsub=True)))
    assert all(listener.connection.is_cut for listener in (one, other, idle))
    for listener in (one, other, idle):
        hub.leave(listener.connection)  # As the door does when a connection has ended.
    assert hub.counts() == {"connections": 0, "subscriptions": 0, "by_method": {}}


def test_a_hub_that_fell_behind_ends_every_connection(
    local: LocalNode, new_listener: NewListener, caplog: pytest.LogCaptureFixture
) -> None:
    """The hub has missed events, so clients must know and subscribe again."""
    one, other = new_listener(), new_listener()
    one.subscribe("rootSubscribe")
    other.subscribe("accountSubscribe", str(Pubkey.new_unique()))
    for _ in range(one.hub._events.capacity + 1):
        local.chain.bus.publish(SlotConfirmed(1))
    one.hub.pump()
    assert one.connection.is_cut and other.connection.is_cut and "fell behind" in caplog.text
    assert wanted(local) == []
    late = new_listener()
    late.subscribe("slotSubscribe")
    local.beat()
    assert len(late.notifications()) == 1


async def test_the_hub_runs_until_it_is_cancelled(local: LocalNode, hub: PubsubHub, listener: Listener) -> None:
    """Events are notified as they come, also after the event types changed while the hub waited."""
    running = asyncio.create_task(hub.run())
    await asyncio.sleep(0)
    listener.subscribe("slotSubscribe")
    listener.subscribe("accountSubscribe", str(Pubkey.new_unique()))
    await asyncio.sleep(0)
    local.beat()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(listener.queued()) == 1
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert running.cancelled()
