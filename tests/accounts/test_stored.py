"""Rows of the store become the account and the deposit that were written."""

import json

import pytest

from actors.accounts.account import Deposit
from actors.accounts.core import decide_adjust, decide_settle
from actors.accounts.deposits import decide_deposit, deposit_operation
from actors.accounts.stored import Damaged, Stored, read_deposit, restore
from actors.accounts.writes import group_arguments
from actors.units import VirtualShard
from tests.accounts.making import ALICE, DEFAULTS, START, group_of, opened, opening_group, operation, settle, take
from tests.accounts.memory_store import MemoryAccountStore


@pytest.fixture
async def stored() -> Stored:
    """An account with a grant and two debits, as a store has it."""
    account = opened()
    group = opening_group(account)
    take(account, decide_adjust(account, 100, "", b"grant", START), group)
    for number in (1, 2):
        take(account, decide_settle(account, settle(number, 10), START, True).event, group)
    group.cut({ALICE: account})
    store = MemoryAccountStore()
    epoch = await store.take_over("owner", [VirtualShard(number) for number in range(1024)], False)
    await store.write(epoch, group)
    loaded = await store.load(ALICE, 0)
    assert loaded is not None
    return loaded


async def test_a_true_account_is_restored(stored: Stored) -> None:
    account = restore(stored, DEFAULTS, 5)
    account.check()
    assert account.operations.get(operation(2)) is not None
    assert (account.purse.balance, account.seq) == (80, 5)


@pytest.mark.parametrize("part", ["batch", "hash", "balance", "entry", "missing", "order"])
async def test_a_damaged_account_is_halted(stored: Stored, part: str) -> None:
    """Threat 20: a flip is detected when the account is loaded, before anything is decided on it."""
    if part == "batch":
        stored.batches[0].remaining = type(stored.batches[0].remaining)(81)
    elif part == "hash":
        stored.head = stored.head._replace(hash=b"x" * 32)
    elif part == "balance":
        stored.head = stored.head._replace(balance=81)
    elif part == "entry":
        stored.entries[1] = (stored.entries[0][0], stored.entries[1][1])
    elif part == "order":
        stored.entries.reverse()
    else:
        stored.entries.clear()
    with pytest.raises(Damaged):
        restore(stored, DEFAULTS, 5)


def test_a_deposit_is_read_back_as_it_was_written() -> None:
    account = opened()
    event = decide_deposit(account, deposit_operation(b"s" * 64, 1), 10_000, 7, 100_000, START)
    assert event is not None
    rare = json.loads(group_arguments(group_of(account, event))[0])
    (row,) = rare["deposits"]
    assert read_deposit(json.dumps(row)) == event.deposit
    assert isinstance(event.deposit, Deposit)
    assert read_deposit(None) is None
