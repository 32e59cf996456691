"""Wallets, doors and attackers who send every signed request again, over owners, stores and clocks that misbehave.

One nonce admits one request, whatever breaks at whatever await: links break and send again, commits fail, Redis stalls,
fails, or forgets everything, owners are killed or live on as former owners, clocks are moved. All from one seed, which
is in the name of the failing test; an auditor who knows none of the product's code counts what was admitted.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.accounts import commits
from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    AdjustCredits,
    Identify,
    IssueKey,
    OpenSession,
    OwnerReply,
    OwnerUnavailable,
    ReadAccount,
    ReadLedger,
)
from actors.calls import HoldItem, HoldReply, HoldRequest, SettleRequest, WalletProof
from actors.clock import ManualClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.identity.store import IdentityStoreUnavailable
from actors.units import routing_bytes, virtual_shard
from tests.accounts.making import pubkey_of
from tests.accounts.moody_store import MoodyStore
from tests.accounts.shards import SHARDS, Pauses, WallClock, answered, run_ready
from tests.identity.memory_store import MemoryIdentityStore

WALLETS, ATTACKERS, REQUESTS_EACH = 4, 5, 40
WINDOW_SECONDS = 60
TRIES = 6
DAY_SECONDS = 86_400
KINDS = ("call", "call", "call", "info", "ledger", "identify", "key", "session")
REDIS_COMMANDS = {"claim_nonces", "take_nonces", "load_nonces", "forget_nonces", "burn_challenge"}


class MoodyRedis(MemoryIdentityStore):
    """Takes its time, and fails now and then: before the command, after it, or while it is on its way and still is
    carried out later."""

    def __init__(self, clock: WallClock, chance: random.Random) -> None:
        super().__init__(clock)
        self.clock, self.chance = clock, chance
        self.failing = False
        self.late: list[asyncio.Future[None]] = []

    def lose_everything(self) -> None:
        super().__init__(self.clock)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return (lambda *args, **named: self._run(lambda: found(*args, **named))) if name in REDIS_COMMANDS else found

    async def _run(self, command: Callable[[], Awaitable[Any]]) -> Any:
        await self._dawdle(20)
        mood = self.chance.random() if self.failing else 1.0
        if mood < 0.03:
            raise IdentityStoreUnavailable("lost before")
        if mood < 0.09:
            self.late.append(asyncio.ensure_future(self._run_late(command)))
            raise IdentityStoreUnavailable("lost while it was on its way")
        result = await command()
        await self._dawdle(10)
        if mood < 0.12:
            raise IdentityStoreUnavailable("lost after")
        return result

    async def _run_late(self, command: Callable[[], Awaitable[Any]]) -> None:
        await self._dawdle(60)
        with suppress(Exception):
            await command()

    async def _dawdle(self, steps: int) -> None:
        for _ in range(self.chance.randrange(steps)):
            await asyncio.sleep(0)


@dataclass(frozen=True)
class Request:
    """What a wallet signed once. Attackers send the same again."""

    kind: str
    pubkey: bytes
    nonce: str
    signed_at: int


@dataclass
class Auditor:
    """Counts admissions: at most one for what was signed once. Asked with another operation, it is another request."""

    admitted: Counter[tuple[bytes, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def answered(self, request: Request, refusal: str | None) -> None:
        if refusal is None:
            self.admitted[request.pubkey, request.nonce] += 1
        else:
            self.refused[refusal] += 1

    @property
    def twice(self) -> list[tuple[bytes, str]]:
        return [signed for signed, times in self.admitted.items() if times > 1]


@dataclass
class Owner:
    shard: AccountShard
    clock: WallClock
    gone: "asyncio.Future[None]"


@dataclass
class Simulation:
    """troubles: what may happen, of those that `_trouble` knows."""

    seed: int
    troubles: frozenset[str]
    auditor: Auditor = field(default_factory=Auditor)
    sent: list[Request] = field(default_factory=list)
    background: set["asyncio.Future[None]"] = field(default_factory=set)
    counter: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.time = ManualClock()
        self.store = MoodyStore(self.chance)
        self.store.kind = True
        self.redis = MoodyRedis(WallClock(self.time), self.chance)
        self.doors = [WallClock(self.time, self.chance.randrange(-2, 3)) for _ in range(3)]
        self.pauses = Pauses()
        self.wallets = [pubkey_of(f"wallet {number}") for number in range(WALLETS)]
        mine = {virtual_shard(routing_bytes(pubkey)) for pubkey in self.wallets}
        self.shards = tuple(mine | set(SHARDS[:130]))  # So many that they are claimed in two portions.
        self.owners: list[Owner] = []  # Those that run, the last one being the owner by the database.

    async def run(self) -> None:
        await self._place_owner()
        for pubkey in self.wallets:
            await self.owners[-1].shard.ask(AdjustCredits(pubkey, 1_000_000, "opening", "opening"))
        self.store.kind, self.redis.failing = "commits" not in self.troubles, "redis" in self.troubles
        trouble = asyncio.ensure_future(self._trouble())
        honest = [self._wallet(pubkey) for pubkey in self.wallets]
        await asyncio.gather(*honest, *(self._attacker() for _ in range(ATTACKERS)))
        trouble.cancel()
        await asyncio.gather(trouble, return_exceptions=True)
        for owner in self.owners:
            self._end(owner)

    # --- trouble --------------------------------------------------------------------------------------------------

    async def _place_owner(self) -> None:
        off_seconds = self.chance.randrange(-2, 3)
        if "clocks" in self.troubles and "loss" not in self.troubles:
            off_seconds = self.chance.choice([off_seconds, -100, 100, DAY_SECONDS, -DAY_SECONDS])
        clock = WallClock(self.time, off_seconds)
        shard = AccountShard(
            AccountsConfig(requests_per_second=100_000, concurrency=100_000, unknown_seconds=0),
            IdentityConfig(),
            PaymentsConfig(),
            self.store,
            self.redis,
            clock,
            "test",
            self.shards,
            sleep=self.pauses,
        )
        await shard.start()
        self.owners.append(Owner(shard, clock, asyncio.get_running_loop().create_future()))

    async def _trouble(self) -> None:
        acts = [self._pass_time] * 8 + [self.pauses.end] * 2
        acts += [self._kill] * ("restart" in self.troubles)
        acts += [self._place_owner] * ("former" in self.troubles)  # The former one lives on with the links it has.
        acts += [self._close_ledger] * ("closed" in self.troubles)
        acts += [self._lose] * ("loss" in self.troubles)
        acts += [self._move_clocks, self._set_back] * ("clocks" in self.troubles)
        while True:
            for _ in range(self.chance.randrange(5, 30)):
                await asyncio.sleep(0)
            await self.chance.choice(acts)()

    async def _pass_time(self) -> None:
        self.time.advance(self.chance.choice([0.3, 1, 1, 1, 1, 1, 2, 5, 70]))

    async def _kill(self) -> None:
        """In the middle of whatever it does; who waits for it is told that the connection broke."""
        killed = self.owners[-1]
        self._end(killed)
        await self._place_owner()
        self.owners.remove(killed)

    def _end(self, owner: Owner) -> None:
        task = owner.shard._commits._task
        assert task is not None
        task.cancel()
        if not owner.gone.done():
            owner.gone.set_result(None)

    async def _close_ledger(self) -> None:
        self.store.away = True
        await run_ready()
        self.store.away = False

    async def _lose(self) -> None:
        """Redis forgets everything, and before or after it the owner is killed."""
        if self.chance.random() < 0.5:
            await self._kill()
        for _ in range(self.chance.randrange(10)):
            await asyncio.sleep(0)
        self.redis.lose_everything()
        for _ in range(self.chance.randrange(10)):
            await asyncio.sleep(0)
        if self.chance.random() < 0.7:
            await self._kill()

    async def _move_clocks(self) -> None:
        """Of doors and of Redis always; of owners where they are not the only ones who remember."""
        moved = [*self.doors, self.redis.clock]
        if "loss" not in self.troubles:
            moved += [owner.clock for owner in self.owners]
        wrong = [0, 0, -100, 100, -1_000, DAY_SECONDS, -DAY_SECONDS]
        self.chance.choice(moved).ahead_seconds = self.chance.choice(wrong)

    async def _set_back(self) -> None:
        """Of the whole machine, to where a message would be good again that was used before."""
        if self.sent and "loss" not in self.troubles:
            off_seconds = self.chance.choice(self.sent).signed_at - self.time.now()
            for clock in (*self.doors, *(owner.clock for owner in self.owners)):
                clock.ahead_seconds = off_seconds

    # --- clients --------------------------------------------------------------------------------------------------

    async def _wallet(self, pubkey: bytes) -> None:
        for _ in range(REQUESTS_EACH):
            self.counter += 1
            off_seconds = self.chance.choice([0, 0, -55, 55])
            nonce, signed_at = f"{self.counter:032x}", self.time.now() + off_seconds
            request = Request(self.chance.choice(KINDS), pubkey, nonce, signed_at)
            self.sent.append(request)
            await self._send(request)
            for _ in range(self.chance.randrange(30)):
                await asyncio.sleep(0)

    async def _attacker(self) -> None:
        await run_ready()
        for _ in range(3 * REQUESTS_EACH):
            recent = self.sent[-4:] if self.chance.random() < 0.7 else self.sent
            await self._send(self.chance.choice(recent))
            for _ in range(self.chance.randrange(8)):
                await asyncio.sleep(0)

    async def _send(self, request: Request) -> None:
        """Through any door, which checks the time of the message by its own clock."""
        age_seconds = self.chance.choice(self.doors).now() - request.signed_at
        if request.kind == "session":
            is_good = -WINDOW_SECONDS <= age_seconds < 300
        else:
            is_good = abs(age_seconds) <= WINDOW_SECONDS
        if is_good:
            refusal = await (self._call(request) if request.kind == "call" else self._ask(request))
            self.auditor.answered(request, refusal)

    async def _call(self, request: Request) -> str | None:
        """Over the hot link: after a break the same operation is sent again."""
        self.counter += 1
        operation = b"replica:" + self.counter.to_bytes(8, "big")
        proof = WalletProof(request.pubkey, request.nonce, request.signed_at)
        hold = HoldRequest(operation, proof, (HoldItem("m", 1),))
        for _ in range(TRIES):
            held = await self._once(lambda owner: answered(owner.hold_now(hold)))
            if isinstance(held, HoldReply):
                if held.refusal is None and held.verdicts == (None,):
                    settle = SettleRequest(operation, request.pubkey, held.epoch, "m", 1, 1, 0, self.time.now())
                    self._in_background(self._settle(settle))
                return held.refusal or held.verdicts[0]
        return "no answer"

    async def _settle(self, settle: SettleRequest) -> None:
        """For the commits that it makes, and that fail."""
        await self._once(lambda owner: answered(owner.settle_now(settle)))

    async def _ask(self, request: Request) -> str | None:
        """By an ordinary actor call: never sent again."""
        proof = WalletProof(request.pubkey, request.nonce, request.signed_at)
        asks: dict[str, Callable[[AccountShard], Awaitable[OwnerReply]]] = {
            "info": lambda owner: owner.ask(ReadAccount(proof)),
            "ledger": lambda owner: owner.ask(ReadLedger(proof, 0, 10)),
            "identify": lambda owner: owner.ask(Identify(proof)),
            "key": lambda owner: owner.ask(IssueKey(proof)),
            "session": lambda owner: owner.ask(
                OpenSession(request.pubkey, bytes.fromhex(request.nonce), request.signed_at)
            ),
        }
        answer = await self._once(asks[request.kind], breaks=False)
        return answer.refusal if isinstance(answer, OwnerReply) else "no answer"

    async def _once(self, ask: Callable[[AccountShard], Awaitable[object]], breaks: bool = True) -> object:
        """None: the link broke, or the owner is gone."""
        # A door with an old link may still speak to a former owner.
        owner = self.owners[-1] if self.chance.random() < 0.7 else self.chance.choice(self.owners)
        if owner.gone.done():
            await self._break()
            return None
        task = asyncio.ensure_future(ask(owner.shard))
        ends: set[asyncio.Future[Any]] = {task, owner.gone}
        if breaks and "links" in self.troubles and self.chance.random() < 0.3:
            ends.add(asyncio.ensure_future(self._break()))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            # The replica may have a new link before the owner sees that the old one is broken.
            self._in_background(self._notice(task))
            return None
        try:
            return task.result()
        except OwnerUnavailable:
            return None

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _break(self) -> None:
        for _ in range(self.chance.randrange(12)):
            await asyncio.sleep(0)

    async def _notice(self, task: "asyncio.Future[object]") -> None:
        for _ in range(self.chance.choice([0, 0, 3, 20])):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


TROUBLES = {
    "links": "links",
    "commits": "commits",
    "closed": "closed",
    "redis": "redis links restart",
    "former": "former links",
    "loss": "loss",
    "clocks": "clocks restart",
    "owners": "links commits closed redis restart former clocks",
    "everything": "links commits closed redis restart former clocks loss",
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("troubles", list(TROUBLES))
async def test_one_nonce_admits_one_request(troubles: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threats 2, 4, 53 and 55: whatever breaks at whatever await."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0)
    monkeypatch.setattr(commits, "BEAT_SECONDS", 3_600)  # By the test's own clock only: the same seed, the same run.
    simulation = Simulation(seed, frozenset(TROUBLES[troubles].split()))
    await simulation.run()
    assert simulation.auditor.twice == []
