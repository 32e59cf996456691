"""Replicas and owners that die in any order, and a store that freezes: what left is paid for, what did not is not.

A seeded run of calls, deliveries, deaths and takeovers over a store in memory. At the end a client-side record of
answers is compared with the ledger. Only an answer that left after the last list of its replica was written may be
refunded, if its replica and its owner both died; the test knows each by the store's lists at the owner's death.
"""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from actors.accounts import commits
from actors.accounts.api import OwnerUnavailable, SetLimits
from actors.accounts.ledger import EntryType
from actors.accounts.replicas import Replicas
from actors.accounts.undelivered import Place
from actors.calls import DeliveredNotice, HoldItem, HoldRequest, KeyProof, SettleReply, SettleRequest, UndeliveredNotice
from actors.units import VirtualShard
from tests.accounts.making import pubkey_of
from tests.accounts.shards import World, answered, run_ready

CUSTOMERS = 3
STEPS = 250
TRIES = 30


@dataclass
class Replica:
    id: bytes
    in_hand: dict[bytes, SettleRequest] = field(default_factory=dict)  # Posted; their answers have not left.
    is_alive: bool = True


@dataclass
class Takeovers:
    seed: int
    replicas: list[Replica] = field(default_factory=list)
    answered: dict[bytes, bytes] = field(default_factory=dict)  # Operations whose answers left, and their accounts.
    unanswered: set[bytes] = field(default_factory=set)  # Voided, or in the hands of a dead replica.
    doubtful: set[bytes] = field(default_factory=set)
    unbeaten: set[bytes] = field(default_factory=set)  # Delivered since the owner's last beat.
    counter: int = 0
    takeovers: int = 0

    async def run(self) -> None:
        self.chance = random.Random(self.seed)
        self.world = World()
        self.shard = await self.world.shard()
        self.handlers = Replicas(self.shard, self.world.pauses)
        self.proofs: dict[bytes, KeyProof] = {}
        for number in range(CUSTOMERS):
            pubkey = pubkey_of(f"customer {number}")
            self.proofs[pubkey] = await self.world.customer(self.shard, pubkey, 10_000)
            await self.shard.ask(SetLimits(pubkey, 100_000, 10_000))
        self.replicas = [Replica(self.chance.randbytes(8)) for _ in range(3)]
        steps = [(self.call, 50), (self.deliver, 35), (self.void, 3), (self.beat, 6), (self.fail_next, 2)]
        steps += [(self.kill_replica, 2), (self.kill_owner, 2), (self.notice_gone, 2)]
        for _ in range(STEPS):
            ((step, _),) = self.chance.choices(steps, weights=[weight for _, weight in steps])
            await step()
        await self.end()

    # --- what happens ---------------------------------------------------------------------------------------------

    def living(self) -> Replica:
        return self.chance.choice([replica for replica in self.replicas if replica.is_alive])

    async def call(self) -> None:
        """Some calls at once, so that groups have one entry or several."""
        replica = self.living()
        await asyncio.gather(*(self._call(replica) for _ in range(self.chance.choice([1, 1, 2, 5]))))

    async def _call(self, replica: Replica) -> None:
        self.counter += 1
        operation = replica.id + self.counter.to_bytes(8, "big")
        pubkey = self.chance.choice(list(self.proofs))
        held = await answered(
            self.handlers.hold(HoldRequest(operation, self.proofs[pubkey], (HoldItem("getSlot", 2),)))
        )
        if held.verdicts != (None,):
            return
        charge = SettleRequest(operation, pubkey, held.epoch, "getSlot", 2, 2, 0, self.world.clock.now())
        if (await self.asked(charge)).ok:
            replica.in_hand[operation] = charge
        else:
            self.unanswered.add(operation)

    async def asked(self, charge: SettleRequest, is_void: bool = False) -> SettleReply:
        for _ in range(TRIES):
            try:
                reply = await answered((self.handlers.void if is_void else self.handlers.settle)(charge))
            except OwnerUnavailable:
                await self.world.pauses.end()
            else:
                assert isinstance(reply, SettleReply)
                return reply
        raise AssertionError("the owner never knew")

    async def deliver(self) -> None:
        replica = self.living()
        left = [name for name in replica.in_hand if self.chance.random() < 0.7]
        for name in left:
            self.answered[name] = replica.in_hand.pop(name).pubkey
        self.unbeaten.update(left)
        self.handlers.delivered(DeliveredNotice(tuple(left)))

    async def void(self) -> None:
        replica = self.living()
        if replica.in_hand:
            name, charge = replica.in_hand.popitem()
            self.unanswered.add(name)
            assert (await self.asked(charge, is_void=True)).ok

    async def beat(self) -> None:
        self.shard._commits._wake_for_beat()
        await run_ready()
        if self.shard._commits.open and not self.shard._commits._undelivered.is_changed:
            self.unbeaten.clear()

    async def fail_next(self) -> None:
        self.world.store.fail.append(self.chance.choice(["before", "after"]))

    async def kill_replica(self) -> None:
        replica = self.living()
        replica.is_alive = False
        self.unanswered.update(replica.in_hand)
        self.replicas.append(Replica(self.chance.randbytes(8)))

    async def notice_gone(self) -> None:
        """Five seconds after a death, if the owner lives so long."""
        for replica in self.replicas:
            if not replica.is_alive:
                self.handlers.gone(replica.id)
        if self.chance.random() < 0.5:
            await run_ready()

    async def kill_owner(self) -> None:
        """Perhaps in the middle of its refunds, and perhaps once more before the time of its successor is over."""
        task = self.shard._commits._task
        assert task is not None
        task.cancel()
        for voiding in (*self.handlers._voiding, *self.handlers._giving_up):
            voiding.cancel()
        await run_ready()
        listed = {
            name
            for row in await self.world.store.undelivered.recall(Place(VirtualShard(0), 1))
            for name in row.operations()
        }
        doubtful = self.answered.keys() & listed
        assert doubtful <= self.unbeaten, "an answer of before the last beat is in doubt"
        self.takeovers += 1
        self.world.store.fail.clear()
        self.shard = await self.world.shard()
        self.handlers = Replicas(self.shard, self.world.pauses)
        self.handlers.await_recalled()
        for replica in self.replicas:
            mine = {name for name in doubtful if name[:8] == replica.id}
            if replica.is_alive:
                await answered(self.handlers.undelivered(UndeliveredNotice(replica.id, tuple(replica.in_hand))))
                for charge in replica.in_hand.values():
                    assert (await self.asked(charge)).ok
            else:
                self.doubtful |= mine
        self.unbeaten.clear()

    async def end(self) -> None:
        for replica in self.replicas:
            if not replica.is_alive and self.chance.random() < 0.5:
                self.handlers.gone(replica.id)
        while self.handlers._voiding or self.handlers._giving_up:
            await self.world.pauses.end()
        for replica in self.replicas:
            if not replica.is_alive:
                self.handlers.gone(replica.id)
        while self.handlers._voiding or self.handlers._giving_up:
            await self.world.pauses.end()
        await self.shard.stop()

    # --- the last word --------------------------------------------------------------------------------------------

    def net(self) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for row in self.world.store.rows.values():
            for entry, _ in row.entries:
                if entry.type in (EntryType.DEBIT, EntryType.REFUND):
                    found[entry.operation] = found.get(entry.operation, 0) - entry.amount
        return found

    def check(self) -> None:
        net = self.net()
        assert all(net.get(name, 0) == 0 for name in self.unanswered), "an unanswered call is charged"
        lost = {name for name in self.answered if net.get(name, 0) != 2}
        assert lost <= self.doubtful, "an answered call is not charged"
        living = {replica.id for replica in self.replicas if replica.is_alive}
        assert all(name[:8] not in living for name in lost), "an answer of a living replica is not charged"
        in_hand = {name for replica in self.replicas if replica.is_alive for name in replica.in_hand}
        assert all(net.get(name) == 2 for name in in_hand)
        assert set(net) <= self.unanswered | self.answered.keys() | in_hand
        left = self.world.store.undelivered.lists
        assert {replica for (_, replica) in left} <= living, "the list of a dead replica stays for ever"


