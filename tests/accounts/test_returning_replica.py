"""A replica's client and an owner over a real link that is cut: what was refunded does not leave, and what leaves stays
charged (threat 57)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr
from ray.exceptions import RayError

from actors.accounts import owner_link as owner_link_module
from actors.accounts import replicas as replicas_module
from actors.accounts.actor import AccountShard
from actors.accounts.api import OwnerUnavailable
from actors.accounts.client import ShardedAccounts
from actors.accounts.holders_store import RouteTable
from actors.accounts.host import serve_links
from actors.accounts.ledger import EntryType
from actors.accounts.stored import StoreUnavailable
from actors.calls import HoldItem, HoldRequest, KeyProof, SettleRequest
from actors.clock import ManualClock
from actors.config import Config, GatewayConfig, StorageConfig
from actors.hotlink import owner as owner_module
from actors.units import VIRTUAL_SHARDS, shard_of
from tests.accounts.making import pubkey_of
from tests.accounts.shards import World, owned_shards

REPLICA = b"replica0"
SECRET = "the cluster's, of 128 bits"
# An account of each of two owners.
KEYS = sorted((pubkey_of(f"customer {number}") for number in range(2, 4)), key=lambda key: shard_of(key) % 2)
FIRST, SECOND = KEYS


class Handle:
    """A shard actor as the client sees it. cut: nobody can reach it."""

    def __init__(self) -> None:
        self.shard: AccountShard
        self.where: tuple[str, int]
        self.cut = False

    async def serve(self, shard: AccountShard) -> None:
        self.shard, self.server = shard, serve_links(shard, SECRET.encode())
        self.where = ("127.0.0.1", await self.server.start("127.0.0.1"))

    async def stop(self) -> None:
        await self.server.stop()
        await self.shard.stop()

    @property
    def routes(self) -> Any:
        class Method:
            @staticmethod
            async def remote() -> RouteTable:
                return RouteTable(bytes(number % 2 for number in range(VIRTUAL_SHARDS)), (1,) * 3)

        return Method

    @property
    def address(self) -> Any:
        handle = self

        class Method:
            @staticmethod
            async def remote() -> tuple[str, int]:
                if handle.cut:
                    raise RayError("the network is cut")
                return handle.where

        return Method


async def until(holds: Callable[[], bool]) -> None:
    """What crosses real sockets is not there at once."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nobody says when.
            await asyncio.sleep(0.002)


class Cluster:
    """Two owners and one replica's client. clock: the replica's."""

    def __init__(self) -> None:
        self.world, self.clock = World(), ManualClock()
        self.handles = [Handle(), Handle()]
        self.proofs: dict[bytes, KeyProof] = {}
        self.replicas: list[bytes] = [REPLICA]
        self.number = 0

    async def start(self) -> "Cluster":
        for index, handle in enumerate(self.handles):
            await handle.serve(await self.world.shard(shards=owned_shards(index, 2)))
        for key, handle in zip(KEYS, self.handles, strict=True):
            self.proofs[key] = await self.world.customer(handle.shard, key, 1_000)
        config = Config(
            storage=StorageConfig(cluster_secret=SecretStr(SECRET)),
            gateway=GatewayConfig(settle_wait_ms=300),
        )
        self.accounts = ShardedAccounts(config, REPLICA, self.handles.__getitem__, clock=self.clock)
        self.accounts.on_start_over = self.replicas.append
        self.accounts.start()
        await self.accounts.connected()
        return self

    async def stop(self) -> None:
        await self.accounts.stop()
        for handle in self.handles:
            await handle.stop()

    async def call(self, key: bytes = FIRST) -> SettleRequest:
        """A call up to the moment before its answer leaves."""
        self.number += 1
        operation = self.replicas[-1] + self.number.to_bytes(8, "big")
        held = await self.accounts.hold(HoldRequest(operation, self.proofs[key], (HoldItem("getSlot", 5),)))
        assert held.verdicts == (None,)
        charge = SettleRequest(operation, key, held.epoch, "getSlot", 5, 5, 0, self.world.clock.now())
        assert (await self.accounts.settle(charge)).ok
        return charge

    async def cut(self, index: int = 0) -> None:
        """The network between the replica and this owner fails; both ends see their connection break."""
        self.handles[index].cut = True
        connection = self.accounts._owners[index].link._connection
        assert connection is not None
        connection.abandon()
        await connection.ended.wait()

    async def restart(self) -> None:
        """An owner ends, and a new one takes its place that knows what the ledger knows."""
        await self.handles[0].stop()
        await until(lambda: not self.accounts._owners[0].link.connected)
        await self.handles[0].serve(await self.world.shard(shards=owned_shards(0, 2)))

    async def until_refunded(self, *charges: SettleRequest) -> None:
        await until(lambda: all(self.refunded(charge) for charge in charges))

    async def until_started_over(self) -> None:
        await until(lambda: len(self.replicas) > 1)
        await self.accounts.connected()

    def refunded(self, charge: SettleRequest) -> bool:
        rows = self.world.store.rows[charge.pubkey].entries
        return any(entry.operation == charge.operation and entry.type == EntryType.REFUND for entry, _ in rows)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = await Cluster().start()
    yield cluster
    await cluster.stop()


