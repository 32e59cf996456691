"""Deposits through a whole shard: once per transfer, whatever is repeated, concurrent or lost. Both stores."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    AdjustCredits,
    AssignDeposit,
    CreateReferral,
    CreditDeposit,
    Describe,
    ExpireReferral,
    IssueKey,
    ListReferrals,
    OwnerReply,
    PaidTransfer,
    TakeBackDeposit,
    Value,
)
from actors.accounts.store import AccountStore
from actors.clock import ManualClock, SystemClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import SHARDS, World
from tests.identity.memory_store import MemoryIdentityStore

CREDIT = PaidTransfer(b"s" * 64, 0, 10_000, 7)


@pytest.fixture
def clock() -> ManualClock:
    """The database has a clock of its own, which the owner goes by: stands still at the time when the test began."""
    return ManualClock(SystemClock().now_ms())


async def opened_shard(store: AccountStore, clock: ManualClock, name: str = "test") -> AccountShard:
    shard = AccountShard(
        AccountsConfig(),
        IdentityConfig(),
        PaymentsConfig(),
        store,
        MemoryIdentityStore(clock),
        clock,
        name,
        SHARDS,
    )
    await shard.start()
    return shard


@pytest.fixture
async def shard(store: AccountStore, clock: ManualClock) -> AsyncIterator[AccountShard]:
    shard = await opened_shard(store, clock)
    yield shard
    await shard.stop()


def value_of(reply: OwnerReply[Value]) -> Value:
    assert reply.refusal is None and reply.value is not None, reply
    return reply.value


async def balance(shard: AccountShard, pubkey: bytes = ALICE) -> int:
    return value_of(await shard.ask(Describe(pubkey))).balance


async def test_fifty_at_once_are_one_credit(shard: AccountShard) -> None:
    """Threat 22."""
    answers = await asyncio.gather(*(shard.ask(CreditDeposit(ALICE, CREDIT)) for _ in range(50)))
    told = [value_of(answer) for answer in answers]
    assert sorted(row.credits_added for row in told) == [0] * 49 + [1_000]
    assert sum(not row.already_processed for row in told) == 1
    assert {row.new_balance for row in told} == {1_000}
    assert await balance(shard) == 1_000


async def test_each_transfer_of_a_transaction_is_credited(shard: AccountShard) -> None:
    """Money rule 4: per token transfer, not per transaction."""
    for index in (0, 1, 5):
        await shard.ask(CreditDeposit(ALICE, PaidTransfer(b"s" * 64, index, 10_000, 7)))
    await shard.ask(CreditDeposit(BOB, PaidTransfer(b"s" * 64, 2, 20_000, 7)))
    assert (await balance(shard), await balance(shard, BOB)) == (3_000, 2_000)


async def test_a_successor_knows_what_was_credited(store: AccountStore, clock: ManualClock) -> None:
    """Exactly once whatever dies in between: the store says so, not memory."""
    first = await opened_shard(store, clock, "first")
    await first.ask(CreditDeposit(ALICE, CREDIT))
    second = await opened_shard(store, clock, "second")
    again = value_of(await second.ask(CreditDeposit(ALICE, CREDIT)))
    assert (again.credits_added, again.new_balance, again.already_processed) == (0, 1_000, True)
    shown = value_of(await second.ask(Describe(ALICE)))
    assert shown.last_deposit is not None  # Read back from the store.
    refused = await first.ask(CreditDeposit(ALICE, PaidTransfer(b"t" * 64, 0, 10_000, 7)))
    assert refused.refusal == "SERVICE_TEMPORARILY_UNAVAILABLE"
    assert await balance(second) == 1_000
    await first.stop()
    await second.stop()


async def test_an_assigned_transfer_is_never_credited_to_another(shard: AccountShard) -> None:
    """Once among all accounts; and the other account's balance is not told."""
    told = value_of(await shard.ask(AssignDeposit(BOB, CREDIT, "the customer proved it")))
    assert told.credits_added == 1_000
    again = value_of(await shard.ask(CreditDeposit(ALICE, CREDIT)))
    assert (again.credits_added, again.new_balance, again.already_processed) == (0, 0, True)
    assert again.pubkey == value_of(await shard.ask(Describe(BOB))).pubkey
    assert (await shard.ask(Describe(ALICE))).refusal == "ACCOUNT_NOT_FOUND"
    twice = value_of(await shard.ask(AssignDeposit(ALICE, CREDIT, "by mistake")))
    assert twice.already_processed


