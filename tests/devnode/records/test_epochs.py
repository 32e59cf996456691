from devnode.records.epochs import SLOTS_PER_EPOCH, epoch_of


def test_positions_at_the_edges_of_an_epoch() -> None:
    last = epoch_of(SLOTS_PER_EPOCH - 1)
    assert (last.epoch, last.slot_index, last.first_slot, last.last_slot) == (0, 431_999, 0, 431_999)
    first = epoch_of(SLOTS_PER_EPOCH)
    assert (first.epoch, first.slot_index, first.first_slot) == (1, 0, SLOTS_PER_EPOCH)
