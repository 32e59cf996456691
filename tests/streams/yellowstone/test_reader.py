"""One client's part in a feed, and how one request takes over from another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.outbox import GeyserOutbox, StreamEnded
from actors.streams.yellowstone.reader import GeyserReader
from actors.streams.yellowstone.requests import WATCH, WantedStream
from actors.streams.yellowstone.updates import SeenUpdate

Item = tuple[str, int]  # "s" a status or "u" an update, with its number in the node's order.


def reader(outbox: GeyserOutbox, name: str, kept_bytes_max: int = 10_000) -> GeyserReader:
    return GeyserReader(WantedStream(name.encode(), {"a0": name}, 0, None), outbox, kept_bytes_max)


def feed(to: GeyserReader, item: Item) -> None:
    kind, number = item
    if kind == "s":
        to.take((WATCH,), b"", SeenUpdate(number, -number, 0))
    else:
        to.take(
            ("a0",), geyser_pb2.SubscribeUpdate(slot={"slot": number}).SerializeToString(), SeenUpdate(number, number)
        )


async def sent(outbox: GeyserOutbox) -> list[tuple[str, int]]:
    outbox.end(geyser_ends.SHUTTING_DOWN)
    found = []
    while True:
        try:
            update = geyser_pb2.SubscribeUpdate.FromString(await outbox.next())
        except StreamEnded:
            return found
        found.append((update.filters[0], update.slot.slot))


_ITEMS: Any = st.lists(st.sampled_from("su"), min_size=4, max_size=40).map(
    lambda kinds: [(kind, n) for n, kind in enumerate(kinds, 1)]
)


@given(_ITEMS, st.data())
async def test_a_takeover_leaves_nothing_out_and_repeats_nothing(items: list[Item], data: st.DataObject) -> None:
    """Two streams of one node that are apart by any number of updates: one place at which the new one goes on."""
    outbox = GeyserOutbox(1_000, 1_000_000)
    old, new = reader(outbox, "old"), reader(outbox, "new")
    old.release()
    at_old = data.draw(st.integers(0, len(items)))
    at_new = data.draw(st.integers(0, len(items)))
    for item in items[:at_old]:
        feed(old, item)
    new.follow(old)
    steps = [old] * (len(items) - at_old) + [new] * (len(items) - at_new)
    positions = {old: at_old, new: at_new}
    for who in data.draw(st.permutations(steps)):
        feed(who, items[positions[who]])
        positions[who] += 1
    for number in (101, 102, 103):
        for who in data.draw(st.permutations([old, new])):
            feed(who, ("s", number))
    assert new.is_sending, "streams go on, and a few statuses that both see are enough"
    found = await sent(outbox)
    assert [number for _, number in found] == [number for kind, number in items if kind == "u"]
    names = [name for name, _ in found]
    assert names == sorted(names, reverse=True), "first the old one's, then the new one's"


async def test_a_feed_that_ends_hands_over_at_once() -> None:
    """The old one will never reach the common place."""
    outbox = GeyserOutbox(10, 1_000)
    old, new = reader(outbox, "old"), reader(outbox, "new")
    old.release()
    new.follow(old)
    feed(new, ("s", 1))
    feed(new, ("u", 2))
    old.feed_ended(geyser_ends.BROKEN)
    assert new.is_sending and await sent(outbox) == [("new", 2)]


async def test_what_is_kept_is_bounded() -> None:
    """Before the charge is posted or the old request has ended, updates wait; not without end."""
    outbox = GeyserOutbox(1_000, 1_000_000)
    one = reader(outbox, "one", kept_bytes_max=100)
    for number in range(1, 50):
        feed(one, ("u", number))
    with pytest.raises(StreamEnded, match="too many updates came before"):
        await outbox.next()


async def test_a_status_that_the_feed_has_before_the_replay_is_told() -> None:
    """After a cut the feed may say that an old slot is final before the window has heard of it. The replay ends at the
    newest slot, and does not wait for that."""
    outbox = GeyserOutbox(10, 10_000)
    wanted = WantedStream(b"one", {"a0": "one"}, geyser_pb2.CONFIRMED, 1)
    one = GeyserReader(wanted, outbox, 10_000, replays_from=1)

    def body(slot: int, status: int) -> bytes:
        update = geyser_pb2.SubscribeUpdate()
        update.slot.slot, update.slot.status = slot, status  # type: ignore[assignment]
        return update.SerializeToString()

    def live(slot: int, status: int) -> None:
        one.take(("a0", WATCH), body(slot, status), SeenUpdate(slot, slot * 8 + status, status))

    live(5, geyser_pb2.SLOT_CONFIRMED)
    live(5, geyser_pb2.SLOT_FINALIZED)
    one.keep()
    live(37, geyser_pb2.SLOT_CONFIRMED)
    assert one.boundary == 37
    for slot in (5, 37):
        one.replay_status(slot, geyser_pb2.SLOT_CONFIRMED, ("a0",), body(slot, geyser_pb2.SLOT_CONFIRMED))
    one.release()
    outbox.end(geyser_ends.SHUTTING_DOWN)
    found = []
    with pytest.raises(StreamEnded):
        while True:
            update = geyser_pb2.SubscribeUpdate.FromString(await outbox.next())
            found.append((update.slot.slot, update.slot.status))
    assert found == [(5, 1), (37, 1), (5, 2)]


def test_a_replay_that_breaks_off_goes_on_from_the_last_slot_that_was_whole() -> None:
    """Slots are sent as they came: while slot 10 is new, slot 5 becomes final. From slot 10 on nobody would hear it."""
    one = GeyserReader(WantedStream(b"x", {"a0": "x"}, 0, None), GeyserOutbox(10_000, 1 << 20), 10_000, replays_from=3)
    assert one.replays_on_from == 3
    for slot in range(3, 9):
        one.replay_status(slot, geyser_pb2.SLOT_PROCESSED, ("a0",), b"")
    assert one.replays_on_from == 3
    for slot in range(3, 6):
        one.replay_status(slot, geyser_pb2.SLOT_FINALIZED, (), b"")
    one.replay_status(9, geyser_pb2.SLOT_PROCESSED, ("a0",), b"")
    assert one.replays_on_from == 4
    live = GeyserReader(WantedStream(b"x", {"a0": "x"}, 0, None), GeyserOutbox(10_000, 1 << 20), 10_000)
    assert live.replays_on_from is None
