"""One account shard as a Ray actor: opens its stores, listens for hot links, passes rare requests on.

Implements: design, section 2 (Ray places, names, supervises and restarts the shard actors and tells their addresses).
The shell around the shell: every rule is below actor.py. Not here: how edges find it (client.py).
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from actors import hosting, telemetry
from actors.accounts.actor import AccountShard
from actors.accounts.api import DELIVERED, HOLD, SETTLE, SHARD_ACTOR_NAME, VOID, Answer, DepositCredit, OwnerUnavailable
from actors.accounts.deliveries import Deliveries
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.store import PostgresAccountStore
from actors.calls import DeliveredNotice, Noted, Proof, SettleReply, SettleRequest
from actors.clock import SystemClock
from actors.config import Config
from actors.events import NullSink
from actors.hotlink.owner import LinkServer, each
from actors.identity.store import RedisIdentityStore
from actors.storage import checked_redis, connect_postgres

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
    """The owner's side of the hot links. A dead edge's holds are released, its undelivered charges voided."""
    deliveries = Deliveries()

    def settle(request: SettleRequest) -> Any:
        result = shard.settle_now(request)
        if request.charged == 0:
            return result
        if isinstance(result, tuple):
            if result[0].ok:
                deliveries.posted(request)
            return result
        return settle_slowly(request, result)

    async def settle_slowly(request: SettleRequest, result: Awaitable[SettleReply]) -> SettleReply:
        # Noted before it is decided, and carried on without its edge: one that dies meanwhile is still made good.
        deliveries.posted(request)
        reply = await asyncio.shield(asyncio.ensure_future(result))
        if not reply.ok:
            deliveries.delivered((request.operation,))
        return reply

    def delivered(notice: DeliveredNotice) -> Noted:
        deliveries.delivered(notice.operations)
        return Noted()

    def gone(edge: bytes) -> None:
        shard.release_holds(edge)
        undelivered = deliveries.gone(edge)
        if undelivered:
            logger.warning("an edge is gone: %d charges that it did not deliver are voided", len(undelivered))
            task = asyncio.create_task(_void_all(shard, undelivered))
            _VOIDING.add(task)
            task.add_done_callback(_VOIDING.discard)

    return LinkServer(
        secret,
        {
            HOLD: each(shard.hold_now),
            SETTLE: each(settle),
            VOID: each(shard.void_now),
            DELIVERED: each(delivered),
        },
        gone,
    )


_VOIDING: set[asyncio.Task[None]] = set()  # Kept, or the loop would forget them half way.


async def _void_all(shard: AccountShard, undelivered: list[SettleRequest]) -> None:
    """While the ledger cannot say, they are asked again; asking again is harmless."""
    left = undelivered
    while left:
        left = [request for request in left if not await _voided(shard, request)]
        if left:
            await asyncio.sleep(_WATCH_SECONDS)


async def _voided(shard: AccountShard, request: SettleRequest) -> bool:
    """False: the ledger could not say."""
    result = shard.void_now(request)
    try:
        if isinstance(result, tuple):
            if result[1] is not None:
                await result[1]
        else:
            await result
    except OwnerUnavailable:
        return False
    return True


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
        telemetry.set_up(config.telemetry, name, config.telemetry.log_dir)
        clock = LedgerClock(SystemClock())
        pool = await connect_postgres(
            storage.postgres_url.get_secret_value(), connections_max=storage.postgres_pool_size, application=name
        )
        shard = AccountShard(
            config.accounts,
            config.identity,
            config.payments,
            PostgresAccountStore(pool),
            RedisIdentityStore(await checked_redis(storage.redis_url.get_secret_value()), clock),
            clock,
            NullSink(),
            f"{name} of process {os.getpid()}",
            hosting.owned_shards(self._index, config.accounts.shard_actors),
        )
        await shard.start()
        server = serve_links(shard, storage.cluster_secret.get_secret_value().encode())
        host = hosting.this_address()
        self._address = (host, await server.start(host))
        self._shard = shard
        hosting.settle_memory()
        self._watcher = asyncio.create_task(self._watch(shard))

    async def _watch(self, shard: AccountShard) -> None:
        """A shard whose write was refused by the fence is somebody's former self: it ends, and Ray starts a new one."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if (await shard.health()).get("fenced", False):
                break
        logger.error("account shard %d was fenced off by a newer owner; ending this process", self._index)
        os._exit(1)
