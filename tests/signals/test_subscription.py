"""One subscriber's place: what waits, how far it came, what it is charged for."""

import msgspec

from actors.signals.deliveries import Delivered
from actors.signals.filters import SignalFilter
from actors.signals.log import NO_CURSOR, LogEntry
from actors.signals.subscription import QUEUE_MAX, REPLAY_MAX, SignalSubscription, parts
from tests.signals.test_log import signal


class Sink:
    def __init__(self, room: int) -> None:
        self.room, self.got = room, list[tuple[bytes, bool]]()

    def deliver(self, body: bytes, charged: bool) -> bool:
        if len(self.got) == self.room:
            return False
        self.got.append((body, charged))
        return True


def entry(number: int, change: str = "event") -> LogEntry:
    return LogEntry(f"{number}-0", change, signal(number))


def _subscription(sink: Sink, wanted: SignalFilter = SignalFilter()) -> SignalSubscription:  # noqa: B008
    subscription = SignalSubscription(b"a" * 32, wanted, sink, NO_CURSOR)
    subscription.covered_until = "1000-0"
    return subscription


def test_what_waits_was_not_delivered() -> None:
    """The record that is written at the end covers delivered entries only."""
    sink = Sink(2)
    subscription = _subscription(sink)
    for number in (1, 2, 3):
        subscription.take(entry(number), b"%d" % number)
    assert (subscription.waiting, subscription.came_to, subscription.position) == (1, "2-0", "3-0")
    sink.room = 9
    subscription.resume()
    assert (subscription.waiting, subscription.came_to) == (0, "3-0")
    assert sink.got == [(b"1", True), (b"2", True), (b"3", True)]


def test_only_first_reports_that_are_covered_and_new_are_charged() -> None:
    """Interface, "Signal billing"; corrections, gaps, and what was delivered before are free."""
    subscription = _subscription(Sink(9))
    subscription.earlier = (Delivered(SignalFilter(), "3-0", "9-0"),)
    subscription.earlier_until = "5-0"
    charged = [subscription.is_charged(entry(number)) for number in (1, 3, 4, 5, 6, 1_000, 1_001)]
    assert charged == [True, True, False, False, True, True, False]
    assert not subscription.is_charged(entry(1, "removed"))
    other = msgspec.structs.replace(subscription.earlier[0], filter=SignalFilter(mint="M9"))
    subscription.earlier = (other,)
    assert subscription.is_charged(entry(4))


def test_a_page_is_cut_so_that_few_charged_entries_wait() -> None:
    subscription = _subscription(Sink(0), SignalFilter(mint="M1"))
    unwanted = [entry(number) for number in range(2, 900)]
    assert [len(part) for part in parts(subscription, unwanted)] == [898]
    everything = _subscription(Sink(0))
    assert [len(part) for part in parts(everything, unwanted[:25])] == [QUEUE_MAX, QUEUE_MAX, 5]
    free = [entry(number, "removed") for number in range(250)]
    assert [len(part) for part in parts(everything, free)] == [REPLAY_MAX, REPLAY_MAX, 50]
