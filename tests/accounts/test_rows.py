"""How groups look to the database."""

import json

from actors.accounts.account import Deposit
from actors.accounts.core import decide_settle
from actors.accounts.deposits import decide_deposit, decide_return, deposit_operation
from actors.accounts.rows import group_arguments, read_deposit
from actors.accounts.writes import Write
from tests.accounts.making import ALICE, START, group_of, opened, settle, take

OPERATION = deposit_operation(b"s" * 64, 1)


def test_a_plain_debit_needs_no_rare_part() -> None:
    """Most groups are debits alone: what is rare must cost them nothing."""
    account = opened(credits=10)
    group = Write()
    take(account, decide_settle(account, settle(1, 5), START).event, group)
    group.cut({ALICE: account})
    assert group_arguments(group)[1] is None


def test_a_deposit_is_read_back_as_it_was_written() -> None:
    account = opened()
    (event,) = decide_deposit(account, OPERATION, 10_000, 7, 100_000, START)
    rare = json.loads(group_arguments(group_of(account, event))[1])
    (row,) = rare["deposits"]
    assert read_deposit(json.dumps(row)) == event.deposit
    assert isinstance(event.deposit, Deposit)
    assert read_deposit(None) is None


def test_a_return_names_the_deposit_it_undoes() -> None:
    account = opened()
    (event,) = decide_deposit(account, OPERATION, 10_000, 7, 100_000, START)
    group_of(account, event)
    rare = json.loads(group_arguments(group_of(account, decide_return(account, OPERATION, 1_000, "why", START)))[1])
    (row,) = rare["returns"]
    assert row == {"operation": OPERATION.hex(), "taken": 1_000, "uncollected": 0, "at_ms": START.wall_ms}
