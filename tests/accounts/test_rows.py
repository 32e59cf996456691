"""How groups look to the database."""

import json

from actors.accounts.account import Deposit
from actors.accounts.core import decide_adjust, decide_limits, decide_settle, decide_void
from actors.accounts.deposits import decide_deposit, decide_return, deposit_operation
from actors.accounts.rows import entry_arguments, group_arguments, read_deposit
from actors.accounts.writes import Write
from tests.accounts.making import ALICE, START, group_of, later, opened, settle, take

OPERATION = deposit_operation(b"s" * 64, 1)


def test_a_plain_debit_needs_no_rare_part() -> None:
    """Most groups are debits alone: what is rare must cost them nothing."""
    account = opened(credits=10)
    group = Write()
    take(account, decide_settle(account, settle(1, 5), START, True).event, group)
    group.cut({ALICE: account})
    assert group_arguments(group)[0] is None


def test_only_one_entry_of_one_batch_alone_goes_as_plain_values() -> None:
    """Everything else of a group would be lost on that way."""
    account = opened(credits=10)
    grant = decide_adjust(account, 10, "more", b"more", later(START, 1))
    assert grant is not None
    assert entry_arguments(group_of(account, grant)) is None  # A batch and a mark.
    alone = decide_settle(account, settle(1, 5), START, True).event
    assert alone is not None
    assert entry_arguments(group_of(account, alone)) is not None
    two_batches = decide_settle(account, settle(2, 7), START, True).event
    assert two_batches is not None
    assert entry_arguments(group_of(account, two_batches)) is None
    group = Write()
    take(account, decide_settle(account, settle(3, 1), START, True).event, group)
    take(account, decide_settle(account, settle(4, 1), START, True).event, group)
    group.cut({ALICE: account})
    assert entry_arguments(group) is None
    refund = decide_void(account, settle(4, 1), START).event
    assert refund is not None
    assert entry_arguments(group_of(account, refund)) is None  # A mark.
    with_profile = group_of(account, decide_limits(account, 7, None))
    take(account, decide_settle(account, settle(5, 1), START, True).event, with_profile)
    with_profile.cut({ALICE: account})
    assert entry_arguments(with_profile) is None


def test_a_deposit_is_read_back_as_it_was_written() -> None:
    account = opened()
    event = decide_deposit(account, OPERATION, 10_000, 7, 100_000, START)
    assert event is not None
    rare = json.loads(group_arguments(group_of(account, event))[0])
    (row,) = rare["deposits"]
    assert read_deposit(json.dumps(row)) == event.deposit
    assert isinstance(event.deposit, Deposit)
    assert read_deposit(None) is None


def test_a_return_names_the_deposit_it_undoes() -> None:
    account = opened()
    event = decide_deposit(account, OPERATION, 10_000, 7, 100_000, START)
    assert event is not None
    group_of(account, event)
    rare = json.loads(group_arguments(group_of(account, decide_return(account, OPERATION, 1_000, "why", START)))[0])
    (row,) = rare["returns"]
    assert row == {"operation": OPERATION.hex(), "taken": 1_000, "uncollected": 0, "at_ms": START.wall_ms}
