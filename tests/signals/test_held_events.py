"""Parts that share a program: whatever the speeds, the log has its signals in the order of slots, and all of them."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.signals.events import SignalEvent
from actors.signals.held_events import NO_OTHERS, HeldEvents
from tests.signals.test_log import signal


class Part:
    """One part that reads its share of a chain, one slot's signals in a step."""

    def __init__(self, share: list[SignalEvent]) -> None:
        self.share, self.held, self.read, self.reached = share, HeldEvents(), 0, 0

    def step(self, others: list["Part"], most: int) -> list[SignalEvent]:
        """Read one signal, if there is one, and write what may be written."""
        if self.share:
            event = self.share.pop(0)
            self.read = event.slot
            self.held.add([event])
        else:
            self.read = 1_000  # The next slots have come, without signals of this part.
        written = self.held.take(min((other.reached for other in others), default=NO_OTHERS), most)
        self.reached = max(self.reached, self.held.reached(self.read))
        return written


@settings(max_examples=150, deadline=None)
@given(
    slots=st.lists(st.integers(1, 12), max_size=60),
    parts=st.integers(1, 5),
    seed=st.integers(0, 1 << 30),
    most=st.integers(1, 4),
)
def test_signals_of_many_parts_are_in_order_and_complete(slots: list[int], parts: int, seed: int, most: int) -> None:
    """Any interleaving of the parts, however uneven their shares and speeds, and it ends: no part waits for ever."""
    randomness = random.Random(seed)
    chain = [signal(number, slot) for number, slot in enumerate(sorted(slots))]
    made = [Part([]) for _ in range(parts)]
    for event in chain:
        randomness.choice(made).share.append(event)
    written: list[SignalEvent] = []
    for _ in range(40 * (len(chain) + parts)):
        one = randomness.choice(made)
        written += one.step([other for other in made if other is not one], most)
        for part in made:
            lowest = min(part.held._by_slot, default=1_001)
            assert part.reached <= lowest, "what is reached is written"
    for _ in range(len(chain) + parts):
        for one in made:
            written += one.step([other for other in made if other is not one], most)
    assert [event.slot for event in written] == [event.slot for event in chain]
    assert sorted(event.signature for event in written) == sorted(event.signature for event in chain)


def test_a_position_stays_below_what_is_held() -> None:
    """Who is killed reads it again."""
    held = HeldEvents()
    assert (held.position(50), held.reached(60)) == (50, 60)
    held.add([signal(1, 55), signal(2, 40)])
    assert (held.position(50), held.reached(60)) == (39, 40)
    assert held.take(39, 9) == [] and not held.may_go_on(39) and held.may_go_on(40)
    assert held.take(40, 9) == [signal(2, 40)]
    assert (held.position(50), held.reached(60)) == (50, 55)


def test_what_a_fork_has_lost_is_not_written() -> None:
    held = HeldEvents()
    held.add([signal(1, 55), signal(2, 56), signal(1, 57)])
    held.drop(55)
    assert len(held) == 2 and held.take(NO_OTHERS, 9) == [signal(2, 56), signal(1, 57)]


def test_what_comes_late_of_a_slot_that_all_have_reached_is_written_at_once() -> None:
    held = HeldEvents()
    held.add([signal(1, 60), signal(2, 40)])
    assert held.take(50, 9) == [signal(2, 40)]
