"""The ring: entries by number, places by cursor, and which places have left it."""

from actors.signals.log import NO_CURSOR, LogEntry
from actors.signals.ring import SignalRing
from tests.signals.test_log import signal


def entry(number: int) -> LogEntry:
    return LogEntry(f"{number}-0", "event", signal(number))


def test_places_keep_their_numbers_while_old_entries_leave() -> None:
    """Memory is bounded; an entry that was read twice is there once."""
    ring = SignalRing(entries_max=80)
    ring.begin_after("3-0", is_end=False)
    for number in range(3, 500):
        ring.append(entry(number))
        ring.append(entry(number))
        assert ring.at(ring.following - 1).entry == entry(number) and ring.last == f"{number}-0"
        assert ring.following - ring.first <= 90
    assert ring.following == 497
    assert ring.number_after("3-0") is None and ring.number_after(ring.floor) == ring.first
    assert ring.at(ring.number_after("450-0") or 0).cursor == "451-0"
    assert ring.number_after("450-7") == ring.number_after("450-0")
    assert ring.number_after("9999-0") == ring.following
    assert [each.cursor for each in ring.newest_first()][:2] == ["499-0", "498-0"]


def test_an_empty_log_has_a_beginning() -> None:
    """A subscriber of a new installation begins at once; a cursor from before a loss asks the stores."""
    ring = SignalRing()
    ring.begin_after(NO_CURSOR, is_end=True)
    assert ring.number_after(NO_CURSOR) == 0
    lost = SignalRing()
    lost.begin_after("7-0", is_end=True)
    assert lost.number_after("6-0") is None and lost.number_after("7-0") == 0
    lost.append(entry(7))
    lost.append(entry(8))
    assert [each.cursor for each in lost.newest_first()] == ["8-0"]
