"""One account shard as a Ray actor: opens its stores, listens for hot links, passes commands on.

Implements: design, "Measured facts" (Ray places, names, supervises and restarts the shard actors and tells their
addresses). The shell around the shell: every rule is below actor.py. Not here: how replicas find it (client.py).
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import Any

from actors import hosting
from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    DELIVERED,
    HOLD,
    SETTLE,
    SHARD_ACTOR_NAME,
    STREAM_TIME,
    UNDELIVERED,
    VOID,
    Command,
    OwnerReply,
    Value,
)
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.replicas import Replicas
from actors.accounts.store import PostgresAccountStore
from actors.actor_settings import OF_EVERY_ACTOR
from actors.clock import SystemClock
from actors.config import Config
from actors.hotlink.owner import LinkServer, each
from actors.identity.store import RedisIdentityStore
from actors.storage.connections import checked_redis, configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.units import owned_shards

logger = logging.getLogger(__name__)

_WATCH_SECONDS = 0.5
# The settings of an owner; it is replaced when one of them changes.
USES = (
    *OF_EVERY_ACTOR,
    "accounts",
    "identity",
    "payments.credit_expiry_days",
    "payments.credits_per_usdc",
    "storage.cluster_secret",
    "storage.postgres_pool_size",
    "storage.postgres_url",
    "storage.redis_url",
)


def serve_links(shard: AccountShard, secret: bytes) -> LinkServer:
    """Make the server of the owner's hot links, over TCP."""
    replicas = Replicas(shard)
    handlers = {
        HOLD: each(replicas.hold),
        SETTLE: each(replicas.settle),
        VOID: each(replicas.void),
        DELIVERED: each(replicas.delivered),
        UNDELIVERED: each(replicas.undelivered),
        STREAM_TIME: each(replicas.stream_time),
    }
    replicas.await_recalled()
    return LinkServer(secret, handlers, replicas.gone, replicas.is_fenced)


class AccountShardActor(ReportingActor):
    """Owns the virtual shards v with v % actors == index. Starts with its first request, so a restarted owner takes
    the next epoch as soon as a replica asks for its address."""

    def __init__(self, config: Config, fingerprint: str, index: int) -> None:
        super().__init__(config, fingerprint, SHARD_ACTOR_NAME.format(index=index), serves_calls=True)
        self._index = index
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

    async def _opened(self) -> AccountShard:
        await self._ready()
        assert self._shard is not None
        return self._shard

    async def _assemble(self) -> None:
        config, storage = self._config, self._config.storage
        assert storage.redis_url is not None and storage.cluster_secret is not None
        clock = LedgerClock(SystemClock())
        pool = await configured_postgres(storage, storage.postgres_pool_size, self._name)
        shard = AccountShard(
            config.accounts,
            config.identity,
            config.payments,
            PostgresAccountStore(pool),
            # By the same clock: a wall clock that is set must not let Redis forget nonces.
            RedisIdentityStore(await checked_redis(storage.redis_url.get_secret_value()), clock),
            clock,
            f"{self._name} of process {os.getpid()}",
            owned_shards(self._index, config.accounts.shard_actors),
            metrics=self._metrics,
        )
        await shard.start()
        server = serve_links(shard, storage.cluster_secret.get_secret_value().encode())
        host = hosting.this_address()
        self._address = (host, await server.start(host))
        self._shard = shard
        self._watcher = asyncio.create_task(self._watch(shard))

    async def _watch(self, shard: AccountShard) -> None:
        """End this process when its shards have a newer owner; Ray starts a new one."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if (await shard.health()).get("fenced", False):
                break
        logger.error("account shard %d was fenced off by a newer owner; ending this process", self._index)
        os._exit(1)
