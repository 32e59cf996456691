"""Tests that every store of deposits must pass: memory and PostgreSQL."""

from dataclasses import replace

import pytest

from actors.deposits.usdc.chain import Seen
from actors.deposits.usdc.core import Finding, FindingStatus, Reason
from actors.deposits.usdc.store import (
    Cursor,
    DepositStore,
    Gap,
    PostgresDepositStore,
    Postponed,
    WatcherReplaced,
)
from tests.databases import emptied
from tests.deposits.conftest import TABLES

ACCOUNT, OTHER = "account", "other"


def seen(number: int, slot: int, failed: bool = False) -> Seen:
    return Seen(bytes([number]) * 64, slot, None if failed else 1_700_000_000, failed)


def finding(number: int, index: int = 0, status: FindingStatus = FindingStatus.LISTED, slot: int = 5) -> Finding:
    reason = Reason.BELOW_MINIMUM if status is FindingStatus.LISTED else Reason.NONE
    return Finding(bytes([number]) * 64, index, slot, None, status, reason, 9_999, "source", "authority")


async def test_the_inbox_gives_the_order_of_the_chain(deposit_store: DepositStore) -> None:
    """Pages come newest first; work is oldest first, across pages and within a slot."""
    await deposit_store.add(ACCOUNT, [seen(5, 12), seen(4, 11), seen(3, 11)], 0)
    await deposit_store.add(ACCOUNT, [seen(2, 11), seen(1, 10, failed=True)], -3)
    await deposit_store.add(OTHER, [seen(9, 1)], 0)
    found = await deposit_store.oldest(ACCOUNT, 10, 0)
    assert [row.signature[0] for row in found] == [1, 2, 3, 4, 5]
    assert found[0] == seen(1, 10, failed=True)
    assert [row.signature[0] for row in await deposit_store.oldest(ACCOUNT, 2, 0)] == [1, 2]


async def test_what_is_listed_twice_is_there_once(deposit_store: DepositStore) -> None:
    """Paging that was interrupted starts again."""
    for position in (0, -7):
        await deposit_store.add(ACCOUNT, [seen(2, 11), seen(1, 10)], position)
    assert len(await deposit_store.oldest(ACCOUNT, 10, 0)) == 2
    assert (await deposit_store.totals(ACCOUNT)).waiting == 2


async def test_the_cursor_never_moves_back(deposit_store: DepositStore) -> None:
    """A node that is behind, or a second watcher that is slow, does not move the cursor back."""
    assert await deposit_store.cursor(ACCOUNT) is None
    await deposit_store.move_cursor(ACCOUNT, Cursor(b"", 0, 7), None, 0)
    assert await deposit_store.cursor(ACCOUNT) == Cursor(b"", 0, 7)
    await deposit_store.move_cursor(ACCOUNT, Cursor(b"2" * 64, 20, 22), None, 0)
    await deposit_store.move_cursor(ACCOUNT, Cursor(b"1" * 64, 10, 30), None, 0)
    assert await deposit_store.cursor(ACCOUNT) == Cursor(b"2" * 64, 20, 22)
    await deposit_store.move_cursor(ACCOUNT, Cursor(b"2" * 64, 20, 40), Gap(22, 30), 0)
    assert await deposit_store.cursor(ACCOUNT) == Cursor(b"2" * 64, 20, 40)
    assert (await deposit_store.totals(ACCOUNT)).gaps == [Gap(22, 30)]
    assert await deposit_store.cursor(OTHER) is None


async def test_what_is_recorded_leaves_the_inbox_with_it(deposit_store: DepositStore) -> None:
    await deposit_store.add(ACCOUNT, [seen(2, 11), seen(1, 10)], 0)
    await deposit_store.record(ACCOUNT, [finding(1), finding(1, 1)], [seen(1, 10).signature], 0)
    assert [row.signature[0] for row in await deposit_store.oldest(ACCOUNT, 10, 0)] == [2]
    assert [row.index for row in await deposit_store.find(ACCOUNT, bytes([1]) * 64)] == [0, 1]
    assert await deposit_store.find(OTHER, bytes([1]) * 64) == []


async def test_what_was_credited_stays_as_it_is(deposit_store: DepositStore) -> None:
    """A listed transfer may be credited later; a credited one never changes."""
    credited = replace(finding(1, status=FindingStatus.CREDITED), pubkey=b"p" * 32, credits=999)
    await deposit_store.record(ACCOUNT, [finding(1)], [], 0)
    await deposit_store.record(ACCOUNT, [credited], [], 0)
    await deposit_store.record(ACCOUNT, [finding(1)], [], 0)
    assert await deposit_store.find(ACCOUNT, bytes([1]) * 64) == [credited]


