"""Clients, replicas, owners and a store that misbehaves, all from one seed; an auditor has the last word.

Owners are killed in the middle of anything, or live on as former owners; their clocks are behind or ahead, or jump for
a tick; commits fail before or after they were made; replicas send twice, void, die, or are cut off for so long
that they are given up, and come back with answers in their hands. A failing seed is in the name of the failing test.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from actors.accounts import commits
from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, OwnerUnavailable
from actors.accounts.ledger_time import SETTLING_MS
from actors.accounts.replicas import Replicas
from actors.calls import (
    ChargeReply,
    ChargeRequest,
    DeliveredNotice,
    HoldItem,
    HoldReply,
    HoldRequest,
    KeyProof,
    Proof,
    SettleReply,
    SettleRequest,
    UndeliveredNotice,
)
from actors.hotlink.owner import StartOver
from tests.accounts.auditor import Line, audit
from tests.accounts.making import pubkey_of
from tests.accounts.moody_store import MoodyStore
from tests.accounts.shards import WallClock, World, answered, run_ready

OPENING = 400
CLIENTS, CALLS_EACH = 8, 40
TRIES = 12
REPLICAS = 4
DAY = 86_400


@dataclass
class Call:
    """What one replica knows at the end. charged None: the replica died and nobody knows."""

    pubkey: bytes
    charged: int | None


@dataclass
class Replica:
    """A replica. cut: how often it was out of touch; back: done when it is in touch again, None while it is. in_hand:
    charges that it asked for, and whose answers have not left."""

    id: bytes
    cuts: int = 0
    in_hand: set[bytes] = field(default_factory=set)
    back: "asyncio.Future[None] | None" = None


@dataclass
class Simulation:
    seed: int
    calls: dict[bytes, Call] = field(default_factory=dict)
    granted: dict[bytes, int] = field(default_factory=dict)
    asked: dict[bytes, Proof] = field(default_factory=dict)
    numbers: dict[Proof, int] = field(default_factory=dict)  # Of named keys.
    epochs: dict[bytes, int] = field(default_factory=dict)  # As a hold of the account told it last.
    counter: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.store = MoodyStore(self.chance)
        self.world = World(store=self.store)
        self.owner: AccountShard
        self.handlers: Replicas  # The owner's view of them.
        self.clock: WallClock  # Of the owner's process.
        self.owners: list[AccountShard] = []
        self.replicas = [Replica(self._replica_id()) for _ in range(REPLICAS)]
        self.given_up = 0
        self.gone: asyncio.Future[None]

    async def run(self) -> None:
        self.store.kind = True
        await self._place_owner()
        customers = [(pubkey_of(f"customer {number}"), number) for number in range(3)]
        proofs: list[tuple[bytes, KeyProof]] = []
        for pubkey, _ in customers:
            proofs += [(pubkey, proof) for proof in await self._keys(pubkey)]
            self.granted[pubkey] = OPENING
        self.world.clock.advance(SETTLING_MS / 1000)
        self.store.kind = False
        trouble = asyncio.ensure_future(self._trouble())
        await asyncio.gather(*(self._client(proofs) for _ in range(CLIENTS)))
        trouble.cancel()
        self.store.kind = True
        await self._until_refunded()
        await self._place_owner()
        for owner in self.owners:
            await owner.stop()

    async def _keys(self, pubkey: bytes) -> list[KeyProof]:
        return [await self.world.customer(self.owner, pubkey, OPENING)]

    async def _until_refunded(self) -> None:
        while (self.handlers._voiding or self.handlers._giving_up) and not (await self.owner.health())["fenced"]:
            await self.world.pauses.end()

    # --- trouble --------------------------------------------------------------------------------------------------

    async def _place_owner(self) -> None:
        self.clock = WallClock(self.world.clock, self.chance.choice([0, 0, 0, -140, DAY, -DAY, 400 * DAY]))
        self.owner = await self.world.shard(self.clock)
        self.handlers = Replicas(self.owner, _soon)
        self.owners.append(self.owner)
        self.gone = asyncio.get_running_loop().create_future()

    async def _trouble(self) -> None:
        while True:
            for _ in range(self.chance.randrange(5, 120)):
                await asyncio.sleep(0)
            what = self.chance.random()
            if what < 0.30:
                self.world.clock.advance(self.chance.choice([0.3, 1, 5]))
            elif what < 0.65:
                await self.world.pauses.end()
            elif what < 0.75:
                await self._jump()
            elif what < 0.80:
                await self._cut_off(self.chance.choice(self.replicas))
            elif self.chance.random() < 0.5:
                await self._kill()
            else:
                await self._replace_owner()  # The former one lives on, and learns it from its next write.

    async def _jump(self) -> None:
        """For one tick: of this owner's clock, or of every clock; the database answers meanwhile."""
        days = self.chance.choice([1, 400, -1, -400])
        every = self.chance.random() < 0.5
        before, self.clock.ahead_seconds = self.clock.ahead_seconds, days * DAY
        if every:
            self.clock.ahead_seconds, self.world.clock.ahead_seconds = before, days * DAY
        self.owner._clock.answered(self.store.clock.now_ms(), self.world.clock.monotonic())
        await self.world.pauses.end()
        self.clock.ahead_seconds, self.world.clock.ahead_seconds = before, 0
        self.owner._clock.answered(self.store.clock.now_ms(), self.world.clock.monotonic())

    async def _cut_off(self, replica: Replica) -> None:
        """For so long that its owner gives it up. It comes back to whoever is the owner then."""
        replica.cuts += 1
        replica.back = asyncio.get_running_loop().create_future()
        for _ in range(self.chance.randrange(60)):
            await asyncio.sleep(0)
        self.handlers.gone(replica.id)
        self.given_up += 1
        for _ in range(self.chance.randrange(60)):
            await asyncio.sleep(0)
        if self.chance.random() < 0.2:
            await self._kill()
        if self.handlers.is_fenced(replica.id):
            replica.id = self._replica_id()
        self._link(replica)
        back, replica.back = replica.back, None
        back.set_result(None)

    def _replica_id(self) -> bytes:
        return self.chance.randbytes(8)

    async def _kill(self) -> None:
        """In the middle of whatever it does; who waits for it is told that the connection broke."""
        task = self.owner._commits._task
        assert task is not None
        task.cancel()
        self.owners.remove(self.owner)
        await self._replace_owner()

    async def _replace_owner(self) -> None:
        before = self.gone
        await self._place_owner()
        for replica in self.replicas:
            if replica.back is None:
                self._link(replica)
        before.set_result(None)

    def _link(self, replica: Replica) -> None:
        """A replica whose link stands says first which of its charges have not left it."""
        in_hand = tuple(operation for operation in replica.in_hand if operation.startswith(replica.id))
        assert not isinstance(self.handlers.undelivered(UndeliveredNotice(replica.id, in_hand)), StartOver)

    # --- replicas ------------------------------------------------------------------------------------------------

    async def _client(self, proofs: list[tuple[bytes, KeyProof]]) -> None:
        for _ in range(CALLS_EACH):
            pubkey, key = self.chance.choice(proofs)
            proof: Proof = key if self.chance.random() < 0.7 else self.world.wallet(pubkey)
            await self._call(pubkey, proof)
            if self.chance.random() < 0.02:
                await self._grant(pubkey)

    async def _call(self, pubkey: bytes, proof: Proof) -> None:
        self.counter += 1
        replica = self.chance.choice(self.replicas)
        operation = replica.id + self.counter.to_bytes(8, "big")
        self.asked[operation] = proof
        ceiling = self.chance.choice([1, 2, 5, 25, 50])
        hold = HoldRequest(operation, proof, (HoldItem("m", ceiling),))
        if isinstance(proof, KeyProof) and self._is_known(proof) and self.chance.random() < 0.3:
            await self._charge(replica, pubkey, hold, self.chance.choice([0, ceiling, ceiling]))
            return
        held = await self._persist(replica, lambda handlers: handlers.hold, hold)
        if not isinstance(held, HoldReply) or held.verdicts != (None,):
            self.calls[operation] = Call(pubkey, 0)
            return
        if self.chance.random() < 0.05:
            self.calls[operation] = Call(pubkey, 0)  # The replica died before anything was posted.
            return
        self.epochs[pubkey], self.numbers[proof] = held.epoch, held.key
        charged = self.chance.choice([0, ceiling, ceiling, ceiling, max(1, ceiling // 2)])
        request = SettleRequest(
            operation, pubkey, held.epoch, "m", ceiling, charged, 0, self.world.clock.now(), key=held.key
        )
        cuts, settled = await self._ended(replica, lambda handlers: handlers.settle, request, request)
        self.calls[operation] = await self._left(replica, cuts, request, settled)

    def _is_known(self, proof: KeyProof) -> bool:
        """Whether a call of it may be asked ahead."""
        return True

    async def _charge(self, replica: Replica, pubkey: bytes, hold: HoldRequest, charged: int) -> None:
        """Hold and settle in one message, by the epoch that a hold told last, which may be a former owner's. A refusal
        is voided: the first of two copies may have been charged."""
        ceiling, operation = hold.items[0].ceiling, hold.operation
        epoch = self.epochs.get(pubkey, 0)
        key = self.numbers.get(hold.proof, 0)
        settle = SettleRequest(operation, pubkey, epoch, "m", ceiling, charged, 0, self.world.clock.now(), key=key)
        request = ChargeRequest(hold, settle, self.chance.choice((0, 0, 1, 3)))
        cuts, found = await self._ended(replica, lambda handlers: handlers.charge, request, settle)
        settled = found.settled if isinstance(found, ChargeReply) else None
        self.calls[operation] = await self._left(replica, cuts, settle, settled)

    async def _ended(
        self, replica: Replica, door: Callable[[Replicas], Callable[..., object]], request: Any, settle: SettleRequest
    ) -> tuple[int, object]:
        """Ask for an end, sometimes twice at once. Returns how often the replica had been cut off, and the reply."""
        if settle.charged:
            replica.in_hand.add(settle.operation)
        twin = None
        if self.chance.random() < 0.1:
            twin = asyncio.ensure_future(self._persist(replica, door, request))
        cuts = replica.cuts
        found = await self._persist(replica, door, request)
        if twin is not None:
            await twin
        return cuts, found

    async def _left(self, replica: Replica, cuts: int, settle: SettleRequest, settled: object) -> Call:
        if self.chance.random() < 0.03:
            return Call(settle.pubkey, None)
        if isinstance(settled, SettleReply) and settled.ok and self.chance.random() > 0.1:
            return await self._deliver(replica, cuts, settle)
        return await self._void(replica, settle)

    async def _deliver(self, replica: Replica, cuts: int, request: SettleRequest) -> Call:
        """An answer leaves at once or a while later. Its replica may have been cut off since it was posted."""
        for _ in range(self.chance.choice([0, 0, 0, 40, 200])):
            await asyncio.sleep(0)
        while replica.cuts != cuts or replica.back is not None:
            if replica.back is not None:
                await replica.back
            if request.charged == 0:
                break
            cuts = replica.cuts
            settled = await self._persist(replica, lambda handlers: handlers.settle, request)
            if request.operation[:8] != replica.id or not isinstance(settled, SettleReply) or not settled.ok:
                return await self._void(replica, request)
        if self.chance.random() < 0.05:
            return Call(request.pubkey, None)  # The replica dies with it in its hands.
        replica.in_hand.discard(request.operation)
        self.handlers.delivered(DeliveredNotice((request.operation,)))
        return Call(request.pubkey, request.charged)

    async def _void(self, replica: Replica, request: SettleRequest) -> Call:
        voided = None
        while not isinstance(voided, SettleReply):
            voided = await self._persist(replica, lambda handlers: handlers.void, request)
        assert voided.ok
        replica.in_hand.discard(request.operation)
        return Call(request.pubkey, 0)

    async def _grant(self, pubkey: bytes) -> None:
        self.counter += 1
        name, amount = f"grant {self.counter}", self.chance.choice([50, 300])
        for _ in range(200):
            answer = await self._once(lambda: self.owner.ask(AdjustCredits(pubkey, amount, "more", name)))
            if answer is not None and getattr(answer, "value", None) is not None:
                self.granted[pubkey] += amount
                return
            await run_ready()
        raise AssertionError("an adjustment was never made")

    async def _persist(
        self,
        replica: Replica,
        door: Callable[[Replicas], Callable[..., object]],
        request: HoldRequest | SettleRequest | ChargeRequest,
    ) -> object:
        """Ask, and ask again by operation id while nobody knows. None: given up."""
        for _ in range(TRIES):
            if replica.back is not None:
                await replica.back
            answer = await self._once(lambda: _answered(door(self.handlers)(request)))
            if answer is not None:
                return answer
            await run_ready()
        return None

    async def _once(self, ask: Callable[[], Awaitable[object]]) -> object:
        task = asyncio.ensure_future(ask())
        await asyncio.wait({task, self.gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return None
        try:
            return task.result()
        except OwnerUnavailable:
            return None

    # --- the last word --------------------------------------------------------------------------------------------

    def check(self) -> None:
        for pubkey, granted in self.granted.items():
            row = self.store.rows[pubkey]
            lines = [Line(*msgspec.structs.astuple(entry), hash=after) for entry, after in row.entries]
            audited, faults = audit(pubkey, lines, {number: batch.expires_at for number, batch in row.batches.items()})
            assert not faults, faults
            head = row.head
            assert (audited.balance, audited.consumed, audited.hash) == (head.balance, head.total_consumed, head.hash)
            assert audited.batches == {number: batch.remaining for number, batch in row.batches.items()}
            mine = {key: call for key, call in self.calls.items() if call.pubkey == pubkey}
            for key, call in mine.items():
                found = audited.charged.pop(key, 0)
                assert call.charged is None or found == call.charged, (key.hex(), call, found)
            assert not any(audited.charged.values()), "charged for calls that nobody made"
            assert head.balance == granted - head.total_consumed


async def _answered(result: object) -> object:
    return result if isinstance(result, StartOver) else await answered(result)


async def _soon(seconds: float) -> None:
    await run_ready()


@pytest.mark.parametrize("seed", range(25))
async def test_every_answered_call_is_in_the_ledger_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Money rules 1 to 3, 5, 6 and 12; threats 17, 19, 21, 40, 41 and 44, to the credit."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0)
    monkeypatch.setattr(commits, "BEAT_SECONDS", 3_600)  # By the test's own clock only: the same seed, the same run.
    simulation = Simulation(seed)
    await simulation.run()
    simulation.check()
    answered_calls = [call for call in simulation.calls.values() if call.charged]
    assert len(simulation.calls) == CLIENTS * CALLS_EACH
    assert len(answered_calls) >= 20, "too much trouble to show anything"