async def test_an_answer_in_time_leaves_without_another_question(cluster: Cluster) -> None:
    """The usual case: the settle's own answer says that the owner was in touch a moment ago."""
    charge = await cluster.call()
    assert cluster.accounts.may_leave(charge)
    cluster.clock.advance(3.9)
    assert cluster.accounts.may_leave(charge)


async def test_a_late_answer_leaves_after_another_question(cluster: Cluster) -> None:
    """A client takes its answers slowly; the owner still has the replica, and says so by posting again."""
    charge = await cluster.call()
    other = await cluster.call(SECOND)
    cluster.clock.advance(4.1)
    assert not cluster.accounts.may_leave(charge)
    assert await cluster.accounts.confirm(charge)
    assert cluster.accounts.may_leave(charge)
    assert not cluster.accounts.may_leave(other), "one owner's word is not another's"
    assert not cluster.refunded(charge)


async def test_a_short_break_costs_no_answer(cluster: Cluster) -> None:
    """Back before the owner gave the replica up: it goes on under its id, and the charge stands."""
    charge = await cluster.call()
    await cluster.cut()
    cluster.clock.advance(4.5)
    assert not cluster.accounts.may_leave(charge)
    assert not await cluster.accounts.confirm(charge), "nobody can say"
    cluster.handles[0].cut = False
    await cluster.accounts.connected()
    assert await cluster.accounts.confirm(charge)
    assert cluster.replicas == [REPLICA] and not cluster.refunded(charge)


