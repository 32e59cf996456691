"""The classifier: the same log, whatever is killed; forks corrected; the fallback takes over; gaps are told."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.clock import ManualClock
from actors.signals.actor import SignalClassifier
from actors.signals.families import moonshot
from actors.signals.log import NO_CURSOR, LogEntry, PositionLost
from actors.signals.observations import instruction
from actors.signals.positions import SLICES, Claim
from actors.signals.sources import SlotSeen, SlotsGone, SlotState, SourceUnavailable, TransactionSeen, Update
from actors.signals.transaction import Transaction, key_text
from tests.signals.made import key, numbered
from tests.signals.memory_store import MemorySignalHistory, MemorySignalLog


def launch(number: int, slot: int) -> TransactionSeen:
    one = numbered(moonshot.PROGRAM, instruction("token_mint"), put={3: key(100 + number % 100)})
    return TransactionSeen(Transaction(bytes([number % 256]) * 64, slot, False, (key(1),), 1, (one,)))


def slots(slot: int, *states: SlotState, parent: int | None = None) -> list[Update]:
    return [SlotSeen(slot, slot - 1 if parent is None else parent, state) for state in states]


class ScriptedSource:
    """Tells a list of updates from a slot on, as a node does, and ends where it is told to."""

    def __init__(self, script: Sequence[Update], name: str = "yellowstone", first: int = 0) -> None:
        self.script, self.name, self.first = list(script), name, first
        self.cuts: list[int] = []  # After how many updates each of the next streams ends.
        self.asked: list[int | None] = []
        self.wallets: frozenset[str] = frozenset()

    def head(self) -> int:
        return max((update.slot for update in self.script if isinstance(update, SlotSeen)), default=0)

    def narrow(self, is_mine: Callable[[bytes], bool] | None) -> None:
        self.is_mine = is_mine

    async def watch(self, wallets: frozenset[str]) -> None:
        self.wallets = wallets

    async def updates(self, from_slot: int | None) -> AsyncGenerator[Sequence[Update], None]:
        self.asked.append(from_slot)
        if from_slot is not None and from_slot < self.first:
            raise SlotsGone(self.first)
        left = self.cuts.pop(0) if self.cuts else None
        for update in self.script:
            slot = update.slot if isinstance(update, SlotSeen) else update.transaction.slot
            if from_slot is None or slot >= from_slot:
                if left == 0:
                    break
                left = None if left is None else left - 1
                yield [update]
                await asyncio.sleep(0)
        raise SourceUnavailable("the script has ended")


def classifier(
    log: MemorySignalLog,
    stream: ScriptedSource | None,
    blocks: ScriptedSource | None = None,
    history: MemorySignalHistory | None = None,
    part: int = 0,
    parts: int = 1,
    clock: ManualClock | None = None,
    **others: Any,
) -> SignalClassifier:
    fallback, history = blocks or ScriptedSource([], "blocks"), history or MemorySignalHistory()
    made = (part, parts, stream, lambda _: fallback, log, history, clock or ManualClock())
    return SignalClassifier(*made, large_swap_lamports=1, **others)


def at_slot_12(log: MemorySignalLog) -> None:
    """A log of a release before, which was so far."""
    log.fields = dict.fromkeys(SLICES, "12")


async def _follow(log: MemorySignalLog, stream: ScriptedSource, blocks: ScriptedSource | None = None) -> None:
    with pytest.raises(SourceUnavailable):
        await classifier(log, stream, blocks).follow()


def _kept(entries: Sequence[LogEntry]) -> set[tuple[str, int]]:
    """What a reader of the log ends up with."""
    found: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        assert entry.event is not None
        if entry.change == "removed":
            found.pop(entry.event.identity)
        else:
            found[entry.event.identity] = entry.event.slot
    return {(identity[0], slot) for identity, slot in found.items()}


CHAIN: list[Update] = []
for _slot in range(10, 40):
    CHAIN += [launch(_slot, _slot), launch(100 + _slot, _slot), *slots(_slot, SlotState.PROCESSED)]
    if _slot > 15:
        CHAIN += [*slots(_slot - 3, SlotState.CONFIRMED), *slots(_slot - 5, SlotState.FINALIZED)]


async def _uninterrupted() -> list[LogEntry]:
    log = MemorySignalLog()
    await _follow(log, ScriptedSource(CHAIN))
    return await log.read(NO_CURSOR, 1_000)


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=6))
def test_kills_lose_and_double_nothing(cuts: list[int]) -> None:
    """Issue of the log: however often the classifier dies, the log has exactly the uninterrupted signals."""

    async def run() -> None:
        log, stream = MemorySignalLog(), ScriptedSource(CHAIN)
        stream.cuts = list(cuts)
        for _ in range(len(cuts) + 1):
            await _follow(log, stream)
        entries = await log.read(NO_CURSOR, 1_000)
        expected = [entry.event for entry in await _uninterrupted()]
        assert sorted(entry.event.identity for entry in entries if entry.event) == sorted(
            event.identity for event in expected if event
        )

    asyncio.run(run())


async def test_a_lost_fork_leaves_what_the_chain_has() -> None:
    """Threat 32: 11 is lost; one of its transactions lands again in 12, the other nowhere."""
    log = MemorySignalLog()
    script = [
        *slots(10, SlotState.PROCESSED, SlotState.CONFIRMED),
        *(launch(1, 11), launch(2, 11), *slots(11, SlotState.PROCESSED)),
        *(launch(1, 12), launch(3, 12), *slots(12, SlotState.PROCESSED, parent=10)),
        *slots(12, SlotState.CONFIRMED, parent=10),
    ]
    await _follow(log, ScriptedSource(script))
    entries = await log.read(NO_CURSOR, 100)
    assert [entry.change for entry in entries] == ["event", "event", "event", "moved", "removed"]
    assert {slot for _, slot in _kept(entries)} == {12} and len(_kept(entries)) == 2


async def test_a_fork_that_is_lost_while_nobody_looks_is_corrected() -> None:
    """The new classifier finds the signals of slots that are not final in the log."""
    log = MemorySignalLog()
    await _follow(log, ScriptedSource([launch(1, 11), *slots(11, SlotState.PROCESSED, parent=10)]))
    later = [*slots(10, SlotState.PROCESSED, SlotState.CONFIRMED), *slots(11, SlotState.DEAD, parent=10)]
    await _follow(log, ScriptedSource(later))
    assert [entry.change for entry in await log.read(NO_CURSOR, 9)] == ["event", "removed"]


async def test_slots_that_the_stream_has_no_more_are_read_as_blocks() -> None:
    log = MemorySignalLog()
    at_slot_12(log)
    stream = ScriptedSource([update for update in CHAIN if not isinstance(update, int)], first=20)
    blocks = ScriptedSource([launch(15, 15), *slots(15, SlotState.FINALIZED)], "blocks")
    await _follow(log, stream, blocks)
    assert (stream.asked, blocks.asked) == ([13], [13])
    assert set(log.positions.values()) == {15}


async def test_slots_that_no_node_has_are_a_gap() -> None:
    """Subscribers are told what is missing; the classifier goes on behind it."""
    log = MemorySignalLog()
    at_slot_12(log)
    await classifier(log, ScriptedSource(CHAIN, first=20), ScriptedSource([], "blocks", first=20)).follow()
    (entry,) = await log.read(NO_CURSOR, 9)
    assert entry.gap is not None and (entry.gap.from_slot, entry.gap.to_slot) == (13, 19)
    assert set(log.positions.values()) == {19}


async def test_without_a_stream_blocks_are_polled_and_it_shows() -> None:
    log = MemorySignalLog()
    mine = classifier(log, None, ScriptedSource(CHAIN, "blocks"))
    assert mine.health()["source"] == "none"
    following = asyncio.create_task(mine.follow())
    await asyncio.wait([following], timeout=0)
    assert mine.health()["source"] == "blocks" and mine.health()["lag_slots"] > 0
    with pytest.raises(SourceUnavailable):
        await following
    assert mine.health()["lag_slots"] == 0


async def test_wallets_that_somebody_watches_are_told_to_the_source() -> None:
    log, stream = MemorySignalLog(), ScriptedSource(CHAIN)
    mine = classifier(log, stream)
    wallet = key_text(key(1))
    await log.watch([wallet], ManualClock().now())
    await mine.look_at_wallets()
    with pytest.raises(SourceUnavailable):
        await mine.follow()
    assert stream.wallets == {wallet}
    kinds = [entry.event.kind for entry in await log.read(NO_CURSOR, 1_000) if entry.event]
    assert kinds.count("walletActivity") == kinds.count("newPair") > 0


@pytest.mark.parametrize("survives", [True, False])
@settings(max_examples=40, deadline=None)
@given(losses=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=3))
def test_a_redis_that_loses_all_its_data_loses_and_doubles_no_signal(
    survives: bool, losses: list[tuple[int, int]]
) -> None:
    """Decisions, "one signal": each signal has one cursor, in the log or the history, and new cursors are later ones.

    survives: the classifier lives on, and the history is behind by some entries; otherwise it has them all.
    """

    async def run() -> None:
        log, history, stream = MemorySignalLog(), MemorySignalHistory(), ScriptedSource(CHAIN)
        log.lose_everything()  # A new installation begins so, too.
        stream.cuts = [cut for cut, _ in losses]
        one = classifier(log, stream, history=history)
        told: dict[str, str | None] = {}
        for behind in (*(behind for _, behind in losses), 0):
            with pytest.raises(SourceUnavailable):
                await one.follow()
            entries = await log.read(NO_CURSOR, 10_000)
            for entry in entries:
                assert entry.event is not None
                assert told.setdefault(entry.event.signature, entry.cursor) == entry.cursor
            await history.add(entries[: max(0, len(entries) - behind)] if survives else entries)
            log.lose_everything()
            if not survives:
                one = classifier(log, stream, history=history)
        expected = {entry.event.signature for entry in await _uninterrupted() if entry.event}
        assert told.keys() == expected
        with pytest.raises(SourceUnavailable):
            await one.follow()
        assert {entry.cursor for entry in await log.read(NO_CURSOR, 10_000)} == set(told.values())

    asyncio.run(run())


async def test_a_slot_far_ahead_does_not_move_the_position() -> None:
    """A node out of order would otherwise leave a position after which nothing ever comes."""
    log, far = MemorySignalLog(), 1 << 60
    script = [*CHAIN[:40], *slots(far, SlotState.PROCESSED, SlotState.FINALIZED), launch(9, far), *CHAIN[40:]]
    await _follow(log, ScriptedSource(script))
    assert _kept(await log.read(NO_CURSOR, 1_000)) == _kept(await _uninterrupted())
    assert all(10 < position < 40 for position in log.positions.values())
    fresh = MemorySignalLog()
    await _follow(fresh, ScriptedSource([*slots(far, SlotState.FINALIZED), *CHAIN]))
    assert _kept(await fresh.read(NO_CURSOR, 1_000)) == _kept(await _uninterrupted())


async def test_classifiers_whose_number_changes_take_over_where_the_others_were() -> None:
    """Threat 69: 1, 3, 2 and 1 classifiers, each reading some of the chain; nothing lost, nothing twice, in order."""
    log, seen = MemorySignalLog(), 0
    for count, ends in ((1, 25), (3, 50), (2, 80), (1, len(CHAIN))):
        await log.divide(count)
        for part in range(count):
            stream = ScriptedSource(CHAIN)
            stream.cuts = [ends - 5 * part]  # Not all get equally far.
            with pytest.raises(SourceUnavailable):
                await classifier(log, stream, part=part).follow()
        entries = await log.read(NO_CURSOR, 1_000)
        assert len(entries) == len({entry.event.identity for entry in entries if entry.event}) >= seen
        seen = len(entries)
    expected = {entry.event.identity for entry in await _uninterrupted() if entry.event}
    assert {entry.event.identity for entry in entries if entry.event} == expected
    slots = [entry.event.slot for entry in entries if entry.event]
    assert slots == sorted(slots)


@settings(max_examples=25, deadline=None)
@given(count=st.integers(2, 5), cuts=st.lists(st.lists(st.integers(0, 90), max_size=2), min_size=5, max_size=5))
def test_several_classifiers_at_once_write_in_order_whatever_breaks(count: int, cuts: list[list[int]]) -> None:
    """Of one program: the log of several is the log of one, but for the order within a slot."""

    async def run() -> None:
        log = MemorySignalLog()
        await log.divide(count)
        made = []
        for part in range(count):
            stream = ScriptedSource(CHAIN)
            stream.cuts = list(cuts[part])
            made.append(classifier(log, stream, part=part, sleep=lambda _: asyncio.sleep(0)))
            made[-1].start()
        expected = await _uninterrupted()
        while len(log.entries) < len(expected):  # noqa: ASYNC110 - the log has no event to wait for.
            await asyncio.sleep(0)
        await asyncio.gather(*(one.stop() for one in made))
        slots = [entry.event.slot for entry in log.entries if entry.event]
        assert slots == sorted(slots)
        assert _kept(log.entries) == _kept(expected) and len(log.entries) == len(expected)

    asyncio.run(run())


async def test_a_classifier_goes_on_with_its_part_when_the_work_is_divided_anew() -> None:
    """From one to two and back, under classifiers that run: one of them has nothing to do at first and in the end."""
    log = MemorySignalLog()
    made = [classifier(log, ScriptedSource(CHAIN), part=n, sleep=lambda _: asyncio.sleep(0)) for n in range(2)]
    for one in made:
        one.start()
    for parts, has_part in ((1, [0, None]), (2, [0, 1]), (1, [0, None])):
        await log.divide(parts)
        log.fields |= {str(part): "12" for part in range(parts)}  # So that there is something to read again.
        async with asyncio.timeout(20):
            while [one.health()["part"] for one in made] != has_part:  # noqa: ASYNC110
                await asyncio.sleep(0)
    await asyncio.gather(*(one.stop() for one in made))
    identities = [entry.event.identity for entry in log.entries if entry.event]
    assert len(identities) == len(set(identities)) > 0


async def test_a_program_with_a_floor_gets_nothing_again() -> None:
    """What is so old that the log does not know it any more would else be told twice."""
    log = MemorySignalLog()
    await _follow(log, ScriptedSource(CHAIN))
    count, position = len(log.entries), max(log.positions.values())
    log.seen.clear()
    log.fields = {"0": "12", key_text(moonshot.PROGRAM): str(position)}
    await _follow(log, ScriptedSource([update for update in CHAIN if _at(update) <= position]))
    assert len(log.entries) == count and set(log.positions.values()) == {position}


def _at(update: Update) -> int:
    return update.slot if isinstance(update, SlotSeen) else update.transaction.slot


async def test_a_position_that_is_lost_is_a_gap_and_an_end_of_nothing() -> None:
    """The classifier goes on from now, subscribers are told, and so is health."""
    log = MemorySignalLog()
    await _follow(log, ScriptedSource(CHAIN[:30]))
    newest, log.fields = max(entry.event.slot for entry in log.entries if entry.event), {}
    before, stream = len(log.entries), ScriptedSource(CHAIN[90:])
    stream.head = lambda: 30  # type: ignore[method-assign]
    one = classifier(log, stream)
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            await one.follow()
    gap, *after = log.entries[before:]
    assert gap.gap is not None and (gap.gap.from_slot, gap.gap.to_slot) == (newest + 1, 30)
    assert one.health()["gap"]["to_slot"] == 30 and after and all(entry.gap is None for entry in after)
    assert stream.asked == [None, min(log.positions.values()) + 1] and min(log.positions.values()) > 30


async def test_a_position_that_redis_never_keeps_is_given_up() -> None:
    """Without an end, PositionLost again and again would be an end of all signals."""

    class Forgetful(MemorySignalLog):
        forgets = 4

        def _guard(self, claim: Claim) -> None:
            if self.forgets:
                self.forgets -= 1
                raise PositionLost("p")
            super()._guard(claim)

    log = Forgetful()
    at_slot_12(log)
    pauses, done = list[float](), asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            done.set()
            await asyncio.Event().wait()

    one = classifier(log, ScriptedSource(CHAIN), sleep=sleep)
    one.start()
    await done.wait()
    await one.stop()
    assert len({entry.event.identity for entry in log.entries if entry.event}) == one.health()["signals"] > 0
    assert max(log.positions.values()) > 12


async def test_a_fenced_classifier_ends_and_writes_nothing() -> None:
    log, ended = MemorySignalLog(), asyncio.Event()
    one = classifier(log, ScriptedSource(CHAIN), on_fenced=ended.set)
    original = log.claim

    async def claim_and_be_overtaken(*given: Any) -> Any:
        taken = await original(*given)
        await original(0, 1, None)
        return taken

    log.claim = claim_and_be_overtaken  # type: ignore[method-assign, assignment]
    one.start()
    await ended.wait()
    await one.stop()
    assert log.entries == [] and "claimed" in one.health()["fault"] and one.health()["source"] == "none"


async def test_health_tells_since_when_there_is_no_source() -> None:
    """A source counts once it tells something, so that one that never answers is none."""
    clock = ManualClock()
    one = classifier(MemorySignalLog(), ScriptedSource([]), clock=clock)
    with pytest.raises(SourceUnavailable):
        await one.follow()
    clock.advance(7)
    assert (one.health()["source"], one.health()["source_away_seconds"]) == ("none", 7)
