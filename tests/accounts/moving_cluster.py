"""Three owners and a replica's client, over real links, between which shards move; the stores are in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pydantic import SecretStr

from actors.accounts.actor import AccountShard
from actors.accounts.client import ShardedAccounts
from actors.accounts.host import serve_links
from actors.accounts.ledger import EntryType
from actors.accounts.moving import Handover
from actors.accounts.replicas import Replicas
from actors.calls import HoldItem, HoldReply, HoldRequest, KeyProof, SettleRequest
from actors.config import Config, GatewayConfig, StorageConfig
from actors.units import VirtualShard, shard_of
from tests.accounts.shards import World, run_ready

REPLICA = b"replica0"
SECRET = "the cluster's, of 128 bits"
OWNERS = 3


class Owner:
    """An owner as replicas and the one that directs moves see it."""

    def __init__(self, cluster: "Cluster", index: int) -> None:
        self._cluster, self._index = cluster, index

    async def start(self) -> None:
        world = self._cluster.world
        shards = await world.store.holders.assigned(self._index, OWNERS)
        self.shard: AccountShard = await world.shard(shards=shards, index=self._index)
        self.replicas = Replicas(self.shard)
        self.server = serve_links(self.shard, SECRET.encode(), self.replicas)
        self.where = ("127.0.0.1", await self.server.start("127.0.0.1"))

    async def stop(self) -> None:
        await self.server.stop()
        await self.shard.stop()

    async def kill(self) -> None:
        """Without writing what waits, as a killed process."""
        await self.server.stop()
        for task in (*self.shard._tasks, self.shard._commits._task):
            if task is not None:
                task.cancel()
        await run_ready()

    def __getattr__(self, name: str) -> Any:
        if name not in ("address", "health", "routes", "ask", "ask_many"):
            raise AttributeError(name)

        class Method:
            @staticmethod
            async def remote(*arguments: Any) -> Any:
                if name == "address":
                    return self.where
                if name == "routes":
                    return await self._cluster.world.store.holders.routes()
                return await getattr(self.shard, name)(*arguments)

        return Method


class Cluster:
    """Three owners and one replica."""

    def __init__(self) -> None:
        self.world = World()
        self.owners = [Owner(self, index) for index in range(OWNERS)]
        self.replicas: list[bytes] = [REPLICA]
        self.number = 0

    async def start(self) -> None:
        for owner in self.owners:
            await owner.start()
        config = Config(
            storage=StorageConfig(cluster_secret=SecretStr(SECRET)),
            gateway=GatewayConfig(hold_wait_ms=5_000, settle_wait_ms=5_000),
        )
        self.accounts = ShardedAccounts(config, REPLICA, self.owners.__getitem__)
        self.accounts.on_start_over = self.replicas.append
        self.accounts.start()
        await self.accounts.connected()

    async def stop(self) -> None:
        await self.accounts.stop()
        for owner in self.owners:
            await owner.stop()

    def of(self, pubkey: bytes) -> Owner:
        return self.owners[self.world.store.holders.holders[shard_of(pubkey)]]

    async def customer(self, pubkey: bytes, credits: int) -> KeyProof:
        return await self.world.customer(self.accounts, pubkey, credits)  # type: ignore[arg-type]

    async def give(self, giver: int, shards: Sequence[VirtualShard]) -> Handover:
        giving = asyncio.ensure_future(self.owners[giver].shard.moving.give(shards))
        while not giving.done():
            await self.world.pauses.end()
            await asyncio.sleep(0.001)
        return await giving

    async def move(self, taker: int, shards: Sequence[VirtualShard]) -> None:
        giver = self.world.store.holders.holders[shards[0]]
        handover = await self.give(giver, shards)
        await self.owners[taker].shard.moving.take(shards, handover)
        self.owners[giver].shard.moving.given(shards)

    def request(self, proof: Any, *ceilings: int) -> HoldRequest:
        name = self.replicas[-1] + self.number.to_bytes(8, "big")
        self.number += len(ceilings)
        return HoldRequest(name, proof, tuple(HoldItem("getSlot", ceiling) for ceiling in ceilings))

    def charge(self, held: HoldReply, request: HoldRequest, credits: int = 5) -> SettleRequest:
        now = self.world.clock.now()
        return SettleRequest(request.operation, held.pubkey, held.epoch, "getSlot", credits, credits, 0, now)

    def entries(self, pubkey: bytes, kind: EntryType) -> list[bytes]:
        return [entry.operation for entry, _ in self.world.store.rows[pubkey].entries if entry.type == kind]


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


async def until(holds: Callable[[], bool]) -> None:
    """What crosses real sockets is not there at once."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nobody says when.
            await asyncio.sleep(0.002)