async def test_an_replica_that_was_given_up_starts_over(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back after its charges were refunded: none of those answers leaves, and new calls are served under a new id."""
    charges = [await cluster.call() for _ in range(3)]
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    await cluster.cut()
    cluster.clock.advance(5)
    await cluster.until_refunded(*charges)
    cluster.handles[0].cut = False
    await cluster.until_started_over()
    for charge in charges:
        assert not cluster.accounts.may_leave(charge)
        assert not await cluster.accounts.confirm(charge)
        with pytest.raises(OwnerUnavailable):
            await cluster.accounts.settle(charge)
    fresh = await cluster.call()
    assert fresh.operation[:8] == cluster.replicas[1] != REPLICA
    assert cluster.accounts.may_leave(fresh) and not cluster.refunded(fresh)
    assert len(cluster.replicas) == 2, "old operations that are refused do not start it over again"


async def test_what_flies_through_the_cut_is_not_answered_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settle's answer was lost; it is asked again by itself after the break, and refused: the fence was there."""
    cluster.number += 1
    operation = REPLICA + cluster.number.to_bytes(8, "big")
    await cluster.accounts.hold(HoldRequest(operation, cluster.proofs[FIRST], (HoldItem("getSlot", 5),)))
    charge = SettleRequest(operation, FIRST, 1, "getSlot", 5, 5, 0, cluster.world.clock.now())
    cluster.world.store.gate = asyncio.Event()
    settling = asyncio.ensure_future(cluster.accounts.settle(charge))
    await until(lambda: cluster.handles[0].shard._commits.pending(FIRST) is not None)
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    await cluster.cut()
    cluster.world.store.gate.set()
    await cluster.until_refunded(charge)
    cluster.handles[0].cut = False
    with pytest.raises(OwnerUnavailable):
        await settling


async def test_starting_over_ends_the_old_id_at_every_owner(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other owner loses the old id too, and refunds what was not delivered: so no such answer may leave, however
    well that owner is in touch with the new id."""
    here, there = await cluster.call(FIRST), await cluster.call(SECOND)
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    await cluster.cut()
    await cluster.until_refunded(here)
    cluster.handles[0].cut = False
    await cluster.until_started_over()
    await cluster.call(SECOND)
    assert not cluster.accounts.may_leave(there)
    assert not await cluster.accounts.confirm(there)
    await cluster.until_refunded(there)


async def test_the_owners_successor_refuses_what_was_refunded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted owner knows of no fence. The ledger does, and the replica starts over as if the fence were there."""
    charge = await cluster.call()
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    await cluster.cut()
    await cluster.until_refunded(charge)
    await cluster.restart()
    cluster.handles[0].cut = False
    await cluster.until_started_over()
    await cluster.call()
    assert not cluster.accounts.may_leave(charge)
    assert not await cluster.accounts.confirm(charge)


async def test_the_owners_successor_refunds_what_a_dead_replica_had_not_delivered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Money rule 2: an owner is killed between the charges and their delivery, and then the replica. What was
    delivered before, meanwhile or after stays charged."""
    slow, before, meanwhile, after, elsewhere = [await cluster.call() for _ in range(4)] + [await cluster.call(SECOND)]
    cluster.accounts.delivered(FIRST, before.operation)
    await cluster.restart()
    loading = cluster.world.store.load

    async def fail(pubkey: bytes, since_ms: int) -> Any:
        monkeypatch.setattr(cluster.world.store, "load", loading)
        cluster.accounts.delivered(FIRST, meanwhile.operation)  # Its notice overtakes the question, asked once more.
        raise StoreUnavailable("not now")

    monkeypatch.setattr(cluster.world.store, "load", fail)
    await cluster.accounts.connected()
    owners = cluster.accounts._owners.values
    await until(lambda: cluster.accounts.reachable and not any(owner._background for owner in owners()))
    cluster.accounts.delivered(FIRST, after.operation)
    await until(lambda: not any(owner._delivered or owner.link.unanswered for owner in owners()))
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    await cluster.cut()
    await cluster.until_refunded(slow)
    await asyncio.sleep(0.05)
    assert not any(map(cluster.refunded, (before, meanwhile, after, elsewhere)))


async def test_a_replica_that_died_before_its_owner_is_refunded_what_it_did_not_deliver(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Money rule 2: the owner dies before it has given the replica up. What was delivered stays charged."""
    monkeypatch.setattr(replicas_module, "RECALLED_SECONDS", 0.05)
    delivered, slow, elsewhere = await cluster.call(), await cluster.call(), await cluster.call(SECOND)
    cluster.accounts.delivered(FIRST, delivered.operation)
    await until(lambda: len(cluster.handles[0].shard.undelivered) == 1)
    await cluster.handles[0].shard.listed()
    for link in [owner.link for owner in cluster.accounts._owners.values()]:
        await link.stop()  # Killed: it says nothing more.
    await cluster.restart()
    await cluster.until_refunded(slow)
    await asyncio.sleep(0.05)
    assert not cluster.refunded(delivered) and not cluster.refunded(elsewhere)


async def test_the_word_of_a_living_replica_counts_more_than_the_list(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is older than the last deliveries. The replica links in time, and dies later."""
    monkeypatch.setattr(replicas_module, "RECALLED_SECONDS", 0.3)
    delivered, slow = await cluster.call(), await cluster.call()
    cluster.handles[0].cut = True
    await cluster.handles[0].stop()
    await until(lambda: not cluster.accounts._owners[0].link.connected)
    cluster.accounts.delivered(FIRST, delivered.operation)  # Nobody hears its notice.
    await cluster.handles[0].serve(await cluster.world.shard(shards=owned_shards(0, 2)))
    assert len(cluster.handles[0].shard.undelivered) == 2, "both are in doubt"
    cluster.handles[0].cut = False
    await until(lambda: len(cluster.handles[0].shard.undelivered) == 1)
    await asyncio.sleep(0.4)
    assert not cluster.refunded(delivered) and not cluster.refunded(slow)
    monkeypatch.setattr(owner_module, "GONE_SECONDS", 0.02)
    await cluster.cut()
    await cluster.until_refunded(slow)
    assert not cluster.refunded(delivered)


async def test_a_replica_that_stops_in_order_leaves_no_doubt(cluster: Cluster) -> None:
    """Its owners may be killed right after it: what it delivered is durable when it ends."""
    charge = await cluster.call()
    cluster.accounts.delivered(FIRST, charge.operation)
    await cluster.accounts.stop()
    lists = cluster.world.store.undelivered.lists
    assert [counters for _, _, counters in lists.values() if counters] == []


async def test_a_charge_is_kept_until_its_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivered, voided, or one too many: none of them is asked for again, and memory stays bounded."""
    monkeypatch.setattr(owner_link_module, "UNDELIVERED_MAX", 2)
    delivered, voided = await cluster.call(), await cluster.call()
    cluster.accounts.delivered(FIRST, delivered.operation)
    cluster.accounts.void(voided)
    assert not any(owner.undelivered for owner in cluster.accounts._owners.values())
    charges = [await cluster.call() for _ in range(3)]
    assert list(cluster.accounts._owners[0].undelivered.values()) == charges[1:]
