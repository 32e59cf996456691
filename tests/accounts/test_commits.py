import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.accounts import commits
from actors.accounts.account import Account, ProfileSet, apply, new_account
from actors.accounts.admission import decide_hold
from actors.accounts.api import OwnerUnavailable
from actors.accounts.commits import GroupCommit
from actors.accounts.core import decide_adjust, decide_settle
from actors.accounts.held_shards import HeldShards
from actors.accounts.ledger_clock import LedgerClock
from actors.events import LowBalance
from actors.telemetry.metrics import Metrics
from tests.accounts.making import ALICE, BOB, DEFAULTS, START, hold, opened, pubkey_of, settle
from tests.accounts.shards import SHARDS, World, run_ready


class Owner:
    """A group commit and what it tells its shard."""

    def __init__(self, world: World) -> None:
        self.forgotten: list[Account] = []
        self.seen: list[Any] = []
        self.metrics = Metrics()
        self.commits = GroupCommit(
            world.store,
            LedgerClock(world.clock),
            "owner",
            HeldShards(0, SHARDS),
            self.forgotten.extend,
            world.pauses,
            self.metrics,
            told=self.seen.append,
        )

    def account(self, pubkey: bytes = ALICE, credits: int = 100) -> Account:
        account = new_account(pubkey, opened().profile, DEFAULTS)
        self.commits.record(account, ProfileSet(account.profile))
        event = decide_adjust(account, credits, "", b"opening", START)
        assert event is not None
        apply(account, event)
        self.commits.record(account, event)
        return account

    def post(self, account: Account, number: int, charged: int = 1) -> "asyncio.Future[None]":
        event = decide_settle(account, settle(number, charged, pubkey=account.pubkey), START, True).event
        assert event is not None
        apply(account, event)
        return self.commits.record(account, event)


@pytest.fixture
async def owner(world: World) -> AsyncIterator[Owner]:
    owner = Owner(world)
    await owner.commits.start()
    yield owner
    await owner.commits.stop()


async def test_what_gathers_while_a_write_flies_is_the_next_write(world: World, owner: Owner) -> None:
    account = owner.account()
    await owner.post(account, 0)
    world.store.gate = asyncio.Event()
    world.store.writes = 0
    first = owner.post(account, 1)
    await run_ready()
    rest = {owner.post(account, number) for number in range(2, 7)}
    assert len(rest) == 1 and first not in rest
    assert owner.commits.pending(ALICE) in rest and owner.commits.pending(BOB) is None
    world.store.gate.set()
    await rest.pop()
    assert first.done() and world.store.writes == 2
    assert owner.commits.pending() is None


async def test_answers_leave_before_a_group_is_told_and_a_stop_leaves_none_untold(owner: Owner) -> None:
    """What is told goes into a statement seconds later; the caller waits now."""
    account = owner.account()
    first = owner.post(account, 0)
    first.add_done_callback(lambda _: owner.seen.append("answered"))
    await first
    await run_ready()
    answered, told = owner.seen
    assert answered == "answered" and [entry.operation for _, entry, _ in told][-1] == settle(0, 1).operation
    owner.post(account, 1)
    await owner.commits.stop()
    assert [entry.operation for _, entry, _ in owner.seen[-1]] == [settle(1, 1).operation]


