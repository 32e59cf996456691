"""The watcher over a made-up chain: order, outages, nodes without history, and a kill at every step."""

import asyncio
from typing import Any

import pytest

from actors.accounts.api import OwnerUnavailable
from actors.deposits.usdc.actor import BATCH_MAX
from actors.deposits.usdc.chain import PAGE_MAX, ChainUnavailable
from actors.deposits.usdc.core import FindingStatus, Reason
from actors.deposits.usdc.store import DepositStore, Gap
from actors.telemetry.logs import redact
from actors.units import base58_text
from tests.databases import as_role
from tests.deposits.conftest import TABLES
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.world import ACCOUNT, Crash, Tripwire, World, key_of

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
def world() -> World:
    return World(MemoryDepositStore())


async def test_a_backlog_is_credited_in_the_order_of_the_chain(world: World) -> None:
    """A backlog longer than a page and a batch: each account is credited in order, and the inbox ends empty."""
    sent = [world.chain.pay((name, 10_000)) for name in ("alice", "bob") * (PAGE_MAX // 2 + 150)]
    await world.watcher().round()
    for name, pubkey in (("alice", ALICE), ("bob", BOB)):
        mine = [each.signature for each in sent if each.payments[0][0] == name]
        assert [signature for owner, signature in world.accounts.order if owner == pubkey] == mine
    totals = await world.store.totals(ACCOUNT.address)
    assert (totals.waiting, totals.counts[FindingStatus.CREDITED], totals.gaps) == (0, len(sent), [])


async def test_nothing_is_read_or_credited_twice_in_peace(world: World) -> None:
    watcher = world.watcher()
    world.chain.pay(("alice", 10_000))
    await watcher.round()
    world.chain.calls.clear()
    await watcher.round()
    assert world.chain.calls == ["getSignaturesForAddress"] and world.accounts.asked == 1
    world.chain.pay(("alice", 20_000))
    await watcher.round()
    assert (world.accounts.balances, world.chain.calls.count("getTransaction")) == ({ALICE: 3_000}, 1)


async def test_what_cannot_be_credited_is_listed_with_its_reason(world: World) -> None:
    world.chain.pay(("alice", 9))
    world.chain.pay(("vault", 50_000), signed=False)
    world.chain.pay(("bob", 10_000), failed=True)
    world.chain.pay(unexplained=77)
    await world.watcher().round()
    listed = await world.store.listing(ACCOUNT.address, FindingStatus.LISTED, 10, 0)
    assert [row.reason for row in listed] == [Reason.NO_TRANSFER, Reason.NO_WALLET, Reason.BELOW_MINIMUM]
    ignored = await world.store.listing(ACCOUNT.address, FindingStatus.IGNORED, 10, 0)
    assert [row.reason for row in ignored] == [Reason.FAILED]
    assert world.chain.calls.count("getTransaction") == 3 and not world.accounts.balances  # The list tells failures.


async def test_a_node_that_lags_loses_and_repeats_nothing(world: World) -> None:
    """An address may stand for several nodes, and some may be behind."""
    watcher = world.watcher()
    first, second = world.chain.pay(("alice", 10_000)), world.chain.pay(("bob", 10_000))
    await watcher.round()
    world.chain.lag = 1
    third = world.chain.pay(("alice", 10_000))
    await watcher.round()
    world.chain.lag = 2
    await watcher.round()
    world.chain.lag = 0
    await watcher.round()
    assert [signature for _, signature in world.accounts.order] == [each.signature for each in (first, second, third)]
    assert (await world.store.totals(ACCOUNT.address)).gaps == []


async def test_a_transaction_that_is_not_there_yet_holds_up_what_stands_behind_it(world: World) -> None:
    """The order is kept, and transactions before it are finished."""
    first, second, third = (world.chain.pay((name, 10_000)) for name in ("alice", "bob", "carol"))
    world.chain.hidden.add(second.signature)
    watcher = world.watcher()
    for _ in range(2):
        with pytest.raises(ChainUnavailable):
            await watcher.round()
    assert [signature for _, signature in world.accounts.order] == [first.signature]
    world.chain.hidden.clear()
    await watcher.round()
    assert [signature for _, signature in world.accounts.order] == [each.signature for each in (first, second, third)]


async def test_a_transaction_that_was_cleaned_up_is_listed(world: World) -> None:
    """A transaction that the node lists and no longer has does not block others; it is listed for the operator."""
    sent = world.chain.pay(("alice", 10_000))
    watcher = world.watcher()
    await watcher.list_new()
    world.chain.first_slot = world.chain.slot + 1
    await watcher.round()
    (row,) = await world.store.find(ACCOUNT.address, sent.signature)
    assert (row.status, row.reason) == (FindingStatus.LISTED, Reason.GONE)


async def test_what_one_node_has_cleaned_up_another_is_asked_for(world: World) -> None:
    """One of several nodes is new and has no history; no deposit is lost by its answers."""
    world.chain.pay(("alice", 10_000))
    told = world.chain._getTransaction
    turns = iter([None, None, told])
    world.chain._getTransaction = lambda *asked: turn(*asked) if (turn := next(turns)) else None  # type: ignore[method-assign]
    world.chain._getFirstAvailableBlock = lambda: world.chain.slot + 1  # type: ignore[method-assign]
    await world.watcher().round()
    assert world.accounts.balances == {ALICE: 1_000}


async def test_slots_that_nobody_has_any_more_are_told(world: World) -> None:
    """After an outage longer than the node's history, the rest is credited and the gap is recorded."""
    world.chain.pay(("alice", 10_000))
    await world.watcher().round()
    read_until = world.chain.slot
    world.chain.pay(("lost", 10_000))
    world.chain.slot += 100
    world.chain.first_slot = world.chain.slot
    world.chain.pay(("bob", 10_000))
    await world.watcher().round()
    assert world.accounts.balances == {ALICE: 1_000, BOB: 1_000}
    assert (await world.store.totals(ACCOUNT.address)).gaps == [Gap(read_until, world.chain.first_slot)]


async def test_a_quiet_account_has_no_gap(world: World) -> None:
    """No deposit came for longer than the node's history, while the watcher was running."""
    world.chain.pay(("alice", 10_000))
    watcher = world.watcher()
    await watcher.round()
    world.chain.slot += 1_000
    world.clock.advance(3_600)
    await watcher.round()
    world.chain.first_slot = world.chain.slot - 200
    world.chain.pay(("bob", 10_000))
    await world.watcher().round()
    assert world.accounts.balances == {ALICE: 1_000, BOB: 1_000}
    assert (await world.store.totals(ACCOUNT.address)).gaps == []


async def test_an_absurd_slot_does_not_end_the_notice_of_gaps(world: World) -> None:
    """A node once tells a slot of which there is no block. It is not taken for the place up to which all was read."""
    world.chain.pay(("alice", 10_000))
    told = world.chain._getSlot
    world.chain._getSlot = lambda _config: 10**12  # type: ignore[method-assign]
    await world.watcher().round()
    read_until = world.chain.slot
    world.chain._getSlot = told  # type: ignore[method-assign]
    world.chain.slot += 100
    world.chain.first_slot = world.chain.slot
    world.chain.pay(("bob", 10_000))
    await world.watcher().round()
    assert world.accounts.balances == {ALICE: 1_000, BOB: 1_000}
    assert (await world.store.totals(ACCOUNT.address)).gaps == [Gap(read_until, world.chain.first_slot)]


async def test_pages_of_two_nodes_that_do_not_fit_are_asked_again(world: World) -> None:
    """The first page came from a node that is ahead; the node of the next page does not know where it ended."""
    for _ in range(PAGE_MAX + 5):
        world.chain.pay(("alice", 10_000))
    watcher = world.watcher()
    asked = world.chain._getSignaturesForAddress

    def behind(account: str, config: dict[str, Any]) -> Any:
        if "before" in config:
            raise LookupError("before")
        return asked(account, config)

    world.chain._getSignaturesForAddress = behind  # type: ignore[method-assign]
    with pytest.raises(ChainUnavailable):
        await watcher.round()
    assert world.accounts.balances == {}
    world.chain._getSignaturesForAddress = asked  # type: ignore[method-assign]
    await watcher.round()
    assert world.accounts.balances == {ALICE: 1_000 * (PAGE_MAX + 5)}


async def test_deposits_before_the_first_slot_are_not_looked_at(world: World) -> None:
    """A deposit wallet that another service used before."""
    world.chain.pay(("alice", 10_000))
    world.start_slot = world.chain.slot + 1
    world.chain.pay(("bob", 10_000))
    await world.watcher().round()
    assert world.accounts.balances == {BOB: 1_000}


async def test_everything_that_is_away_is_waited_for(world: World) -> None:
    """Health shows the fault while it lasts; afterwards work resumes by itself."""
    pauses: list[float] = []
    rested = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        world.chain.away = len(pauses) < 3
        world.accounts.away = len(pauses) < 5
        await asyncio.sleep(0)

    world.chain.away = world.accounts.away = True
    world.chain.pay(("alice", 10_000))
    watcher = world.watcher()
    watcher._sleep = sleep
    credit = world.accounts.ask

    async def credited(*arguments: Any) -> Any:
        answer = await credit(*arguments)
        if answer.refusal is None:
            rested.set()
        return answer

    world.accounts.ask = credited
    watcher.start()
    await rested.wait()
    for _ in range(20):  # Until the round has ended.
        await asyncio.sleep(0)
    await watcher.stop()
    assert len(pauses) == 5 and pauses == sorted(pauses)
    assert world.accounts.balances == {ALICE: 1_000} and watcher.fault == ""


async def test_a_halted_account_holds_up_its_own_deposits_alone(world: World) -> None:
    """Threat 20: other accounts are credited meanwhile; its own follow in order once it works again."""
    world.accounts.halted = {ALICE}
    first = world.chain.pay(("alice", 10_000))
    both = world.chain.pay(("alice", 20_000), ("bob", 10_000))
    for _ in range(2 * BATCH_MAX):
        world.chain.pay(("bob", 10_000))
    watcher = world.watcher()
    with pytest.raises(OwnerUnavailable):
        await watcher.round()
    assert world.accounts.balances == {BOB: 1_000 * (2 * BATCH_MAX + 1)}
    totals = await world.store.totals(ACCOUNT.address)
    assert (totals.waiting, totals.counts[FindingStatus.CREDITED]) == (2, 2 * BATCH_MAX)
    world.accounts.halted = set()
    await watcher.round()
    assert world.accounts.balances[ALICE] == 3_000 and world.accounts.balances[BOB] == 1_000 * (2 * BATCH_MAX + 1)
    mine = [signature for owner, signature in world.accounts.order if owner == ALICE]
    assert mine == [first.signature, both.signature]
    totals = await world.store.totals(ACCOUNT.address)
    assert (totals.waiting, totals.counts[FindingStatus.CREDITED]) == (0, 2 * BATCH_MAX + 3)


async def test_many_deposits_of_a_halted_account_step_aside(world: World) -> None:
    """More than a batch of its deposits: the others are credited; its own follow in order once it works again."""
    world.accounts.halted = {ALICE}
    mine = [world.chain.pay(("alice", 10_000)).signature for _ in range(2 * BATCH_MAX)]
    shared = world.chain.pay(("alice", 10_000), ("bob", 10_000)).signature
    for _ in range(3):
        world.chain.pay(("bob", 10_000))
    watcher = world.watcher()
    await watcher.round()
    assert world.accounts.balances == {BOB: 3_000}
    assert (await world.store.totals(ACCOUNT.address)).waiting == 2 * BATCH_MAX + 1
    world.chain.calls.clear()
    await watcher.round()
    assert world.chain.calls.count("getTransaction") == 0  # They are not read again before their time.
    world.accounts.halted = set()
    late = world.chain.pay(("alice", 10_000)).signature
    await watcher.round()
    assert ALICE not in world.accounts.balances  # What comes later does not overtake.
    world.clock.advance(60)
    await watcher.round()
    assert [signature for owner, signature in world.accounts.order if owner == ALICE] == [*mine, shared, late]
    assert world.accounts.balances[BOB] == 4_000
    assert (await world.store.totals(ACCOUNT.address)).waiting == 0


async def test_what_was_recorded_and_what_waits_is_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Figures for operators, and a line in the log for each credited transfer."""
    caplog.set_level("INFO")
    first = world.chain.pay(("alice", 10_000))
    world.chain.pay(("alice", 1))
    watcher = world.watcher()
    await watcher.round()
    assert figures(world) == {"credited": 1, "listed": 1, "deposits_waiting": 0}
    world.chain.pay(("bob", 10_000))
    world.accounts.away = True
    with pytest.raises(OwnerUnavailable):
        await watcher.round()
    assert figures(world) == {"credited": 1, "listed": 1, "deposits_waiting": 1}
    world.accounts.away = False
    await watcher.round()
    assert figures(world) == {"credited": 2, "listed": 1, "deposits_waiting": 0}
    first_line, _ = [each.getMessage() for each in caplog.records if each.name == "actors.deposits.usdc.crediting"]
    assert first_line.startswith("deposit of 0.01 USDC: 1000 credits for account ") and redact(first_line) == first_line
    assert base58_text(ALICE) in first_line and base58_text(first.signature) in first_line


async def test_for_how_long_transfers_are_not_read_is_counted(world: World) -> None:
    """From the watcher's start, and again from each complete round: one that fails does not count."""
    watcher, name = world.watcher(), "ledger_gateway_deposits_behind_seconds"
    world.chain.pay(("alice", 10_000))
    world.clock.advance(40)
    for away, behind in ((True, 40), (False, 0)):
        world.accounts.away = away
        watcher.start()
        for _ in range(200):  # More turns of the loop than a round takes.
            await asyncio.sleep(0)
        assert world.metrics.registry.get_sample_value(name) == behind
        await watcher.stop()


def figures(world: World) -> dict[str, float]:
    """Those of the watcher, by status and name."""
    return {
        sample.labels.get("status") or "deposits_waiting": sample.value
        for family in world.metrics.families()
        for sample in family.samples
        if sample.name in ("ledger_gateway_deposits_total", "ledger_gateway_deposits_waiting")
    }


async def test_a_ledger_that_is_away_ends_the_round(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long backlog is not tried to its end while the ledger is away, and nothing of it is lost."""
    monkeypatch.setattr("actors.deposits.usdc.actor._FRUITLESS_MAX", 2)
    world.accounts.away = True
    for number in range(4 * BATCH_MAX):
        world.chain.pay((f"wallet {number}", 10_000))
    watcher = world.watcher()
    with pytest.raises(OwnerUnavailable):
        await watcher.round()
    assert world.accounts.asked == 2 * BATCH_MAX
    world.accounts.away = False
    world.clock.advance(60)
    await watcher.round()
    assert set(world.accounts.balances.values()) == {1_000} and len(world.accounts.balances) == 4 * BATCH_MAX


async def test_a_deposit_that_was_taken_back_and_became_final_is_listed(world: World) -> None:
    sent = world.chain.pay(("alice", 10_000))
    world.accounts.taken_back.add((sent.signature, 0))
    await world.watcher().round()
    (row,) = await world.store.find(ACCOUNT.address, sent.signature)
    assert (row.status, row.reason) == (FindingStatus.LISTED, Reason.TAKEN_BACK)


def scene(world: World) -> None:
    """Two batches with transactions of every kind."""
    for number in range(2):
        world.chain.pay(("alice", 10_000), ("bob", 20_000 + number))
        world.chain.pay(("carol", 10_000), failed=number % 2 == 0)
    world.chain.pay(("vault", 70_000), signed=False)
    world.chain.pay(("dave", 9))


async def lives(world: World, first: Tripwire, more: bool) -> int:
    """Run rounds until one succeeds. more: a deposit comes while the watcher is dead. Returns the number of deaths."""
    deaths = 0
    wire = first
    while True:
        try:
            await world.watcher(wire).round()
        except Crash:
            deaths += 1
            if more:
                world.chain.pay(("erin", 30_000))
                more = False
            wire = Tripwire()
        else:
            return deaths


async def test_death_at_every_step_loses_and_repeats_nothing(
    deposit_store: DepositStore, request: pytest.FixtureRequest
) -> None:
    """The walk: the watcher is killed before and after each thing that it asks of the node, the store and the owners
    of accounts, one step later every time, until a life has no step left to die at."""
    pool = getattr(deposit_store, "_pool", None)
    for at in range(10_000):
        if pool is not None:
            await as_role(request.getfixturevalue("owner_url"), f"TRUNCATE {TABLES}")
        world = World(MemoryDepositStore() if pool is None else deposit_store)
        scene(world)
        wire = Tripwire(at)
        deaths = await lives(world, wire, more=True)
        expected = {ALICE: 2_000, BOB: 4_000, key_of("carol"): 1_000}
        if deaths:
            expected[key_of("erin")] = 3_000
        assert world.accounts.balances == expected, at
        totals = await world.store.totals(ACCOUNT.address)
        assert (totals.waiting, totals.gaps) == (0, []), at
        counts = (
            totals.counts[FindingStatus.CREDITED],
            totals.counts[FindingStatus.LISTED],
            totals.counts[FindingStatus.IGNORED],
        )
        assert counts == (5 + deaths, 2, 1), at
        rows = await world.store.listing(ACCOUNT.address, FindingStatus.CREDITED, 100, 0)
        assert sum(row.credits for row in rows) == sum(expected.values()), at
        if not deaths:
            assert at == wire.steps  # Every step there is was died at.
            break
    assert at > 30
