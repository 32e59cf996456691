"""One suite that every store of accounts must pass: memory and real PostgreSQL."""

import asyncio
from typing import Any

import asyncpg
import pytest

from actors.accounts.account import Account, HoldEnded, Mark, MarkKind, Moved
from actors.accounts.core import decide_adjust, decide_key, decide_limits, decide_settle, decide_status, decide_void
from actors.accounts.store import EXPIRED_LOOKED_BACK_SECONDS, AccountStore, PostgresAccountStore
from actors.accounts.stored import Fenced, StoreUnavailable, restore
from actors.accounts.writes import Write
from actors.calls import SettleRequest
from actors.units import VirtualShard
from tests.accounts.making import (
    ALICE,
    BOB,
    DEFAULTS,
    START,
    group_of,
    later,
    opened,
    opening_group,
    operation,
    settle,
    take,
)
from tests.databases import as_role

SHARDS = tuple(VirtualShard(number) for number in range(1024))
HOUR_MS = 3_600_000
OPENED_SEQ = 3  # Of an account that `opened_in` made: it was opened, had a grant, and that made a batch.


def posted(account: Account, request: SettleRequest) -> Moved:
    """The event of a settle that must be accepted."""
    settlement = decide_settle(account, request, START, True)
    assert isinstance(settlement.event, Moved), settlement
    return settlement.event


async def opened_in(store: AccountStore, epoch: int, pubkey: bytes = ALICE, credits: int = 1000) -> Account:
    """An account that the store has, with one grant."""
    account = opened(pubkey)
    await store.write(epoch, opening_group(account))
    grant = decide_adjust(account, credits, "opening", b"opening", START)
    assert grant is not None
    await store.write(epoch, group_of(account, grant))
    return account


def debits(account: Account, count: int) -> Write:
    """So many calls of this account, in one group."""
    group = Write()
    for number in range(1, count + 1):
        take(account, posted(account, settle(account.seq + number, 1)), group)
    group.cut({account.pubkey: account})
    return group


async def same_after_loading(store: AccountStore, account: Account) -> Account:
    stored = await store.load(account.pubkey, 0)
    assert stored is not None
    restored = restore(stored, DEFAULTS, START.steady)
    for field in ("profile", "purse", "seq", "head", "last_ms", "total_consumed"):
        assert getattr(restored, field) == getattr(account, field), field
    return restored


