import hashlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from devnode.records.leaders import LEADERS_MAX, SLOTS_PER_EPOCH, SLOTS_PER_TURN, LeaderSchedule, epoch_of


def test_positions_at_the_edges_of_an_epoch() -> None:
    last = epoch_of(SLOTS_PER_EPOCH - 1)
    assert (last.epoch, last.slot_index, last.first_slot, last.last_slot) == (0, 431_999, 0, 431_999)
    first = epoch_of(SLOTS_PER_EPOCH)
    assert (first.epoch, first.slot_index, first.first_slot) == (1, 0, SLOTS_PER_EPOCH)


SALT = bytes(range(32))
SLOTS = st.integers(0, 3 * SLOTS_PER_EPOCH)
COUNTS = st.integers(1, LEADERS_MAX)


@given(count=COUNTS, slot=SLOTS)
def test_every_leader_has_four_slots_in_a_row_and_a_turn_in_each_round(count: int, slot: int) -> None:
    schedule = LeaderSchedule(count, SALT)
    turn = slot // SLOTS_PER_TURN
    assert len({schedule.leader_at(turn * SLOTS_PER_TURN + within) for within in range(SLOTS_PER_TURN)}) == 1
    in_epoch = turn % (SLOTS_PER_EPOCH // SLOTS_PER_TURN)
    first = turn - in_epoch % count
    if in_epoch - in_epoch % count + count <= SLOTS_PER_EPOCH // SLOTS_PER_TURN:
        led = [schedule.leader_at((first + offset) * SLOTS_PER_TURN) for offset in range(count)]
        assert sorted(led) == list(range(count))


def test_the_schedule_depends_on_salt_epoch_and_number_of_leaders() -> None:
    """Two nodes of one seed agree; a node that starts in the middle of an epoch agrees with one that saw its start."""
    schedule, same = LeaderSchedule(3, SALT), LeaderSchedule(3, SALT)
    late = [same.leader_at(slot) for slot in range(5_000, 5_100)]
    assert late == [schedule.leader_at(slot) for slot in range(5_000, 5_100)]
    assert schedule.turns(0) != schedule.turns(1)
    assert schedule.turns(0) != LeaderSchedule(3, hashlib.sha256(SALT).digest()).turns(0)
    rounds = {schedule.turns(0)[start : start + 3] for start in range(0, 3_000, 3)}
    assert len(rounds) == 6, "every order of three leaders occurs"


@given(count=COUNTS, slot=SLOTS, leader=st.integers(0, LEADERS_MAX - 1))
def test_the_next_turn_of_a_leader_is_the_first_one(count: int, slot: int, leader: int) -> None:
    schedule = LeaderSchedule(count, SALT)
    leader %= count
    wait = schedule.slots_until(leader, slot)
    assert schedule.leader_at(slot + wait) == leader
    assert all(schedule.leader_at(slot + earlier) != leader for earlier in range(wait))
    this, *following = schedule.this_and_next(slot)
    assert this == schedule.leader_at(slot) and len(following) == min(1, count - 1)
    if following:
        others = (one for ahead in range(1, 99) if (one := schedule.leader_at(slot + ahead)) != this)
        assert following == [next(others)]


@given(count=COUNTS, first=SLOTS, length=st.integers(1, 300))
def test_slots_led_are_counted_one_by_one(count: int, first: int, length: int) -> None:
    schedule = LeaderSchedule(count, SALT)
    counted = Counter(schedule.leader_at(slot) for slot in range(first, first + length))
    for leader in range(count):
        assert schedule.slots_led(leader, first, first + length - 1) == counted[leader]
    assert schedule.slots_led(0, first, first - 1) == 0