async def test_an_assignment_is_made_once(deposit_store: DepositStore) -> None:
    await deposit_store.record(ACCOUNT, [finding(1)], [], 0)
    assigned = replace(finding(1), status=FindingStatus.ASSIGNED, pubkey=b"p" * 32, credits=999, note="proved it")
    await deposit_store.assign(ACCOUNT, assigned, 0)
    await deposit_store.assign(ACCOUNT, replace(assigned, pubkey=b"q" * 32), 0)
    (row,) = await deposit_store.find(ACCOUNT, bytes([1]) * 64)
    assert (row.status, row.pubkey, row.note) == (FindingStatus.ASSIGNED, b"p" * 32, "proved it")
    assert row.reason is Reason.BELOW_MINIMUM  # Why it had to be assigned stays known.


async def test_listings_are_newest_first_and_by_status(deposit_store: DepositStore) -> None:
    rows = [finding(number, slot=number) for number in (1, 2, 3)]
    await deposit_store.record(ACCOUNT, [*rows, finding(4, status=FindingStatus.IGNORED, slot=4)], [], 0)
    assert [row.slot for row in await deposit_store.listing(ACCOUNT, None, 10, 0)] == [4, 3, 2, 1]
    assert [row.slot for row in await deposit_store.listing(ACCOUNT, FindingStatus.LISTED, 2, 1)] == [2, 1]
    counts = (await deposit_store.totals(ACCOUNT)).counts
    assert (counts[FindingStatus.LISTED], counts[FindingStatus.IGNORED], counts[FindingStatus.CREDITED]) == (3, 1, 0)


async def test_what_steps_aside_lets_others_pass_and_comes_back_in_its_place(deposit_store: DepositStore) -> None:
    """A postponed transaction is due at its time, in the order of the chain; its authorities can be asked for."""
    await deposit_store.add(ACCOUNT, [seen(3, 12), seen(2, 11), seen(1, 10)], 0)
    rows = [Postponed(seen(1, 10).signature, frozenset("ab"), 50), Postponed(seen(2, 11).signature, frozenset("b"), 70)]
    await deposit_store.postpone(ACCOUNT, rows)
    for now_ms, given in ((49, [3]), (50, [1, 3]), (70, [1, 2, 3])):
        assert [row.signature[0] for row in await deposit_store.oldest(ACCOUNT, 10, now_ms)] == given
    assert await deposit_store.postponed_for(ACCOUNT, ["a", "b", "c"], 49) == {"a": 50, "b": 70}
    assert await deposit_store.postponed_for(ACCOUNT, ["a", "b"], 50) == {"b": 70}
    assert await deposit_store.postponed_for(OTHER, ["a", "b"], 0) == {}
    await deposit_store.add(ACCOUNT, [seen(2, 11)], 0)  # A walk that is walked again changes nothing.
    assert (await deposit_store.totals(ACCOUNT)).waiting == 3
    await deposit_store.record(ACCOUNT, [], [seen(2, 11).signature], 0)
    assert await deposit_store.postponed_for(ACCOUNT, ["b"], 50) == {}
    assert await deposit_store.postponed_for(ACCOUNT, [], 0) == {}


async def test_a_watcher_that_was_cut_off_writes_nothing_more(postgres_url: str, owner_url: str) -> None:
    """Its successor has begun by the next epoch; what it reads is still true."""
    async with emptied(postgres_url, owner_url, f"TRUNCATE {TABLES}") as pool:
        first, second = PostgresDepositStore(pool, "first"), PostgresDepositStore(pool, "second")
        await first.prepare()
        await first.add(ACCOUNT, [seen(1, 10)], 0)
        await first.record(ACCOUNT, [finding(2)], [], 0)
        await second.prepare()
        for late in (
            first.add(ACCOUNT, [seen(3, 11)], 0),
            first.move_cursor(ACCOUNT, Cursor(b"1" * 64, 10, 30), Gap(1, 2), 0),
            first.postpone(ACCOUNT, [Postponed(seen(1, 10).signature, frozenset(("a",)), 10**15)]),
            first.record(ACCOUNT, [finding(1)], [seen(1, 10).signature], 0),
            first.assign(ACCOUNT, replace(finding(2), status=FindingStatus.ASSIGNED), 0),
        ):
            with pytest.raises(WatcherReplaced):
                await late
        assert await second.cursor(ACCOUNT) is None and await second.oldest(ACCOUNT, 9, 1) == [seen(1, 10)]
        totals = await first.totals(ACCOUNT)
        assert (totals.waiting, totals.gaps) == (1, []) and totals.counts[FindingStatus.LISTED] == 1
        await second.record(ACCOUNT, [finding(1)], [seen(1, 10).signature], 0)
        assert await second.waiting(ACCOUNT) == 0
