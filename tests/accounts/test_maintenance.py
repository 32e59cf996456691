"""What an owner does by itself, once a second."""

import base58
import pytest

from actors.accounts.api import CreditDeposit, Describe, PaidTransfer
from actors.accounts.ledger_time import SETTLING_MS
from actors.events import CreditsExpiring, DepositCredited, Event
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import Sink, World

DAY = 86_400
CAROL = b"c" * 32
CREDIT = PaidTransfer(b"s" * 64, 0, 10_000, 7)


async def test_a_credited_deposit_is_told_once_it_is_durable() -> None:
    """Interface, lifecycle event `deposit.credited`."""
    world = World()
    shard = await world.shard()
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    assert world.sink.events == []
    await shard.tick()
    await shard.tick()
    (event,) = world.sink.events
    assert isinstance(event, DepositCredited) and event.credits == 1_000
    await shard.stop()


async def test_what_nobody_was_told_a_successor_tells() -> None:
    """At least once: the event is in the store, not in the memory of whoever died."""
    world = World()
    first = await world.shard()
    await first.ask(CreditDeposit(ALICE, CREDIT))
    second = await world.shard()
    await second.tick()
    assert len(world.sink.events) == 1
    await first.stop()
    await second.stop()


async def test_a_sink_that_fails_hears_it_again() -> None:
    class Deaf(Sink):
        deaf = True

        def emit(self, event: Event) -> None:
            if self.deaf:
                raise RuntimeError("not now")
            super().emit(event)

    world = World()
    sink = world.sink = Deaf()
    shard = await world.shard()
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    with pytest.raises(RuntimeError):
        await shard.tick()
    sink.deaf = False
    await shard.tick()
    assert len(sink.events) == 1
    await shard.stop()


async def test_credits_expire_with_an_entry_though_nobody_asks() -> None:
    """Interface: batches expire. A day before it is told; the entry comes without anybody looking at the account."""
    world = World()
    shard = await world.shard()
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    world.clock.advance(364 * DAY)
    await shard.tick()
    assert ALICE not in shard._accounts  # Evicted: unused for a year.
    assert [type(event) for event in world.sink.events] == [DepositCredited, CreditsExpiring]
    world.clock.advance(DAY)
    await shard.tick()
    described = await shard.ask(Describe(ALICE))
    assert described.value is not None and described.value.balance == 0
    entries = await world.store.entries(ALICE, 0, 10, False)
    assert entries[0].description == "credits past their expiry date"
    await shard.stop()


async def test_a_halted_account_holds_up_nobody_else() -> None:
    """Hostile input 20: others' credits expire, and others' events are told, while one account contradicts itself."""
    world = World()
    first = await world.shard()
    for number, pubkey in enumerate((ALICE, BOB, CAROL)):
        await first.ask(CreditDeposit(pubkey, PaidTransfer(bytes([number]) * 64, 0, 10_000, 7)))
    for pubkey in (ALICE, CAROL):  # Before and after the other one, in whatever order they are found.
        row = world.store.rows[pubkey]
        row.head = row.head._replace(balance=1)
    world.clock.advance(365 * DAY)
    shard = await world.shard()
    world.clock.advance(SETTLING_MS / 1000)
    await shard.tick()
    assert {event.pubkey for event in world.sink.events if isinstance(event, DepositCredited)} == {
        base58.b58encode(pubkey).decode() for pubkey in (ALICE, BOB, CAROL)
    }
    entries = await world.store.entries(BOB, 0, 10, False)
    assert entries[0].description == "credits past their expiry date"
    await first.stop()
    await shard.stop()


async def test_room_for_entries_is_made_every_day() -> None:
    world = World()
    prepared: list[int] = []

    async def prepare(now_ms: int) -> None:
        prepared.append(now_ms)

    world.store.prepare = prepare  # type: ignore[method-assign]
    shard = await world.shard()
    await shard.tick()
    assert len(prepared) == 1
    world.clock.advance(DAY)
    await shard.tick()
    await shard.tick()
    assert len(prepared) == 2
    await shard.stop()
