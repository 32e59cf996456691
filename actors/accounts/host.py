"""One account shard as a Ray actor: opens its stores, listens for hot links, passes rare requests on.

Implements: design, section 2 (Ray places, names, supervises and restarts the shard actors and tells their addresses).
The shell around the shell: every rule is below actor.py. Not here: how edges find it (client.py).
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from actors import hosting
from actors.accounts.actor import AccountShard
from actors.accounts.api import DELIVERED, HOLD, SETTLE, SHARD_ACTOR_NAME, VOID, Answer, DepositCredit
from actors.accounts.edges import Edges
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.store import PostgresAccountStore
from actors.calls import Proof
from actors.clock import SystemClock
from actors.config import Config
from actors.events import NullSink
from actors.hotlink.owner import LinkServer, each
from actors.identity.store import RedisIdentityStore
from actors.storage.connections import checked_redis, connect_postgres
from actors.telemetry import logs
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import report_for_ever

logger = logging.getLogger(__name__)

_WATCH_SECONDS = 0.5


def fingerprint(config: Config) -> str:
    """Changes with the version and with every setting but the secrets, which are masked here."""
    try:
        installed = version("ledger-gateway")
    except PackageNotFoundError:  # Run from a clone that is not installed.
        installed = "not installed"
    return f"{installed} {hashlib.sha256(config.model_dump_json().encode()).hexdigest()}"


def serve_links(shard: AccountShard, secret: bytes) -> LinkServer:
    """The owner's side of the hot links, over TCP."""
    edges = Edges(shard)
    handlers = {
        HOLD: each(edges.hold),
        SETTLE: each(edges.settle),
        VOID: each(edges.void),
        DELIVERED: each(edges.delivered),
    }
    return LinkServer(secret, handlers, edges.gone, edges.is_fenced)


class AccountShardActor:
    """Owns the virtual shards v with v % actors == index. Started by its first request, so that a restarted one
    takes the next epoch as soon as anybody asks for its address."""

    def __init__(self, config: Config, index: int) -> None:
        self._config, self._index = config, index
        self._starting: asyncio.Task[None] | None = None
        self._shard: AccountShard | None = None
        self._address: tuple[str, int] | None = None

    async def address(self) -> tuple[str, int]:
        """Host and port of the hot link."""
        await self._ready()
        assert self._address is not None
        return self._address

    async def health(self) -> dict[str, Any]:
        return await (await self._ready()).health()

    async def fingerprint(self) -> str:
        """Of the settings and the version that this owner was made with."""
        return fingerprint(self._config)

    async def info(self, proof: Proof) -> Answer:
        return await (await self._ready()).info(proof)

    async def ledger(self, proof: Proof, offset: int, limit: int) -> Answer:
        return await (await self._ready()).ledger(proof, offset, limit)

    async def history(self, proof: Proof, offset: int, limit: int) -> Answer:
        return await (await self._ready()).history(proof, offset, limit)

    async def issue_key(self, proof: Proof, ref_code: str | None) -> Answer:
        return await (await self._ready()).issue_key(proof, ref_code)

    async def open_session(self, pubkey: bytes, challenge_id: bytes, issued_at: int) -> Answer:
        return await (await self._ready()).open_session(pubkey, challenge_id, issued_at)

    async def close_session(self, proof: Proof) -> Answer:
        return await (await self._ready()).close_session(proof)

    async def adjust(self, pubkey: bytes, amount: int, reason: str, operation: str) -> Answer:
        return await (await self._ready()).adjust(pubkey, amount, reason, operation)

    async def set_status(self, pubkey: bytes, status: str, reason: str) -> Answer:
        return await (await self._ready()).set_status(pubkey, status, reason)

    async def set_limits(self, pubkey: bytes, requests_per_second: int | None, concurrency: int | None) -> Answer:
        return await (await self._ready()).set_limits(pubkey, requests_per_second, concurrency)

    async def identify(self, proof: Proof) -> Answer:
        return await (await self._ready()).identify(proof)

    async def credit_deposit(self, pubkey: bytes, credit: DepositCredit) -> Answer:
        return await (await self._ready()).teller.credit_deposit(pubkey, credit)

    async def credit_deposits(self, wanted: Sequence[tuple[bytes, DepositCredit]]) -> list[Answer]:
        return await (await self._ready()).teller.credit_deposits(wanted)

    async def take_back_deposit(self, pubkey: bytes, signature: bytes, index: int, reason: str) -> Answer:
        return await (await self._ready()).teller.take_back_deposit(pubkey, signature, index, reason)

    async def assign_deposit(self, pubkey: bytes, credit: DepositCredit, reason: str) -> Answer:
        return await (await self._ready()).teller.assign_deposit(pubkey, credit, reason)

    async def create_referral(self, code: str, bonus_bps: int, expires_at: int | None, note: str) -> Answer:
        return await (await self._ready()).teller.create_referral(code, bonus_bps, expires_at, note)

    async def expire_referral(self, code: str) -> Answer:
        return await (await self._ready()).teller.expire_referral(code)

    async def list_referrals(self) -> Answer:
        return await (await self._ready()).teller.list_referrals()

    async def describe(self, pubkey: bytes) -> Answer:
        return await (await self._ready()).describe(pubkey)

    async def _ready(self) -> AccountShard:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        # Shielded: the first asker going away must not stop the start for everybody.
        await asyncio.shield(self._starting)
        assert self._shard is not None
        return self._shard

    async def _start(self) -> None:
        try:
            await self._open()
        except Exception:
            # Ray restarts the process; half an owner must not linger with an epoch that it does not use.
            logger.exception("account shard %d cannot start", self._index)
            os._exit(1)

    async def _open(self) -> None:
        config, storage = self._config, self._config.storage
        assert storage.postgres_url is not None and storage.redis_url is not None
        assert storage.cluster_secret is not None
        name = SHARD_ACTOR_NAME.format(index=self._index)
        logs.set_up(config.telemetry, name, config.telemetry.log_dir)
        clock = LedgerClock(SystemClock())
        metrics = Metrics()
        pool = await connect_postgres(
            storage.postgres_url.get_secret_value(), connections_max=storage.postgres_pool_size, application=name
        )
        shard = AccountShard(
            config.accounts,
            config.identity,
            config.payments,
            PostgresAccountStore(pool),
            # By the same clock: a wall clock that is set must not let Redis forget nonces.
            RedisIdentityStore(await checked_redis(storage.redis_url.get_secret_value()), clock),
            clock,
            NullSink(),
            f"{name} of process {os.getpid()}",
            hosting.owned_shards(self._index, config.accounts.shard_actors),
            metrics=metrics,
        )
        await shard.start()
        server = serve_links(shard, storage.cluster_secret.get_secret_value().encode())
        host = hosting.this_address()
        self._address = (host, await server.start(host))
        self._shard = shard
        hosting.tune_gc()
        self._watcher = asyncio.create_task(self._watch(shard))
        self._reporting = asyncio.create_task(report_for_ever(config, name, metrics))

    async def _watch(self, shard: AccountShard) -> None:
        """A shard whose write was refused by the fence is somebody's former self: it ends, and Ray starts a new one."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if (await shard.health()).get("fenced", False):
                break
        logger.error("account shard %d was fenced off by a newer owner; ending this process", self._index)
        os._exit(1)