async def test_a_caller_who_is_alone_waits_for_nobody(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group is written at once when none of its accounts has another call under way."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    account, other = owner.account(credits=1_000), owner.account(BOB)
    await run_ready()
    await owner.post(account, 0)
    held(other, 100)  # Its account is neither in this group nor in the one before.
    for number in range(1, 5):
        await owner.post(account, number)
    assert world.store.writes == 1 + 5


async def test_a_group_waits_for_the_calls_that_are_under_way(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of them ends the waiting: nobody waits for a clock."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    account = owner.account(credits=1_000)
    await run_ready()
    for number in range(1, 4):
        held(account, number)
    first = owner.post(account, 1)
    second = owner.post(account, 2)
    await run_ready()
    assert world.store.writes == 1 and not first.done()
    third = owner.post(account, 3)
    assert third is first is second
    await third
    assert world.store.writes == 2


async def test_a_group_waits_for_charges_that_a_replica_says_are_coming(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last one that it asked ahead; a wait in vain forgets what was said, as the replica may have ended."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    account = owner.account(credits=1_000)
    await run_ready()
    owner.commits.coming[b"replica"] = 1
    first = owner.post(account, 1)
    await run_ready()
    assert world.store.writes == 1 and not first.done()
    del owner.commits.coming[b"replica"]
    assert owner.post(account, 2) is first
    await first
    assert world.store.writes == 2
    owner.commits.coming[b"replica"] = 1
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0.0)
    await owner.post(account, 3)
    assert owner.commits.coming == {}


async def test_a_group_does_not_wait_for_a_call_that_takes_long(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits one step in vain; after that, groups do not wait at all for a while, and longer each time."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0.0)
    account = owner.account(credits=1_000)
    await run_ready()
    held(account, 1)
    await owner.post(account, 2)
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    await owner.post(account, 3)
    waits = owner.post(account, 4)
    await run_ready()
    assert not waits.done()
    owner.post(account, 1)
    await waits


async def test_after_a_large_group_the_next_one_always_waits(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when the wait before was in vain: otherwise groups stay small at a high load."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0.0)
    account = owner.account(credits=1_000)
    await run_ready()
    held(account, 1)
    for number in range(2, 5):
        await owner.post(account, number)  # The first and the third wait in vain: the next three would not wait.
    for number in range(10, 17):
        owner.post(account, number)
    await owner.post(account, 17)
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    waits = owner.post(account, 20)
    await run_ready()
    assert not waits.done()
    owner.post(account, 1)
    await waits


async def test_where_many_accounts_write_together_the_next_group_waits_too(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them needs to have a call under way: others are likely to come, for one step at least."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0.0)
    accounts = [owner.account(pubkey_of(f"customer {number}")) for number in range(8)]
    await run_ready()
    assert world.store.writes == 1
    monkeypatch.setattr(commits, "LINGER_SECONDS", 3_600.0)
    waits = owner.post(accounts[0], 1)
    await run_ready()
    assert not waits.done()
    owner.commits.distrust(accounts[0])  # Nothing else ends it before the hour is over.
    with pytest.raises(OwnerUnavailable):
        await waits


def held(account: Account, number: int) -> None:
    """A call that is under way: its hold was granted and has not ended."""
    event = decide_hold(account, hold(number, 1), START).event
    assert event is not None
    apply(account, event)


async def test_what_is_durable_is_counted_and_nothing_else(world: World, owner: Owner) -> None:
    """Figures for operators: entries and credits by type, groups and their rows, failures, and what waits now."""
    account = owner.account(credits=100)
    await owner.post(account, 1, 5)
    world.store.fail = ["before"]
    lost = owner.post(account, 2, 7)
    assert _figures(owner)["entries_waiting"] == 1
    with pytest.raises(OwnerUnavailable):
        await lost
    assert _figures(owner) == {
        "ledger_entries_total type=adjustment": 1,
        "ledger_entries_total type=debit": 1,
        "ledger_entries_total type=fact": 2,  # The account, and the batch of its grant.
        "ledger_credits_total type=adjustment": 100,
        "ledger_credits_total type=debit": 5,
        "ledger_credits_total type=fact": 0,
        "commit_rows_count": 1,
        "commit_rows_sum": 4,
        "commit_seconds_count": 1,
        "store_failures_total": 1,
        "entries_waiting": 0,
    }


def _figures(owner: Owner) -> dict[str, float]:
    """Those that owners of accounts have, with their labels."""
    found = {
        " ".join((sample.name.removeprefix("ledger_gateway_"), *map("=".join, sample.labels.items()))): sample.value
        for family in owner.metrics.families()
        for sample in family.samples
    }
    wanted = ("ledger_", "commit_rows_count", "commit_rows_sum", "commit_seconds_count", "store_", "entries_waiting")
    return {name: value for name, value in found.items() if name.startswith(wanted)}


async def test_more_than_can_be_written_is_not_admitted(
    world: World, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is bounded by refusing what has not begun; what is held still ends."""
    monkeypatch.setattr(commits, "GATHERED_MAX", 3)
    account = owner.account()
    world.store.gate = asyncio.Event()
    owner.post(account, 1)
    await run_ready()
    for number in range(2, 5):
        assert owner.commits.admits(0)
        owner.post(account, number)
    assert not owner.commits.admits(0) and owner.commits.gathered == 3
    last = owner.post(account, 5)
    world.store.gate.set()
    await last
    assert owner.commits.admits(0)


async def test_only_accounts_with_unwritten_changes_are_forgotten(world: World, owner: Owner) -> None:
    account, other = owner.account(), owner.account(BOB)
    await owner.post(other, 1)
    world.store.fail = ["before"]
    with pytest.raises(OwnerUnavailable):
        await owner.post(account, 2)
    await run_ready()
    assert owner.forgotten == [account]
    assert owner.commits.open


async def test_recovery_waits_longer_between_attempts_and_ends_by_itself(world: World, owner: Owner) -> None:
    account = owner.account()
    await owner.post(account, 1)
    epoch = owner.commits.epoch
    world.store.away = True
    with pytest.raises(OwnerUnavailable):
        await owner.post(account, 2)
    for _ in range(5):
        assert not owner.commits.open
        await world.pauses.end()
    world.store.away = False
    await world.pauses.end()
    assert owner.commits.open and owner.commits.epoch > epoch


async def test_an_unexpected_error_of_the_store_is_no_different(world: World, owner: Owner) -> None:
    """Memory may not stay ahead of the ledger, whatever went wrong."""
    account = owner.account()
    await owner.post(account, 1)

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    world.store.write = broken  # type: ignore[method-assign]
    with pytest.raises(OwnerUnavailable):
        await owner.post(account, 2)
    await run_ready()
    assert owner.forgotten == [account] and owner.commits.open


async def test_recovery_survives_whatever_it_meets(world: World, owner: Owner) -> None:
    """A driver's own confusion over a dying server must not leave the shard closed for good."""
    await owner.post(owner.account(), 1)
    take_over, failures = world.store.take_over, [ZeroDivisionError(), OSError()]

    async def confused(*arguments: Any) -> int:
        if failures:
            raise failures.pop()
        return await take_over(*arguments)

    world.store.take_over = confused  # type: ignore[method-assign]
    world.store.check_owner = confused  # type: ignore[method-assign,assignment]
    beating = asyncio.ensure_future(owner.commits.beat())
    for _ in range(3):
        await run_ready()
        await world.pauses.end()
    await beating
    assert owner.commits.open and not owner.commits.fenced


async def test_a_beat_finds_out_about_a_new_owner(world: World, owner: Owner) -> None:
    """Threat 21: an idle former owner stops too, although it writes nothing."""
    await world.store.take_over("other", SHARDS[:1], False)
    await owner.commits.beat()
    assert owner.commits.fenced and not owner.commits.admits(0)
    with pytest.raises(OwnerUnavailable):
        await owner.commits.closed


async def test_a_beat_does_not_take_a_shard_that_was_given_away_for_a_new_owner(world: World, owner: Owner) -> None:
    """Its question had named the shard, and came to the store after the shard's next owner: the giver stopped for good,
    and its other accounts had to wait for its next process."""
    check_owner, epoch = world.store.check_owner, owner.commits.epoch

    async def late(*arguments: Any) -> int:
        world.store.check_owner = check_owner  # type: ignore[method-assign]
        owner.commits._held.drop(SHARDS[:1])
        await world.store.take_over("other", SHARDS[:1], False)
        return await check_owner(*arguments)

    world.store.check_owner = late  # type: ignore[method-assign]
    await owner.commits.beat()
    assert owner.commits.open and not owner.commits.fenced and owner.commits.epoch == epoch
    assert await owner.commits.confirm() == epoch
    await world.store.take_over("other", SHARDS[1:2], False)
    await owner.commits.beat()
    assert owner.commits.fenced


async def test_a_write_about_no_account_names_no_shard_that_leaves(world: World, owner: Owner) -> None:
    """The write would be refused where the shard's next owner is quicker. A giver waits for one under way."""
    held, leaving = owner.commits._held, frozenset(SHARDS[:1])
    held.leave(leaving)
    world.store.gate = asyncio.Event()
    listed = owner.commits.listed()
    await run_ready()
    assert owner.commits.naming(leaving) is None and owner.commits.naming(frozenset(SHARDS)) is listed
    world.store.gate.set()
    await listed
    held.leave(SHARDS)
    assert held.named_alone() == leaving


async def test_an_epoch_is_confirmed_by_the_store_alone(world: World, owner: Owner) -> None:
    """Whoever acts on it elsewhere, as with nonces in Redis, knows that nobody had taken over when it was asked."""
    assert not owner.commits.inherited
    assert await owner.commits.confirm() == owner.commits.epoch
    world.store.away = True
    with pytest.raises(OwnerUnavailable):
        await owner.commits.confirm()
    world.store.away = False
    other = Owner(world)
    await other.commits.start()
    assert other.commits.inherited
    with pytest.raises(OwnerUnavailable):
        await owner.commits.confirm()
    assert await other.commits.confirm() == other.commits.epoch
    await other.commits.stop()


async def test_a_low_balance_is_written_with_its_entry(world: World, owner: Owner) -> None:
    """In one group: neither is without the other."""
    account = owner.account(credits=1_001)
    world.store.gate = asyncio.Event()
    written = owner.post(account, 1, 2)
    await run_ready()
    assert world.events == []
    world.store.gate.set()
    await written
    assert [event.balance for event in world.events if isinstance(event, LowBalance)] == [999]


async def test_stopping_writes_what_gathered(world: World, owner: Owner) -> None:
    written = owner.post(owner.account(), 1)
    await owner.commits.stop()
    assert written.done() and written.exception() is None
