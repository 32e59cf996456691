"""One subscriber between past and present."""

from actors.devnode.geyser.filters import Filter, SlotFilter
from actors.devnode.geyser.messages import SlotUpdate
from actors.devnode.geyser.outbox import Outbox
from actors.devnode.geyser.subscription import Subscription
from actors.geyser_proto import geyser_pb2

from .samples import CREATED_MS, account_update

ACCOUNTS_AND_SLOTS = Filter(slots=(SlotFilter("it", False, False),))


def status(slot: int) -> SlotUpdate:
    return SlotUpdate(slot, slot - 1, geyser_pb2.SLOT_CONFIRMED, CREATED_MS)


def test_before_it_asks_it_hears_nothing() -> None:
    """Whatever happens."""
    subscription = Subscription(Outbox())
    subscription.hear(status(5))
    subscription.hear(account_update())
    assert len(subscription.outbox) == 0


def test_the_present_is_told_as_it_happens() -> None:
    """Without from_slot there is no past."""
    subscription = Subscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, None)
    subscription.hear(status(5))
    assert len(subscription.outbox) == 1 and subscription.replayed_slot is None


def test_during_a_replay_only_news_of_told_slots_come_through() -> None:
    """Of a slot that is yet to be told, its log has the news."""
    subscription = Subscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, 5)
    subscription.hear(status(5))
    assert len(subscription.outbox) == 0
    subscription.hear_again(status(5))
    subscription.replayed(5)
    subscription.hear(status(5))
    subscription.hear(status(6))
    assert len(subscription.outbox) == 2
    subscription.catch_up()
    subscription.hear(status(6))
    assert len(subscription.outbox) == 3


def test_asking_again_replaces_and_keeps_what_waits() -> None:
    """What was told under the old filter was true then."""
    subscription = Subscription(Outbox())
    subscription.subscribe(ACCOUNTS_AND_SLOTS, None)
    subscription.hear(status(5))
    subscription.subscribe(Filter(), None)
    subscription.hear(status(6))
    assert len(subscription.outbox) == 1