async def test_a_payment_is_taken_back_once(shard: AccountShard) -> None:
    """Decisions, "Two ways to pay by x402": at most what is available, the rest uncollected, and asking again changes
    nothing."""
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    await shard.ask(AdjustCredits(ALICE, -300, "spent", "spent"))
    first = value_of(await shard.ask(TakeBackDeposit(ALICE, CREDIT.signature, 0, "the payment never became final")))
    assert (first, await balance(shard)) == (700, 0)
    await shard.ask(AdjustCredits(ALICE, 50, "more", "more"))
    again = value_of(await shard.ask(TakeBackDeposit(ALICE, CREDIT.signature, 0, "the payment never became final")))
    assert (again, await balance(shard)) == (700, 50)
    once_more = value_of(await shard.ask(CreditDeposit(ALICE, CREDIT)))
    assert (once_more.credits_added, once_more.taken_back, once_more.new_balance) == (0, True, 50)


async def test_of_two_who_take_back_at_once_one_is_to_ask_again() -> None:
    """Both find the deposit untouched in the store: the second must take nothing from what the customer has left."""
    world = World()
    shard = await world.shard()
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    await shard.ask(AdjustCredits(ALICE, 5_000, "grant", "grant"))
    both = await asyncio.gather(*(shard.ask(TakeBackDeposit(ALICE, CREDIT.signature, 0, "why")) for _ in range(2)))
    assert [reply.value for reply in both] == [1_000, None]
    assert both[1].refusal == "SERVICE_TEMPORARILY_UNAVAILABLE" and await balance(shard) == 5_000
    assert value_of(await shard.ask(TakeBackDeposit(ALICE, CREDIT.signature, 0, "why"))) == 1_000
    assert await balance(shard) == 5_000
    await shard.stop()


@pytest.mark.parametrize("question", ["credit", "take back"])
async def test_the_stores_word_counts_only_while_the_ledger_commits(question: str) -> None:
    """The owner lost the ledger after it had asked the store: a write of before may have completed since."""
    world, losing = World(), list[AccountShard]()
    find = world.store.find_deposits

    async def then_lost(operations: Any) -> Any:
        found = await find(operations)
        if losing:
            losing.pop()._commits.generation += 1
        return found

    world.store.find_deposits = then_lost  # type: ignore[method-assign]
    shard = await world.shard()
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    command: Any = CreditDeposit(ALICE, PaidTransfer(b"t" * 64, 0, 10_000, 7))
    if question == "take back":
        command = TakeBackDeposit(ALICE, CREDIT.signature, 0, "why")
    losing.append(shard)
    assert (await shard.ask(command)).refusal == "SERVICE_TEMPORARILY_UNAVAILABLE" and not losing
    assert await balance(shard) == 1_000
    assert (await shard.ask(command)).refusal is None
    assert await balance(shard) == (2_000 if question == "credit" else 0)
    await shard.stop()


async def test_only_what_was_credited_can_be_taken_back(shard: AccountShard) -> None:
    unknown = await shard.ask(TakeBackDeposit(ALICE, CREDIT.signature, 0, "why"))
    assert unknown.refusal == "ACCOUNT_NOT_FOUND"
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    await shard.ask(AdjustCredits(BOB, 5_000, "grant", "grant"))
    assert (await shard.ask(TakeBackDeposit(BOB, CREDIT.signature, 0, "why"))).refusal == "ACCOUNT_NOT_FOUND"
    assert (await shard.ask(TakeBackDeposit(ALICE, CREDIT.signature, 1, "why"))).refusal == "ACCOUNT_NOT_FOUND"
    assert (await balance(shard), await balance(shard, BOB)) == (1_000, 5_000)


