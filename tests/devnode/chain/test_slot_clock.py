from devnode.chain.slot_clock import SlotClock
from devnode.records.epochs import SLOTS_PER_EPOCH


def test_an_epoch_keeps_the_time_of_its_first_slot() -> None:
    clock = SlotClock()
    first, second = clock.at(1_000, 50), clock.at(1_001, 51)
    assert (first.slot, first.unix_timestamp, first.epoch, first.epoch_start_timestamp) == (1_000, 50, 0, 50)
    assert (second.unix_timestamp, second.epoch_start_timestamp) == (51, 50)
    later = clock.at(SLOTS_PER_EPOCH, 99)
    assert (later.epoch, later.leader_schedule_epoch, later.epoch_start_timestamp) == (1, 2, 99)