@pytest.mark.parametrize("seed", range(40))
async def test_answers_and_ledger_agree_whoever_dies_first(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Money rule 2 when a replica and the owner die in any order, and commits fail meanwhile."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0)
    monkeypatch.setattr(commits, "BEAT_SECONDS", 3_600)  # By the test's own steps only: the same seed, the same run.
    run = Takeovers(seed)
    await run.run()
    run.check()
    assert len(run.answered) > 50


async def test_a_frozen_ledger_delays_the_refunds_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store freezes, the replica dies, its owner dies; a write that was on its way lands before the takeover."""
    monkeypatch.setattr(commits, "BEAT_SECONDS", 3_600)
    run = Takeovers(1)
    run.chance, run.world = random.Random(1), World()
    run.shard = await run.world.shard()
    run.handlers = Replicas(run.shard, run.world.pauses)
    pubkey = pubkey_of("customer 0")
    run.proofs = {pubkey: await run.world.customer(run.shard, pubkey, 100)}
    replica = Replica(b"replica0")
    run.replicas = [replica]
    await run._call(replica)
    await run._call(replica)
    await run.deliver()
    await run.beat()
    before, store = dict(run.answered), run.world.store
    store.gate = asyncio.Event()
    flying = asyncio.ensure_future(run._call(replica))
    await run_ready()
    replica.is_alive = False
    run.unanswered.update(replica.in_hand)
    old = run.shard._commits._flying
    assert old is not None
    store.write_now(run.shard._commits.epoch, old.write)  # The server had it already.
    flying.cancel()
    run.shard._commits._task.cancel()
    store.gate = None
    run.shard = await run.world.shard()
    run.handlers = Replicas(run.shard, run.world.pauses)
    store.away = True
    run.handlers.await_recalled()
    for _ in range(3):
        await run.world.pauses.end()
    assert run.handlers._voiding, "it waits for the ledger"
    store.away = False
    while run.handlers._voiding:
        await run.world.pauses.end()
    net = run.net()
    assert {name for name, amount in net.items() if amount} == set(before)
    assert len(net) == 3
    await run.shard.stop()