async def test_an_account_loads_as_it_was_written(store: AccountStore) -> None:
    """Loading needs no replay: heads, batches and recent operations say it all."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    more = decide_adjust(account, 50, "more", b"more", START)
    assert more is not None
    group = group_of(account, more, decide_key(account, b"h" * 32, "srpc_live_abc", START))
    await store.write(epoch, group)
    await store.write(epoch, group_of(account, posted(account, settle(1, 1010))))
    await store.write(epoch, group_of(account, decide_limits(account, 7, None), decide_status(account, "suspended")))

    restored = await same_after_loading(store, account)
    assert restored.operations.get(operation(1)) == account.operations.get(operation(1))
    assert await store.find_key(b"h" * 32) == ALICE
    assert await store.load(BOB, 0) is None
    assert await store.find_key(b"x" * 32) is None


async def test_several_events_of_several_accounts_are_one_group(store: AccountStore) -> None:
    epoch = await store.take_over("first", SHARDS, False)
    alice, bob = await opened_in(store, epoch), await opened_in(store, epoch, BOB, 10)
    group = group_of(alice)
    for number in range(1, 40):
        take(alice, posted(alice, settle(number, number)), group)
    take(bob, posted(bob, settle(99, 10, pubkey=BOB)), group)
    group.cut({ALICE: alice, BOB: bob})
    await store.write(epoch, group)
    await same_after_loading(store, alice)
    assert (await same_after_loading(store, bob)).purse.batches == []


async def test_a_batch_made_and_spent_in_one_group_is_stored_as_spent(store: AccountStore) -> None:
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    group = opening_group(account)
    grant = decide_adjust(account, 5, "grant", b"grant", START)
    take(account, grant, group)
    take(account, posted(account, settle(1, 5)), group)
    group.cut({ALICE: account})
    await store.write(epoch, group)
    assert (await same_after_loading(store, account)).purse.batches == []


async def test_an_older_owner_cannot_write(store: AccountStore) -> None:
    """Threats 21 and 40: the write itself carries the epoch, and nothing of it is kept."""
    assert not await store.has_owner(SHARDS)
    old = await store.take_over("old", SHARDS, False)
    assert await store.has_owner(SHARDS[:1])
    account = await opened_in(store, old)
    new = await store.take_over("new", SHARDS[:900], False)
    assert new > old
    with pytest.raises(Fenced):
        await store.write(old, group_of(account, posted(account, settle(1, 5))))
    with pytest.raises(Fenced):
        await store.check_owner(old, SHARDS)
    with pytest.raises(Fenced):
        await store.take_over("old", SHARDS, True)
    await store.check_owner(new, SHARDS[:900])
    stored = await store.load(ALICE, 0)
    assert stored is not None and stored.head.seq == OPENED_SEQ


async def test_an_older_owner_can_write_no_kind_of_group(store: AccountStore) -> None:
    """Money rule 12: one entry, several, a profile or a mark alone; one account that was lost takes all with it."""
    old = await store.take_over("old", SHARDS, False)
    alice, bob = await opened_in(store, old), await opened_in(store, old, BOB, 10)
    assert alice.shard != bob.shard
    await store.take_over("new", [alice.shard], False)
    mixed = group_of(bob)
    take(bob, posted(bob, settle(1, 5, pubkey=BOB)), mixed)
    take(alice, posted(alice, settle(2, 5)), mixed)
    mixed.cut({ALICE: alice, BOB: bob})
    mark = Mark(MarkKind.VOID, operation(7), START.wall_ms, 0)
    groups = (
        mixed,
        group_of(alice, posted(alice, settle(3, 5))),
        group_of(alice, decide_status(alice, "suspended")),
        group_of(alice, HoldEnded(operation(7), 0, mark=mark)),
    )
    for group in groups:
        with pytest.raises(Fenced):
            await store.write(old, group)
    for pubkey in (ALICE, BOB):
        stored = await store.load(pubkey, 0)
        assert stored is not None and stored.head.seq == OPENED_SEQ
        assert stored.profile.status == "active" and stored.marks == []


async def test_an_entry_goes_on_from_where_the_account_is(store: AccountStore) -> None:
    """Memory that is ahead of the ledger, or behind it, writes nothing."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    group = debits(account, 1)
    await store.write(epoch, group)
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group)
    ahead = debits(account, 1)
    ahead.before[ALICE] = await opened_in_memory_only(account)
    ahead.cut({ALICE: account})
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, ahead)
    stored = await store.load(ALICE, 0)
    assert stored is not None and stored.head.seq == OPENED_SEQ + 1


async def test_an_owner_renews_its_own_epoch(store: AccountStore) -> None:
    """After a write whose end is unknown: the old epoch is dead, also when the renewal itself is repeated."""
    first = await store.take_over("me", SHARDS, False)
    account = await opened_in(store, first)
    await store.take_over("me", SHARDS, True)
    third = await store.take_over("me", SHARDS, True)
    assert third > first
    write = group_of(account, posted(account, settle(1, 5)))
    with pytest.raises(Fenced):
        await store.write(first, write)
    await store.write(third, write)


async def test_a_group_is_written_whole_or_not_at_all(store: AccountStore) -> None:
    """One entry that cannot be written takes the whole group with it."""
    epoch = await store.take_over("first", SHARDS, False)
    alice, bob = await opened_in(store, epoch), await opened_in(store, epoch, BOB, 10)
    ahead = await opened_in_memory_only(bob)
    group = group_of(alice, posted(alice, settle(1, 5)))
    take(bob, posted(bob, settle(2, 1, pubkey=BOB)), group)
    group.before[BOB] = ahead
    group.cut({ALICE: alice, BOB: bob})
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group)
    stored = await store.load(ALICE, 0)
    assert stored is not None and stored.head.seq == OPENED_SEQ


