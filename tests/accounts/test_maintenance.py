"""What an owner does by itself, once a second."""

import base58

from actors.accounts.api import CreditDeposit, Describe, PaidTransfer
from actors.accounts.ledger_time import SETTLING_MS
from actors.events import CreditsExpiring, DepositCredited
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import World

DAY = 86_400
CAROL = b"c" * 32
CREDIT = PaidTransfer(b"s" * 64, 0, 10_000, 7)


async def test_credits_expire_with_an_entry_though_nobody_asks() -> None:
    """Interface: batches expire. A day before it is told; the entry comes without anybody looking at the account."""
    world = World()
    shard = await world.shard()
    await shard.ask(CreditDeposit(ALICE, CREDIT))
    world.clock.advance(364 * DAY)
    await shard.tick()
    assert ALICE not in shard._accounts  # Evicted: unused for a year.
    assert [type(event) for event in world.events] == [DepositCredited, CreditsExpiring]
    world.clock.advance(DAY)
    await shard.tick()
    described = await shard.ask(Describe(ALICE))
    assert described.value is not None and described.value.balance == 0
    entries = await world.store.entries(ALICE, 0, 10, False)
    assert entries[0].description == "credits past their expiry date"
    await shard.stop()


async def test_a_halted_account_holds_up_nobody_else() -> None:
    """Threat 20: others' credits expire, and others' events are told, while one account contradicts itself."""
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
    assert {event.pubkey for event in world.events if isinstance(event, DepositCredited)} == {
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
