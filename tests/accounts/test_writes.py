"""The writes of a group, and their form as the database takes them."""

import json

from actors.accounts.account import Account, HoldEnded, Mark, MarkKind, ProfileSet
from actors.accounts.core import decide_adjust, decide_limits, decide_settle, decide_void
from actors.accounts.deposits import decide_deposit, decide_return, deposit_operation
from actors.accounts.hourly_limit import HOUR_MS
from actors.accounts.ledger import EntryType
from actors.accounts.writes import Write, entry_arguments, group_arguments
from tests.accounts.making import ALICE, START, group_of, later, opened, operation, settle, take

OPERATION = deposit_operation(b"s" * 64, 1)


def test_a_group_says_where_the_store_must_have_left_each_account() -> None:
    account = opened(credits=100)
    group = Write()
    for number in (1, 2, 3):
        take(account, decide_settle(account, settle(number, 10), START, True).event, group)
    group.cut({ALICE: account})
    (head,) = group.heads
    assert (head.seq_before, head.seq, head.balance, head.hash) == (1, 4, 70, account.head)
    assert group.batches == {(ALICE, 1): 70}
    assert group.shards == {account.shard}


def test_only_what_must_survive_is_written() -> None:
    account = opened(credits=100)
    group = Write()
    assert not group.add(account, HoldEnded(operation(1), 0))
    assert group.add(account, HoldEnded(operation(1), 0, mark=Mark(MarkKind.VOID, operation(1), 0, 0)))
    assert group.add(account, ProfileSet(account.profile))
    group.cut({ALICE: account})
    ((_, entry, _),) = group.entries
    assert (entry.type, entry.method, entry.amount) == (EntryType.FACT, "account", 0)
    assert [(head.seq_before, head.seq) for head in group.heads] == [(entry.seq - 1, entry.seq)]


def in_a_begun_hour(account: Account) -> Account:
    """The first debit of an hour writes what was consumed before it; this one is not the first."""
    account.hourly.turn(START.wall_ms // HOUR_MS, account.total_consumed)
    account.hourly.written_hour = account.hourly.hour
    return account


def test_a_plain_debit_needs_no_rare_part() -> None:
    """Most groups are debits alone: what is rare must cost them nothing."""
    account = in_a_begun_hour(opened(credits=10))
    group = Write()
    take(account, decide_settle(account, settle(1, 5), START, True).event, group)
    group.cut({ALICE: account})
    assert group_arguments(group)[0] is None


def test_only_one_entry_of_one_batch_alone_goes_as_plain_values() -> None:
    """Everything else of a group would be lost on that way."""
    account = in_a_begun_hour(opened(credits=10))
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


def test_a_return_names_the_deposit_it_undoes() -> None:
    account = opened()
    event = decide_deposit(account, OPERATION, 10_000, 7, 100_000, START)
    assert event is not None
    group_of(account, event)
    rare = json.loads(group_arguments(group_of(account, decide_return(account, OPERATION, 1_000, "why", START)))[0])
    (row,) = rare["returns"]
    assert row == {"operation": OPERATION.hex(), "taken": 1_000, "uncollected": 0, "at_ms": START.wall_ms}