async def opened_in_memory_only(account: Account) -> int:
    """A seq that the store never saw: memory is ahead of the ledger."""
    return account.seq + 3


async def test_an_operation_is_marked_once_for_ever(store: AccountStore) -> None:
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    mark = Mark(MarkKind.VOID, operation(7), START.wall_ms, 0)
    await store.write(epoch, group_of(account, HoldEnded(operation(7), 0, mark=mark)))
    assert await store.find_mark(ALICE, (MarkKind.REFUND, MarkKind.VOID), operation(7)) == mark
    assert await store.find_mark(ALICE, (MarkKind.REFUND,), operation(7)) is None
    assert await store.find_mark(BOB, (MarkKind.VOID,), operation(7)) is None
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group_of(account, HoldEnded(operation(7), 0, mark=mark)))


async def test_one_key_opens_one_account(store: AccountStore) -> None:
    epoch = await store.take_over("first", SHARDS, False)
    alice, bob = await opened_in(store, epoch), await opened_in(store, epoch, BOB)
    await store.write(epoch, group_of(alice, decide_key(alice, b"1" * 32, "one", START)))
    await store.write(epoch, group_of(alice, decide_key(alice, b"2" * 32, "two", START)))
    assert await store.find_key(b"1" * 32) is None
    assert await store.find_key(b"2" * 32) == ALICE
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group_of(bob, decide_key(bob, b"2" * 32, "two", START)))


async def test_operations_are_found_and_loaded_by_time(store: AccountStore) -> None:
    """Recent debits, voids and refunds come with the account; older ones are found one by one."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    await store.write(epoch, group_of(account, posted(account, settle(1, 5))))
    refund = decide_void(account, settle(1, 5), START)
    assert isinstance(refund.event, Moved)
    await store.write(epoch, group_of(account, refund.event))
    moment = later(START, 3600)
    recent = decide_settle(account, settle(2, 7, held_at=moment.wall_ms // 1000), moment, True)
    assert isinstance(recent.event, Moved)
    await store.write(epoch, group_of(account, recent.event))

    stored = await store.load(ALICE, moment.wall_ms - 1000)
    assert stored is not None
    assert [entry.operation for entry, _ in stored.entries] == [operation(2)]
    assert stored.marks == []
    # Among debits a refunded one has consumed nothing; the ledger itself is as it was.
    assert [entry.amount for entry in await store.entries(ALICE, 0, 2, True)] == [-7, 0]
    assert [entry.amount for entry in await store.entries(ALICE, 0, 3, False)] == [-7, 5, -5]
    everything = await store.load(ALICE, 0)
    assert everything is not None
    assert [mark.operation for mark in everything.marks] == [operation(1)]
    found = await store.find_ended([(ALICE, operation(number)) for number in (1, 2, 3)])
    assert {key: past.voided for key, past in found.items()} == {
        (ALICE, operation(1)): True,
        (ALICE, operation(2)): False,
    }
    debits = [past.debit for past in found.values() if past.debit is not None]
    assert sorted((debit.amount, debit.method) for debit in debits) == [(-7, "getBalance"), (-5, "getBalance")]
    nothing_recent = await store.load(ALICE, moment.wall_ms + HOUR_MS)
    assert nothing_recent is not None and len(nothing_recent.entries) == 1  # The newest, to check the chain with.


async def test_entries_are_listed_newest_first(store: AccountStore) -> None:
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    for number in range(1, 6):
        await store.write(epoch, group_of(account, posted(account, settle(number, number))))
    listed = await store.entries(ALICE, 0, 3, False)
    assert [entry.amount for entry in listed] == [-5, -4, -3]
    assert [entry.amount for entry in await store.entries(ALICE, 4, 50, False)] == [-1, 1000]
    assert [entry.amount for entry in await store.entries(ALICE, 4, 50, True)] == [-1]
    assert await store.entries(BOB, 0, 50, False) == []


async def test_accounts_with_something_past_its_time_are_found(store: AccountStore) -> None:
    """Nobody asks for them, and their credits must end all the same."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    ends_at = account.purse.batches[0].expires_at
    assert await store.expired(SHARDS, ends_at - 1, 10) == []
    assert await store.expired(SHARDS, ends_at, 10) == [ALICE]
    assert await store.expired(SHARDS, ends_at + EXPIRED_LOOKED_BACK_SECONDS, 10) == []
    assert await store.expired([shard for shard in SHARDS if shard != account.shard], ends_at, 10) == []


