"""A shard over memory stores and a clock that stands still, and stores that fail on demand."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, IssueKey
from actors.accounts.stored import Stored, StoreUnavailable
from actors.accounts.writes import Write
from actors.calls import HoldReply, HoldRequest, KeyProof, SettleReply, SettleRequest, WalletProof
from actors.clock import Clock, ManualClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.events import Event
from actors.identity.credentials import parse_api_key
from actors.identity.store import ClaimedRecord, IdentityStoreUnavailable, TakenNonce
from actors.units import VIRTUAL_SHARDS, UnixMillis, UnixSeconds, VirtualShard
from tests.accounts.memory_store import MemoryAccountStore
from tests.identity.memory_store import MemoryIdentityStore

SHARDS = tuple(VirtualShard(number) for number in range(VIRTUAL_SHARDS))


def owned_shards(index: int, owners: int) -> tuple[VirtualShard, ...]:
    """The shards that an owner has at first."""
    return SHARDS[index::owners]


class WallClock:
    """The clocks of one process: the true time, but its wall clock may be set ahead (or below 0: behind)."""

    def __init__(self, true: ManualClock, ahead_seconds: int = 0) -> None:
        self._true, self.ahead_seconds = true, ahead_seconds

    def now(self) -> UnixSeconds:
        return UnixSeconds(self._true.now() + self.ahead_seconds)

    def now_ms(self) -> UnixMillis:
        return UnixMillis(self._true.now_ms() + self.ahead_seconds * 1000)

    def monotonic(self) -> float:
        return self._true.monotonic()


class FailingStore(MemoryAccountStore):
    """fail: what the coming writes do, one each: "before" (nothing written), "after" (written, the answer lost)."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.fail: list[str] = []
        self.away = False
        self.loads = self.writes = 0
        self.gate: asyncio.Event | None = None  # Writes wait for it.

    async def take_over(self, owner: str, shards: Sequence[VirtualShard], renew: bool) -> int:
        self._check_away()
        return await super().take_over(owner, shards, renew)

    async def check_owner(self, epoch: int, shards: Sequence[VirtualShard]) -> int:
        self._check_away()
        return await super().check_owner(epoch, shards)

    async def write(self, epoch: int, group: Write) -> int:
        if self.gate is not None:
            await self.gate.wait()
        self._check_away()
        failure = self.fail.pop(0) if self.fail else ""
        if failure == "before":
            raise StoreUnavailable("the connection was lost")
        database_ms = await super().write(epoch, group)
        self.writes += 1
        if failure == "after":
            raise StoreUnavailable("the connection was lost")
        return database_ms

    async def load(self, pubkey: bytes, since_ms: int) -> Stored | None:
        self._check_away()
        self.loads += 1
        return await super().load(pubkey, since_ms)

    async def find_key(self, key_hash: bytes) -> bytes | None:
        self._check_away()
        return await super().find_key(key_hash)

    def _check_away(self) -> None:
        if self.away:
            raise StoreUnavailable("nobody listens")


class FailingIdentityStore(MemoryIdentityStore):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.away = False
        self.pipelines = self.claims = 0
        self.gate: asyncio.Event | None = None  # Nonces on their way wait for it.

    async def claim_nonces(self, epoch: int, shards: Sequence[VirtualShard], **named: Any) -> list[ClaimedRecord]:
        self._check_away()
        self.claims += 1
        return await super().claim_nonces(epoch, shards, **named)

    async def take_nonces(self, epoch: int, entries: Sequence[TakenNonce]) -> None:
        self._check_away()
        self.pipelines += 1
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        self._check_away()
        await super().take_nonces(epoch, entries)

    async def forget_nonces(self, epoch: int, shards: Sequence[VirtualShard], until: int) -> None:
        self._check_away()
        await super().forget_nonces(epoch, shards, until)

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        self._check_away()
        return await super().load_session(token_hash)

    def _check_away(self) -> None:
        if self.away:
            raise IdentityStoreUnavailable("nobody listens")


@dataclass
class Pauses:
    """In place of asyncio.sleep: a shard that waits goes on when the test says so."""

    waiting: list["asyncio.Future[None]"] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        await future

    async def end(self) -> None:
        """Let everything that waits go on, and run until it waits again."""
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        await run_ready()


async def run_ready() -> None:
    """Run what is ready, and what that makes ready."""
    for _ in range(50):
        await asyncio.sleep(0)


@dataclass
class World:
    """Everything that outlives a shard, and a way to make shards in it.

    clock: the true time, which is the store's too; `ahead_seconds` of it sets the clock of the whole machine.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    store: FailingStore = field(default_factory=FailingStore)
    pauses: Pauses = field(default_factory=Pauses)
    config: AccountsConfig = field(default_factory=AccountsConfig)
    payments: PaymentsConfig = field(
        default_factory=lambda: PaymentsConfig(deposit_wallet="So11111111111111111111111111111111111111112")
    )
    identity: FailingIdentityStore = field(init=False)
    nonces: int = 0

    def __post_init__(self) -> None:
        self.identity = FailingIdentityStore(self.clock)
        self.store.clock = self.clock

    @property
    def events(self) -> list[Event]:
        """Everything that was written for webhooks."""
        return self.store.outbox.events

    async def shard(
        self, clock: Clock | None = None, shards: Sequence[VirtualShard] = SHARDS, index: int | None = None
    ) -> AccountShard:
        """clock: of this process alone. index: of the owner."""
        shard = AccountShard(
            self.config,
            IdentityConfig(),
            self.payments,
            self.store,
            self.identity,
            clock or self.clock,
            "test",
            shards,
            sleep=self.pauses,
            index=index,
        )
        await shard.start()
        return shard

    def wallet(self, pubkey: bytes) -> WalletProof:
        """A proof with a nonce that was never used."""
        self.nonces += 1
        return WalletProof(pubkey, f"nonce-{self.nonces}", self.clock.now())

    async def customer(self, shard: AccountShard, pubkey: bytes, credits: int = 0) -> KeyProof:
        """An account with a key and credits."""
        if credits:
            granted = await shard.ask(AdjustCredits(pubkey, credits, "opening", "opening"))
            assert granted.refusal is None, granted
        answer = await shard.ask(IssueKey(self.wallet(pubkey)))
        assert answer.value is not None, answer
        proof = parse_api_key(answer.value)
        assert proof is not None
        return proof


async def answered(result: Any) -> Any:
    """As the link server does it: the value, what is awaited, or the reply once its group is durable."""
    if isinstance(result, tuple):
        reply, future = result
        if future is not None:
            await asyncio.shield(future)
        return reply
    return result if isinstance(result, HoldReply | SettleReply) else await result


async def ask(function: Callable[[Any], Any], request: HoldRequest | SettleRequest) -> Any:
    result: Awaitable[Any] = answered(function(request))
    return await result
