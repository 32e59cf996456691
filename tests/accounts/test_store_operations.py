"""What both stores promise about operations: each is debited once for ever, and found for ever. No clock has a say."""

import pytest

from actors.accounts.account import Account, HoldEnded, Mark, MarkKind, Moment, Moved
from actors.accounts.core import decide_settle, decide_void
from actors.accounts.store import AccountStore
from actors.accounts.stored import Past, StoreUnavailable, restore
from actors.accounts.writes import Write
from tests.accounts.making import ALICE, BOB, DEFAULTS, START, group_of, later, operation, settle, take
from tests.accounts.test_store import SHARDS, opened_in, same_after_loading

MONTH = 31 * 86_400


def debit(account: Account, number: int, moment: Moment = START, charged: int = 5) -> Moved:
    """By an owner that believes this operation to be new."""
    request = settle(number, charged, pubkey=account.pubkey, held_at=moment.wall_ms // 1000)
    event = decide_settle(account, request, moment, True).event
    assert isinstance(event, Moved), event
    return event


async def without_memory(store: AccountStore, account: Account) -> Account:
    """The account as an owner has it that knows none of its operations."""
    stored = await store.load(account.pubkey, START.wall_ms + 10 * MONTH * 1000)
    assert stored is not None
    restored = restore(stored, DEFAULTS, START.steady)
    restored.operations.drop(operation(1))
    return restored


@pytest.mark.parametrize("after_seconds", [0, 1, 140, MONTH])
async def test_an_operation_is_debited_once_whatever_month_it_is(store: AccountStore, after_seconds: int) -> None:
    """The ledger is partitioned by month; the second debit may come in another one, by another owner's clock."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    await store.prepare(START.wall_ms + after_seconds * 1000)
    await store.write(epoch, group_of(account, debit(account, 1)))
    again = await without_memory(store, account)
    moment = later(START, after_seconds)
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group_of(again, debit(again, 1, moment)))
    await same_after_loading(store, account)
    other = await without_memory(store, account)
    await store.write(epoch, group_of(other, debit(other, 2, moment)))


async def test_a_group_that_debits_an_operation_twice_is_not_written(store: AccountStore) -> None:
    """Nor one in which an operation of one account is debited from another; nothing of such a group is kept."""
    epoch = await store.take_over("first", SHARDS, False)
    alice, bob = await opened_in(store, epoch), await opened_in(store, epoch, BOB, 10)
    before = await without_memory(store, alice)
    twice, group = await without_memory(store, alice), Write()
    take(twice, debit(twice, 1), group)
    twice.operations.drop(operation(1))
    take(twice, debit(twice, 1), group)
    group.cut({ALICE: twice})
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group)
    await same_after_loading(store, before)
    await store.write(epoch, group_of(alice, debit(alice, 1)))
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group_of(bob, debit(bob, 1)))


async def test_the_end_of_an_operation_is_found_after_any_time(store: AccountStore) -> None:
    """Debited, refunded, voided before it was debited, debited for somebody else, or never ended."""
    epoch = await store.take_over("first", SHARDS, False)
    alice, bob = await opened_in(store, epoch), await opened_in(store, epoch, BOB, 10)
    await store.prepare(START.wall_ms + MONTH * 1000)
    first = debit(alice, 1)
    await store.write(epoch, group_of(alice, first))
    second = debit(alice, 2, later(START, MONTH))
    await store.write(epoch, group_of(alice, second))
    refund = decide_void(alice, settle(2, 5), later(START, MONTH)).event
    assert refund is not None
    mark = Mark(MarkKind.VOID, operation(3), START.wall_ms, 0)
    await store.write(epoch, group_of(alice, refund, HoldEnded(operation(3), 0, mark=mark)))
    await store.write(epoch, group_of(bob, debit(bob, 4)))
    found = await store.find_ended([(ALICE, operation(number)) for number in range(1, 6)])
    assert found == {
        (ALICE, operation(1)): Past(first.entry, voided=False),
        (ALICE, operation(2)): Past(second.entry, voided=True),
        (ALICE, operation(3)): Past(None, voided=True),
        (ALICE, operation(4)): Past(None, voided=False),
    }
    assert await store.find_ended([]) == {}


async def test_spent_batches_are_found_with_their_dates(store: AccountStore) -> None:
    """A refund gives credits back to them."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch, credits=5)
    made = account.purse.batches[0].expires_at
    await store.write(epoch, group_of(account, debit(account, 1)))
    (batch,) = await store.find_batches(ALICE, [1, 2])
    assert (batch.id, batch.credits, batch.remaining, batch.expires_at) == (1, 5, 0, made)
    assert await store.find_batches(BOB, [1]) == []
    refund = decide_void(account, settle(1, 5), START).event
    assert refund is not None
    await store.write(epoch, group_of(account, refund))
    restored = await same_after_loading(store, account)
    assert [(batch.id, batch.remaining) for batch in restored.purse.batches] == [(1, 5)]


async def test_the_store_tells_its_own_time(store: AccountStore) -> None:
    """With every write and with every look at who owns the shards: later answers are never earlier by its clock."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    first = await store.check_owner(epoch, SHARDS)
    alone = await store.write(epoch, group_of(account, debit(account, 1)))
    several = await store.write(epoch, group_of(account, debit(account, 2), debit_after(account, 3)))
    assert first <= alone <= several <= await store.check_owner(epoch, SHARDS)
    assert first > START.wall_ms - 1


def debit_after(account: Account, number: int) -> HoldEnded:
    """Something that makes a group of more than one entry."""
    return HoldEnded(operation(number), 0, mark=Mark(MarkKind.VOID, operation(number), START.wall_ms, 0))