@pytest.mark.parametrize(
    "wrong",
    [
        PaidTransfer(b"short", 0, 10_000, 7),
        PaidTransfer(b"s" * 64, -1, 10_000, 7),
        PaidTransfer(b"s" * 64, 0, 0, 7),
        PaidTransfer(b"s" * 64, 0, 9, 7),
        PaidTransfer(b"s" * 64, 0, 10_000, -1),
    ],
)
async def test_what_is_no_deposit_is_refused(shard: AccountShard, wrong: PaidTransfer) -> None:
    assert (await shard.ask(CreditDeposit(ALICE, wrong))).refusal == "INVALID_REQUEST"


async def test_a_bonus_comes_with_every_deposit_of_a_linked_account(shard: AccountShard, clock: ManualClock) -> None:
    """Interface: captured once at creation; the bonus and the deposit are told and written together."""
    made = await shard.ask(CreateReferral("FRIEND", 2_000, None, ""))
    assert made.refusal is None
    wallet = World(clock).wallet(ALICE)
    assert (await shard.ask(IssueKey(wallet, "FRIEND"))).refusal is None
    told = value_of(await shard.ask(CreditDeposit(ALICE, CREDIT)))
    assert (told.credits_added, told.new_balance) == (1_200, 1_200)
    assert (await shard.ask(ExpireReferral("FRIEND"))).refusal is None
    more = value_of(await shard.ask(CreditDeposit(ALICE, PaidTransfer(b"t" * 64, 0, 10_000, 8))))
    assert more.credits_added == 1_200
    (row,) = value_of(await shard.ask(ListReferrals()))
    assert (row.referral.code, row.referral.bonus_bps, row.accounts) == ("FRIEND", 2_000, 1)


async def test_codes_never_change_and_dead_ones_link_nobody(shard: AccountShard, clock: ManualClock) -> None:
    await shard.ask(CreateReferral("OLD", 100, clock.now() + 10, ""))
    assert (await shard.ask(CreateReferral("OLD", 9_000, None, ""))).refusal == "INVALID_REQUEST"
    assert (await shard.ask(ExpireReferral("NEVER-MADE"))).refusal == "INVALID_REQUEST"
    clock.advance(10)
    assert (await shard.ask(IssueKey(World(clock=clock).wallet(ALICE), "OLD"))).refusal is None
    assert value_of(await shard.ask(CreditDeposit(ALICE, CREDIT))).credits_added == 1_000


@pytest.mark.parametrize("failure", ["before", "after"])
async def test_a_credit_whose_write_failed_is_asked_again(failure: str) -> None:
    """Unknown is not credited: the same question later gives exactly one credit, whether or not the write was made."""
    world = World()
    shard = await world.shard()
    world.store.fail = [failure]
    first = await shard.ask(CreditDeposit(ALICE, CREDIT))
    assert first.refusal == "SERVICE_TEMPORARILY_UNAVAILABLE"
    again = value_of(await shard.ask(CreditDeposit(ALICE, CREDIT)))
    assert again.credits_added == (1_000 if failure == "before" else 0)
    assert again.already_processed == (failure == "after")
    assert again.new_balance == 1_000
    await shard.stop()


async def test_a_late_look_at_the_store_credits_nothing_twice() -> None:
    """The store is asked before the write of another request lands, and answers "unknown": memory knows better."""
    world = World()
    shard = await world.shard()
    world.store.gate = asyncio.Event()
    first = asyncio.create_task(shard.ask(CreditDeposit(ALICE, CREDIT)))
    await asyncio.sleep(0)
    second = asyncio.create_task(shard.ask(CreditDeposit(ALICE, CREDIT)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not first.done() and not second.done()  # Neither may be told before it is durable.
    world.store.gate.set()
    told = [value_of(await first), value_of(await second)]
    assert sorted(row.credits_added for row in told) == [0, 1_000]
    await shard.stop()
