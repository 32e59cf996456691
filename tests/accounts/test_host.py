"""Guards the shard actor around the shard: it starts once, whoever asks first and however many ask."""

import asyncio
from typing import Any

import pytest

from actors import hosting
from actors.accounts.api import DELIVERED, SETTLE, ReadAccount
from actors.accounts.host import AccountShardActor, serve_links
from actors.accounts.ledger import EntryType
from actors.calls import DeliveredNotice, HoldItem, HoldRequest
from actors.config import Config
from actors.hotlink.owner import StartOver
from tests.accounts.making import ALICE, hold, operation, settle
from tests.accounts.shards import World, answered, ask, run_ready


class _Shard:
    async def health(self) -> dict[str, Any]:
        return {"fenced": False, "committing": True}


async def test_many_askers_share_one_start() -> None:
    """Rule: an owner takes its epoch once per process, however many replicas ask for its address at the same time."""
    actor = AccountShardActor(Config(), "fingerprint", 0, 1)
    starts = 0

    async def start() -> None:
        nonlocal starts
        starts += 1
        await asyncio.sleep(0)
        actor._shard, actor._address = _Shard(), ("127.0.0.1", 1)  # type: ignore[assignment]

    actor._start = start  # type: ignore[method-assign]
    answers = await asyncio.gather(*(actor.address() for _ in range(20)), actor.health())
    assert starts == 1
    assert set(answers[:20]) == {("127.0.0.1", 1)}


async def test_a_dead_replica_leaves_nothing_held_and_only_what_it_did_not_deliver_is_refunded() -> None:
    """Threat 54: of a batch, the delivered stays charged, the posted is refunded and the held is free, at once;
    another replica's calls go on."""
    world = World()
    shard = await world.shard()
    proof = await world.customer(shard, ALICE, 100)
    server = serve_links(shard, b"secret")
    settled, delivered = server.handlers[SETTLE.number][0], server.handlers[DELIVERED.number][0]
    await ask(shard.hold_now, hold(1, *[10] * 5, proof=proof))
    other = HoldRequest(b"replica2" + bytes(8), proof, (HoldItem("getBalance", 10),))
    await ask(shard.hold_now, other)
    for number in (1, 2, 3):
        (result,) = settled([settle(number, 10)])
        assert (await answered(result)).ok
    delivered([DeliveredNotice((operation(1),))])
    server._on_gone(b"replica1")
    await run_ready()
    kinds = [entry.type for entry, _ in world.store.rows[ALICE].entries]
    assert [kinds.count(kind) for kind in (EntryType.DEBIT, EntryType.REFUND)] == [3, 2]
    info = await shard.ask(ReadAccount(proof))
    assert info.value is not None and info.value.balance == 90
    assert info.figures.credits_remaining == 80
    # Should the replica come back after all, it settles nothing: it has been fenced.
    (late,) = settled([settle(4, 10)])
    assert isinstance(late, StartOver)
    assert (await shard.ask(ReadAccount(proof))).figures.credits_remaining == 80
    await shard.stop()


async def test_an_asker_that_leaves_does_not_stop_the_start() -> None:
    """Rule: the first asker going away must not leave everybody else without an owner."""
    actor = AccountShardActor(Config(), "fingerprint", 0, 1)
    go = asyncio.Event()

    async def start() -> None:
        await go.wait()
        actor._shard, actor._address = _Shard(), ("127.0.0.1", 1)  # type: ignore[assignment]

    actor._start = start  # type: ignore[method-assign]
    first = asyncio.create_task(actor.address())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    go.set()
    assert await actor.address() == ("127.0.0.1", 1)


async def test_the_first_owner_starts_missing_owners_and_ends_none_with_other_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule: where a renewal was killed in the middle, its new first owner waits for the next one: the old owners
    serve."""
    placed: list[str] = []
    monkeypatch.setattr(hosting, "names", lambda prefix: ["account-shard-0", "account-shard-1"])
    monkeypatch.setattr(hosting, "place", lambda plain_class, name, *_: placed.append(name))
    actor = AccountShardActor(Config(), "new settings", 0, 3)
    await actor._place(range(3))
    assert placed == ["account-shard-2"]
    assert [await actor._has_others(range(count)) for count in (1, 2, 3)] == [True, False, False]
