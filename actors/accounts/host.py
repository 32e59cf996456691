"""One account shard as a Ray actor: opens its stores, listens for hot links, passes commands on.

Implements: design, "Measured facts" (Ray places, names, supervises and restarts the shard actors and tells their
addresses). The rules are below actor.py. Not here: how replicas find it (client.py).
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actors import hosting
from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    CHARGE,
    DELIVERED,
    HOLD,
    SETTLE,
    STREAM_TIME,
    UNDELIVERED,
    VOID,
    Command,
    OwnerReply,
    OwnerUnavailable,
    Value,
    owner_name,
)
from actors.accounts.balancing import KIND, Balancing, alone_at
from actors.accounts.guarding import ANSWER_SECONDS, Guarding
from actors.accounts.holders_store import RouteTable
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.moving import Handover
from actors.accounts.replicas import Replicas
from actors.accounts.store import PostgresAccountStore
from actors.accounts.stored import StoreUnavailable
from actors.actor_settings import OF_EVERY_ACTOR
from actors.clock import SystemClock
from actors.config import AccountsConfig, Config
from actors.hotlink.owner import LinkServer, each
from actors.identity.store import RedisIdentityStore
from actors.ownership.director import CountFollower
from actors.ownership.pulses import Pulse, Pulses
from actors.ownership.store import PostgresOwnership
from actors.receipts.root_keys import KeySeal
from actors.storage.connections import checked_redis, configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.telemetry.traces import open_tracing
from actors.units import VirtualShard

if TYPE_CHECKING:
    from actors.accounts.traced_replicas import TracedReplicas
    from actors.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)

_WATCH_SECONDS = 0.5
_BALANCE_SECONDS = 2.0
_MOVE_SECONDS = 15.0  # Longest step of a move; a longer one is abandoned and tried again.
_VOIDS_SECONDS = 5.0
# Settings that an owner uses; a change of one of them replaces the owner.
USES = (
    *OF_EVERY_ACTOR,
    # The number of owners is not among them: it changes while they run (balancing.py).
    *(f"accounts.{name}" for name in AccountsConfig.model_fields if name != "shard_actors"),
    "identity",
    "payments.credit_expiry_days",
    "payments.credits_per_usdc",
    "storage.cluster_secret",
    "storage.postgres_pool_size",
    "storage.postgres_url",
    "storage.redis_url",
)


def serve_links(
    shard: AccountShard, secret: bytes, replicas: Replicas | None = None, tracing: "Tracing | None" = None
) -> LinkServer:
    """Make the TCP server of the owner's hot links. The owner's moves learn of its replicas."""
    replicas = shard.moving.replicas = replicas or Replicas(shard)
    calls = replicas if tracing is None else _traced(replicas, tracing)
    handlers = {
        HOLD: each(calls.hold),
        SETTLE: each(calls.settle),
        CHARGE: each(calls.charge),
        VOID: each(replicas.void),
        DELIVERED: each(replicas.delivered),
        UNDELIVERED: each(replicas.undelivered),
        STREAM_TIME: each(replicas.stream_time),
    }
    replicas.await_recalled()
    return LinkServer(secret, handlers, replicas.gone, replicas.is_fenced)


def _traced(replicas: Replicas, tracing: "Tracing") -> "TracedReplicas":
    # Imported here, because tracing is an extra that may not be installed.
    from actors.accounts.traced_replicas import TracedReplicas

    return TracedReplicas(replicas, tracing)


class AccountShardActor(ReportingActor):
    """Owns the virtual shards that the database assigns to its index. Starts with its first request, so a restarted
    owner takes the next epoch as soon as a replica asks for its address.

    owners: over how many owners to spread shards that nobody had before.
    """

    def __init__(self, config: Config, fingerprint: str, index: int, owners: int) -> None:
        super().__init__(config, fingerprint, owner_name(index), serves_calls=True)
        self._index, self._owners = index, owners
        self._replicas: Replicas | None = None
        self._store: PostgresAccountStore | None = None
        self._counts: CountFollower | None = None
        self._shard: AccountShard | None = None
        self._address: tuple[str, int] | None = None

    async def address(self) -> tuple[str, int]:
        """Return host and port of the hot link."""
        await self._ready()
        assert self._address is not None
        return self._address

    async def health(self) -> dict[str, Any]:
        return await (await self._opened()).health()

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        return await (await self._opened()).ask(command)

    async def ask_many(self, commands: Sequence[Command[Value]]) -> list[OwnerReply[Value]]:
        return await (await self._opened()).ask_many(commands)

    async def routes(self) -> RouteTable:
        """Return the table of shards and owners from the database. Empty: the database does not answer."""
        await self._ready()
        assert self._store is not None
        try:
            return await self._store.holders.routes()
        except StoreUnavailable:
            return RouteTable()

    async def give(self, shards: list[VirtualShard]) -> Handover | str:
        """Hand these shards over. Returns a sentence that says why not, if they stay."""
        shard, replicas = await self._opened(), self._replicas
        assert replicas is not None
        try:
            async with asyncio.timeout(_VOIDS_SECONDS):
                await replicas.voided()  # The new owner then finds marks of them in the ledger.
            handover = await shard.moving.give(shards)
        except (OwnerUnavailable, TimeoutError) as error:
            return str(error) or "charges of a replica that is gone are being refunded"
        return msgspec.structs.replace(handover, fenced=replicas.fenced())

    async def take(self, shards: list[VirtualShard], handover: Handover) -> str | None:
        """Serve these shards from now on. Returns a sentence that says why not, if that is impossible."""
        shard, replicas = await self._opened(), self._replicas
        assert replicas is not None
        for replica in handover.fenced:
            replicas.gone(replica)
        try:
            await shard.moving.take(shards, handover)
        except (OwnerUnavailable, StoreUnavailable) as error:
            return str(error)
        return None

    async def take_back(self, shards: list[VirtualShard]) -> None:
        """Serve these shards again, because no other owner took them."""
        await (await self._opened()).moving.take_back(shards)

    async def given(self, shards: list[VirtualShard]) -> None:
        (await self._opened()).moving.given(shards)

    async def scale(self, count: int) -> None:
        """Spread the shards over this many owners from now on. Called at the first owner."""
        await self._ready()
        assert self._counts is not None
        await self._counts.scale(count)

    async def spread(self) -> dict[str, Any]:
        """Return how many shards each owner has, and whether that is as wanted. Called at the first owner."""
        await self._ready()
        assert self._counts is not None and self._store is not None
        owners = (await self._store.holders.routes()).owners
        return await self._counts.spread({owner_name(index): owners.count(index) for index in sorted(set(owners))})

    async def _opened(self) -> AccountShard:
        await self._ready()
        assert self._shard is not None
        return self._shard

    async def _assemble(self) -> None:
        config, storage = self._config, self._config.storage
        assert storage.redis_url is not None and storage.cluster_secret is not None
        clock = LedgerClock(SystemClock())
        pool = await configured_postgres(storage, storage.postgres_pool_size, self._name)
        store = self._store = PostgresAccountStore(pool)
        await store.prepare(clock.now_ms())
        secret = storage.cluster_secret.get_secret_value().encode()
        shard = AccountShard(
            config.accounts,
            config.identity,
            config.payments,
            store,
            # The same clock: setting the wall clock must not make Redis forget nonces.
            RedisIdentityStore(await checked_redis(storage.redis_url.get_secret_value()), clock),
            clock,
            f"{self._name} of process {os.getpid()}",
            await store.holders.assigned(self._index, self._owners),
            metrics=self._metrics,
            index=self._index,
            seal=KeySeal(secret),
        )
        await shard.start()
        self._replicas = Replicas(shard)
        tracing = open_tracing(config.telemetry, self._name)
        server = serve_links(shard, secret, self._replicas, tracing)
        host = hosting.this_address()
        self._address = (host, await server.start(host))
        self._shard = shard
        self._watcher = asyncio.create_task(self._watch(shard))
        self._guard = asyncio.create_task(self._guarding(store).run())
        if self._index == 0:
            balancing = Balancing(
                store.holders.routes,
                ask_owner,
                self._place,
                self._has_others,
                self._remove_others,
                owner_name,
                lambda: alone_at(storage),
            )
            self._counts = CountFollower(
                KIND, PostgresOwnership(pool), balancing.step, (StoreUnavailable,), _BALANCE_SECONDS
            )
            self._balancer = asyncio.create_task(self._counts.run())

    def _guarding(self, store: PostgresAccountStore) -> Guarding:
        async def owners() -> set[int]:
            return set((await store.holders.routes()).owners)

        pulses = Pulses()

        async def hangs(index: int) -> bool:
            name = owner_name(index)  # Ray itself restarts an owner that it knows to have ended.
            return (await pulses.look([name], ANSWER_SECONDS))[name] is Pulse.SILENT

        return Guarding(self._index, owners, hangs, lambda index: hosting.restart(owner_name(index)))

    async def _place(self, indexes: Sequence[int]) -> None:
        """Start the owners that do not run, with this owner's settings. Those that run keep theirs: a deployment
        replaces them while another owner serves their accounts (renewing.py)."""
        running = await running_owners()
        missing = [index for index in indexes if index != self._index and owner_name(index) not in running]
        await asyncio.gather(
            *(
                asyncio.to_thread(
                    hosting.place,
                    AccountShardActor,
                    owner_name(index),
                    self._fingerprint,
                    *(self._config, self._fingerprint, index, self._owners),
                )
                for index in missing
            )
        )

    @staticmethod
    async def _has_others(indexes: Sequence[int]) -> bool:
        running = await running_owners()
        return not {*running} <= {*map(owner_name, indexes)}

    @staticmethod
    async def _remove_others(indexes: Sequence[int]) -> None:
        await asyncio.to_thread(hosting.remove_others, owner_name(""), list(map(owner_name, indexes)))

    async def _watch(self, shard: AccountShard) -> None:
        """End this process when its shards have a newer owner; Ray starts a new one."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if (await shard.health()).get("fenced", False):
                break
        logger.error("account shard %d was fenced off by a newer owner; ending this process", self._index)
        os._exit(1)


async def running_owners() -> list[str]:
    """Return the names of the owners that run, in no order. Needs a connected Ray."""
    return await hosting.running(owner_name(""))


async def ask_owner(name: str, method: str, *arguments: Any) -> Any:
    return await hosting.ask(hosting.Reference(name), method, *arguments, wait_seconds=_MOVE_SECONDS)
