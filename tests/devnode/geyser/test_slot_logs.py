"""Which slots and updates are kept, and which are dropped."""

import pytest

from devnode.geyser.slot_logs import SlotLog, SlotLogs
from devnode.records.commitment import Commitment

from .samples import CREATED_MS, KEYS, SLOT, account_update, block, transaction_update

LEVELS = list(Commitment)


def test_only_the_last_write_of_an_account_is_kept() -> None:
    """The last write keeps its position; other accounts and transactions do not move."""
    log = SlotLog(SLOT, None)
    first, other, last = account_update(KEYS[0], lamports=1), account_update(KEYS[1]), account_update(KEYS[0])
    transaction = transaction_update()
    log.add_account(first)
    log.add_account(other)
    log.add_transaction(transaction)
    log.add_account(last)
    assert list(log.writes_and_transactions()) == [other, transaction, last]
    log.seal(block((transaction.record,)), CREATED_MS)
    assert list(log.writes_and_transactions()) == [other, transaction, last]


def test_a_log_has_the_block_after_the_seal() -> None:
    """After the seal there are entries, block and block meta with the log's updates; before it there are none."""
    log = SlotLog(SLOT, None)
    transaction, account = transaction_update(), account_update()
    log.add_account(account)
    log.add_transaction(transaction)
    assert list(log.block(with_entries=True)) == []
    log.seal(block((transaction.record,)), CREATED_MS)
    assert [type(one).__name__ for one in log.block(with_entries=True)] == [
        *("EntryUpdate", "EntryUpdate", "BlockUpdate", "BlockMetaUpdate")
    ]
    whole, _ = log.block(with_entries=False)
    assert (whole.transactions, whole.accounts) == ((transaction,), (account,))
    assert log.parent == SLOT - 2


@pytest.mark.parametrize("reached", LEVELS)
@pytest.mark.parametrize("is_abandoned", [False, True])
def test_a_slot_has_reached_all_levels_below(reached: Commitment, is_abandoned: bool) -> None:
    """An abandoned slot has reached processed and never reaches a higher level."""
    log = SlotLog(SLOT, None)
    log.level, log.is_abandoned = reached, is_abandoned
    found = [level for level in LEVELS if log.has_reached(level)]
    assert found == ([Commitment.PROCESSED] if is_abandoned else LEVELS[: LEVELS.index(reached) + 1])


def filled(replay_slots: int, updates_max: int = 1_000, slots: int = 10, final: int = 8) -> SlotLogs:
    """Slots 1 to `slots` with two updates each, final up to `final`."""
    logs = SlotLogs(replay_slots, updates_max)
    for slot in range(1, slots + 1):
        log = logs.open(slot, slot - 1)
        log.add_account(account_update(KEYS[0], slot=slot))
        log.add_account(account_update(KEYS[1], slot=slot))
    for slot in range(1, final + 1):
        logs.reach(slot, Commitment.FINALIZED)
    return logs


@pytest.mark.parametrize(
    ("replay_slots", "updates_max", "first"),
    [(100, 1_000, 1), (4, 1_000, 7), (2, 1_000, 9), (1, 1_000, 9), (100, 10, 6), (100, 1, 9)],
    ids=["all fit", "slots", "exactly the unfinal", "fewer slots than are unfinal", "updates", "too few updates"],
)
def test_the_oldest_slots_are_dropped(replay_slots: int, updates_max: int, first: int) -> None:
    """The numbers of slots and updates are limited, but slots that are not final are always kept."""
    logs = filled(replay_slots, updates_max)
    assert logs.first_slot == first
    assert [log.slot for log in logs.after(0)] == list(range(first, 11))


def test_replay_can_be_off() -> None:
    """Then there is no first slot, but slots that are not final are still kept."""
    logs = filled(replay_slots=0)
    assert logs.first_slot is None
    assert [log.slot for log in logs.after(0)] == [9, 10]


def test_the_next_log_is_the_oldest_that_reached_the_level() -> None:
    """Missing slots are skipped."""
    logs = filled(100)
    found = logs.next_after(3, Commitment.FINALIZED)
    assert found is not None and found.slot == 4
    assert logs.next_after(8, Commitment.FINALIZED) is None
    found = logs.next_after(8, Commitment.PROCESSED)
    assert found is not None and found.slot == 9


def test_held_slots_are_kept() -> None:
    """Slots that a running replay needs are not dropped."""
    logs = filled(replay_slots=100, final=0)
    logs._replay_slots = 2
    logs.hold("a replay", 4)
    logs.hold("another", 6)
    logs.reach(8, Commitment.FINALIZED)
    assert logs.first_slot == 5
    logs.release("a replay")
    logs.release("a replay")
    logs.reach(8, Commitment.FINALIZED)
    assert logs.first_slot == 7


def test_an_abandoned_slot_does_not_stop_a_replay() -> None:
    """It counts as the next slot at every level; otherwise a replay would wait for it for ever."""
    logs = filled(100)
    abandoned = logs.get(9)
    assert abandoned is not None
    abandoned.is_abandoned = True
    assert logs.next_after(8, Commitment.FINALIZED) is abandoned
    assert logs.next_after(9, Commitment.FINALIZED) is None


def test_clear_drops_all_logs() -> None:
    """After missed events, no incomplete log is left."""
    logs = filled(100)
    logs.clear()
    assert logs.first_slot is None
    assert logs.reach(3, Commitment.CONFIRMED) is None
