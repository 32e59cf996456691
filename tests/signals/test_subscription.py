"""One subscriber's place: what it got, what waits, what it is charged for, how far its record may run ahead."""

import msgspec

from actors.signals.deliveries import Delivered
from actors.signals.filters import SignalFilter
from actors.signals.log import NO_CURSOR, LogEntry, cursor_key
from actors.signals.ring import SharedEntry, SignalRing
from actors.signals.subscription import AHEAD_MAX, SignalSubscription
from tests.signals.test_log import signal

ALL = SignalFilter()


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


class Place:
    """A subscription at the beginning of a ring."""

    def __init__(self, sink: Sink, wanted: SignalFilter = ALL) -> None:
        self.ring, self.short = SignalRing(), list[SignalSubscription]()
        self.ring.begin_after(NO_CURSOR, is_end=True)
        self.it = SignalSubscription(b"a" * 32, wanted, sink, NO_CURSOR, self.ring, self.short.append)
        self.it.has_begun = True
        self.it.follow_ring(0)
        self.short.clear()

    def write(self, *entries: LogEntry) -> None:
        for each in entries:
            self.ring.append(each)
        self.it.resume()


def test_what_the_client_does_not_take_waits_in_the_ring() -> None:
    """The record that is written at the end covers delivered entries only."""
    sink = Sink(2)
    place = Place(sink)
    place.it.cover("1000-0", is_live=True)
    place.write(*map(entry, (1, 2, 3)))
    assert place.it.position == "2-0" and len(sink.got) == 2
    sink.room = 9
    place.it.resume()
    assert place.it.position == "3-0"
    assert sink.got == [(place.ring.at(number).body, True) for number in range(3)]


def test_only_first_reports_that_are_covered_and_new_are_charged() -> None:
    """Interface, "Signal billing"; corrections, gaps, and what was delivered before are free."""
    sink = Sink(99)
    place = Place(sink)
    place.it.earlier, place.it.earlier_until = (Delivered(ALL, "3-0", "9-0"),), cursor_key("5-0")
    place.it.cover("1000-0", is_live=True)
    place.write(*map(entry, (1, 3, 4, 5, 6)), entry(7, "removed"), entry(1_000), entry(1_001))
    assert [charged for _, charged in sink.got] == [True, True, False, False, True, False, True, False]
    other = msgspec.structs.replace(place.it.earlier[0], filter=SignalFilter(mint="M9"))
    place.it.earlier = (other,)
    assert place.it.may_be_charged(SharedEntry(entry(4)))


def test_a_record_runs_ahead_of_a_subscriber_by_few_charged_entries() -> None:
    """A client that reads nothing must not make what follows free for its next subscription."""
    place = Place(Sink(0))
    place.write(*map(entry, range(1, 900)))
    assert place.it.wanted_cover() == f"{AHEAD_MAX}-0"
    place.it.cover(f"{AHEAD_MAX}-0", is_live=False)
    assert place.it.wanted_cover() == f"{AHEAD_MAX}-0" and place.it.position == NO_CURSOR
    unwanted = Place(Sink(0), SignalFilter(mint="x"))
    unwanted.write(*map(entry, range(1, 900)))
    assert unwanted.it.position == "899-0" and unwanted.it.wanted_cover() is None
    assert unwanted.short == [unwanted.it]  # It has caught up, and wants a record that runs ahead of the clock.


def test_a_live_subscriber_that_takes_nothing_is_not_live_any_more() -> None:
    """Its record must not run ahead of the clock then."""
    place = Place(Sink(0))
    place.it.cover("9999999-0", is_live=True)
    place.write(*map(entry, range(1, AHEAD_MAX + 1)))
    assert place.it.is_live and not place.short
    place.write(entry(AHEAD_MAX + 1))
    assert not place.it.is_live and place.short == [place.it]


def test_a_replay_waits_for_its_record_and_is_not_free_meanwhile() -> None:
    sink = Sink(99)
    place = Place(sink)
    place.it.give([SharedEntry(entry(1)), SharedEntry(entry(2, "removed"))])
    assert sink.got == [] and place.short
    place.it.cover("1-0", is_live=False)
    assert [charged for _, charged in sink.got] == [True, False]