# --- what only PostgreSQL can show --------------------------------------------------------------------------------


async def test_an_entry_cannot_be_changed_or_removed(postgres_pool: asyncpg.Pool, owner_url: str) -> None:
    """Money rule 6: the ledger is append-only, also for a slip of an operator's hand."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    await opened_in(store, await store.take_over("first", SHARDS, False))
    for statement in ("UPDATE ledger SET amount = 2", "DELETE FROM ledger"):
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await as_role(owner_url, statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await postgres_pool.execute(statement)
    await store.close()


async def until_it_waits_for_a_lock(
    waiter: "asyncio.Future[Any]", connection: asyncpg.pool.PoolConnectionProxy
) -> None:
    waiting = 0
    while not waiting and not waiter.done():
        waiting = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")


async def test_a_takeover_waits_for_the_write_under_way(postgres_pool: asyncpg.Pool) -> None:
    """Who has taken over knows that no older write can still appear."""
    store, successor = PostgresAccountStore(postgres_pool), PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("old", SHARDS, False)
    async with postgres_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT pg_advisory_xact_lock_shared(1667851875, $1)", epoch)  # A write's first step.
        taking = asyncio.ensure_future(successor.take_over("new", SHARDS, False))
        await until_it_waits_for_a_lock(taking, connection)
        assert not taking.done()
        await transaction.commit()
        assert await taking > epoch
    await store.close()
    await successor.close()


@pytest.mark.parametrize("entries", [1, 2])
async def test_a_write_that_waited_for_a_takeover_is_refused(postgres_pool: asyncpg.Pool, entries: int) -> None:
    """The other way round: it sees who owns its shards after it waited, not as things were when it began."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("old", SHARDS, False)
    account = await opened_in(store, epoch)
    group = debits(account, entries)
    async with postgres_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetchval("SELECT accounts_take_over('new', $1, false)", list(SHARDS))
        writing = asyncio.ensure_future(store.write(epoch, group))
        await until_it_waits_for_a_lock(writing, connection)
        assert not writing.done()
        await transaction.commit()
    with pytest.raises(Fenced):
        await writing
    await store.close()


@pytest.mark.parametrize("entries", [1, 2])
async def test_a_batch_that_is_missing_takes_the_group_with_it(
    postgres_pool: asyncpg.Pool, owner_url: str, entries: int
) -> None:
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("me", SHARDS, False)
    account = await opened_in(store, epoch)
    await as_role(owner_url, "DELETE FROM credit_batches")
    with pytest.raises(StoreUnavailable, match="a batch of credits is missing"):
        await store.write(epoch, debits(account, entries))
    stored = await store.load(ALICE, 0)
    assert stored is not None and stored.head.seq == OPENED_SEQ
    await store.close()


async def test_the_store_recovers_after_its_connections_were_cut(postgres_pool: asyncpg.Pool) -> None:
    """Threat 44: what fails is StoreUnavailable, and the next attempt uses a fresh connection."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("me", SHARDS, False)
    account = await opened_in(store, epoch)
    killer = await asyncpg.connect(dsn=postgres_pool._connect_args[0])
    await killer.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await killer.close()
    group = group_of(account, posted(account, settle(1, 5)))
    with pytest.raises(StoreUnavailable):
        await store.write(epoch, group)
    epoch = await store.take_over("me", SHARDS, True)
    await store.write(epoch, group)
    await same_after_loading(store, account)
    await store.close()
