"""One subscriber with and without a replay."""

from actors.geyser_proto import geyser_pb2
from devnode.geyser.filters import Filter, SlotFilter
from devnode.geyser.messages import SlotUpdate
from devnode.geyser.outbox import Outbox
from devnode.geyser.subscription import Subscription

from .samples import CREATED_MS, account_update

ACCOUNTS_AND_SLOTS = Filter(slots=(SlotFilter("it", False, False),))


def status(slot: int) -> SlotUpdate:
    return SlotUpdate(slot, slot - 1, geyser_pb2.SLOT_CONFIRMED, CREATED_MS)


def test_before_the_first_request_no_update_is_sent() -> None:
    """A subscriber without filters gets no update."""
    subscription = Subscription(Outbox())
    subscription.send(status(5))
    subscription.send(account_update())
    assert len(subscription.outbox) == 0


def test_without_from_slot_updates_are_sent_live() -> None:
    """There is no replay, so every update is sent at once."""
    subscription = Subscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, None)
    subscription.send(status(5))
    assert len(subscription.outbox) == 1 and subscription.replayed_slot is None


def test_during_a_replay_only_replayed_slots_have_live_statuses() -> None:
    """The status of a slot that is not replayed yet comes with its replay."""
    subscription = Subscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, 5)
    subscription.send(status(5))
    assert len(subscription.outbox) == 0
    subscription.send_replayed(status(5))
    subscription.replayed(5)
    subscription.send(status(5))
    subscription.send(status(6))
    assert len(subscription.outbox) == 2
    subscription.end_replay()
    subscription.send(status(6))
    assert len(subscription.outbox) == 3


def test_a_new_request_keeps_queued_updates() -> None:
    """Updates that matched the old filter are still sent."""
    subscription = Subscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, None)
    subscription.send(status(5))
    subscription.subscribe(Filter(), None)
    subscription.send(status(6))
    assert len(subscription.outbox) == 1
