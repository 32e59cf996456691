"""Replicas that go away, and replicas that come back: no charge is both refunded and answered for."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts import replicas as module
from actors.accounts import undelivered as undelivered_module
from actors.accounts.api import OwnerUnavailable, SetLimits
from actors.accounts.ledger import EntryType
from actors.accounts.replicas import Replicas
from actors.accounts.undelivered import UndeliveredCharges
from actors.calls import (
    DeliveredNotice,
    HoldItem,
    HoldRequest,
    KeyProof,
    Noted,
    SettleReply,
    SettleRequest,
    UndeliveredNotice,
)
from actors.hotlink.owner import StartOver
from tests.accounts.making import ALICE, pubkey_of
from tests.accounts.shards import World, answered, run_ready

REPLICA, OTHER = b"replica1", b"replica2"


class Called:
    """An owner, and calls that replicas have made of it."""

    def __init__(self) -> None:
        self.world = World()
        self.proofs: dict[bytes, KeyProof] = {}

    async def start(self, customers: int = 1, credits: int = 10_000) -> "Called":
        self.shard = await self.world.shard()
        self.replicas = Replicas(self.shard, self.world.pauses)
        for number in range(customers):
            pubkey = ALICE if number == 0 else pubkey_of(f"customer {number}")
            self.proofs[pubkey] = await self.world.customer(self.shard, pubkey, credits)
            await self.shard.ask(SetLimits(pubkey, 100_000, 10_000))
        return self

    async def hold(self, number: int, replica: bytes = REPLICA, pubkey: bytes = ALICE) -> Any:
        request = HoldRequest(replica + number.to_bytes(8, "big"), self.proofs[pubkey], (HoldItem("getSlot", 5),))
        result = self.replicas.hold(request)
        return result if isinstance(result, StartOver) else await answered(result)

    def charge(self, number: int, replica: bytes = REPLICA, pubkey: bytes = ALICE) -> SettleRequest:
        operation = replica + number.to_bytes(8, "big")
        return SettleRequest(operation, pubkey, 1, "getSlot", 5, 5, 0, self.world.clock.now())

    async def settle(self, number: int, replica: bytes = REPLICA, pubkey: bytes = ALICE) -> Any:
        result = self.replicas.settle(self.charge(number, replica, pubkey))
        return result if isinstance(result, StartOver) else await answered(result)

    async def post(self, *numbers: int, replica: bytes = REPLICA) -> None:
        for number in numbers:
            assert (await self.hold(number, replica)).verdicts == (None,)
            assert (await self.settle(number, replica)).ok

    def deliver(self, *numbers: int, replica: bytes = REPLICA) -> Any:
        return self.replicas.delivered(
            DeliveredNotice(tuple(replica + number.to_bytes(8, "big") for number in numbers))
        )

    def entries(self, kind: EntryType, pubkey: bytes = ALICE) -> list[int]:
        rows = self.world.store.rows[pubkey].entries
        return sorted(int.from_bytes(entry.operation[8:], "big") for entry, _ in rows if entry.type == kind)

    async def end(self) -> None:
        await self.replicas.voided()
        await self.shard.stop()


async def test_a_dead_replica_is_refunded_what_it_did_not_deliver() -> None:
    """Money rule 2; what it delivered stays charged, and other replicas are not touched."""
    called = await Called().start()
    await called.post(1, 2, 3)
    await called.post(4, replica=OTHER)
    assert called.deliver(2) == Noted()
    called.replicas.gone(REPLICA)
    await called.replicas.voided()
    assert called.entries(EntryType.REFUND) == [1, 3]
    called.replicas.gone(REPLICA)  # It came back, and went again.
    await called.end()
    assert called.entries(EntryType.REFUND) == [1, 3]


async def test_the_log_says_what_was_voided_after_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """An operator who reads it finds the refunds in the ledger."""
    called = await Called().start()
    await called.post(1, 2)
    called.world.store.gate = asyncio.Event()
    called.replicas.gone(REPLICA)
    await run_ready()
    assert "voided" not in caplog.text
    called.world.store.gate.set()
    await called.replicas.voided()
    assert f"replica {REPLICA.hex()}: 2 undelivered charges have been voided" in caplog.text
    await called.end()


async def test_a_void_that_fails_leaves_its_charge_for_the_next_owner() -> None:
    """The owner is killed between its decision and the ledger's word."""
    called = await Called().start()
    await called.post(1, 2)
    called.world.store.away = True
    called.replicas.gone(REPLICA)
    await run_ready()
    called.world.store.away = False
    for task in called.replicas._voiding:
        task.cancel()
    await called.shard.stop()
    called.shard = await called.world.shard()
    called.replicas = Replicas(called.shard, called.world.pauses)
    called.replicas.await_recalled()
    while called.replicas._giving_up or called.replicas._voiding:
        await called.world.pauses.end()
    assert called.entries(EntryType.REFUND) == [1, 2]
    assert called.world.store.undelivered.lists == {}
    await called.end()


async def test_a_charge_that_its_replica_voids_is_listed_no_longer() -> None:
    """Else the lists of a replica would grow with each answer that did not leave."""
    called = await Called().start()
    await called.post(1, 2)
    assert (await answered(called.replicas.void(called.charge(1)))).ok
    called.shard._activations.forget(list(called.shard._accounts.values()))
    assert (await answered(called.replicas.void(called.charge(2)))).ok
    assert len(called.shard.undelivered) == 0
    await called.end()


async def test_an_replica_that_comes_back_can_do_nothing_under_its_old_id() -> None:
    """Threat 57: it neither holds nor settles nor delivers, and is told to start over. Its voids are heard."""
    called = await Called().start()
    await called.post(1, 2)
    await called.hold(3)
    assert called.deliver(2) == Noted()
    called.replicas.gone(REPLICA)
    await called.replicas.voided()
    assert called.replicas.is_fenced(REPLICA) and not called.replicas.is_fenced(OTHER)
    assert isinstance(await called.hold(5), StartOver)
    for number in (1, 2, 3):  # Refunded, delivered and held: none of them may be answered for now.
        assert isinstance(await called.settle(number), StartOver)
    assert isinstance(called.deliver(1), StartOver)
    assert (await answered(called.replicas.void(called.charge(3)))).ok
    await called.post(6, replica=OTHER)
    assert called.deliver(6, replica=OTHER) == Noted()
    await called.end()
    assert (called.entries(EntryType.DEBIT), called.entries(EntryType.REFUND)) == ([1, 2, 6], [1])


async def test_the_fence_comes_before_the_refunds() -> None:
    """In the moment between: the refund is decided and not written, and the replica asks whether its charge stands."""
    called = await Called().start()
    await called.post(1)
    called.world.store.gate = asyncio.Event()
    called.replicas.gone(REPLICA)
    assert isinstance(await called.settle(1), StartOver)
    await run_ready()
    assert isinstance(await called.settle(1), StartOver)
    assert isinstance(called.deliver(1), StartOver)
    called.world.store.gate.set()
    await called.end()
    assert called.entries(EntryType.REFUND) == [1]


@pytest.mark.parametrize("evicted", [False, True])
async def test_many_charges_are_refunded_in_a_few_groups(evicted: bool) -> None:
    """A thousand refunds one after the other would each wait for the disk. Also of accounts that left memory."""
    called = await Called().start(customers=4)
    keys = list(called.proofs)
    for number in range(1_000):
        await called.hold(number, pubkey=keys[number % 4])
    replies = await asyncio.gather(*(called.settle(number, pubkey=keys[number % 4]) for number in range(1_000)))
    assert all(reply.ok for reply in replies)
    if evicted:
        called.shard._activations.forget(list(called.shard._accounts.values()))
    called.world.store.writes = 0
    called.replicas.gone(REPLICA)
    await called.replicas.voided()
    assert called.world.store.writes <= 12
    for key in keys:
        assert len(called.entries(EntryType.REFUND, key)) == 250
        assert called.world.store.rows[key].head.balance == 10_000
    await called.end()


async def test_refunds_wait_for_a_ledger_that_is_away() -> None:
    """And are made once, whether or not the write was made that failed."""
    called = await Called().start()
    await called.post(1, 2, 3)
    called.world.store.fail = ["after"]
    called.replicas.gone(REPLICA)
    await run_ready()
    assert called.replicas._voiding
    while called.replicas._voiding:
        await called.world.pauses.end()
    assert called.entries(EntryType.REFUND) == [1, 2, 3]
    await called.end()


async def test_a_charge_that_is_being_decided_when_its_replica_goes_is_made_good() -> None:
    """Its account has to be loaded first; the replica goes away meanwhile. Charged or not, it ends costing nothing."""
    called = await Called().start()
    await called.hold(1)
    called.shard._activations.forget(list(called.shard._accounts.values()))
    settling = asyncio.ensure_future(called.settle(1))
    await asyncio.sleep(0)
    called.replicas.gone(REPLICA)
    await called.replicas.voided()
    reply = await settling
    assert called.world.store.rows[ALICE].head.balance == 10_000
    assert isinstance(reply, SettleReply)
    assert isinstance(await called.settle(1), StartOver)
    await called.end()


async def test_a_fault_in_one_refund_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again, as often as it takes."""
    called = await Called().start()
    await called.post(1, 2, 3)
    void_now, faults = called.shard.void_now, [RuntimeError("a bug"), OwnerUnavailable("not now")]

    async def broken() -> SettleReply:
        raise faults.pop()

    def void(request: SettleRequest) -> Any:
        return broken() if faults and request == called.charge(2) else void_now(request)

    monkeypatch.setattr(called.shard, "void_now", void)
    called.replicas.gone(REPLICA)
    while called.replicas._voiding:
        await called.world.pauses.end()
    assert called.entries(EntryType.REFUND) == [1, 2, 3]
    await called.end()


async def test_a_restarted_owner_needs_no_fences() -> None:
    """It has none of its predecessor's: the ledger says which charges were refunded, and the rest stand."""
    called = await Called().start()
    await called.post(1, 2)
    await answered(called.shard.void_now(called.charge(1)))  # The predecessor was killed before it voided the other.
    successor = await called.world.shard()
    replicas = Replicas(successor)
    assert not (await answered(replicas.settle(called.charge(1)))).ok
    assert (await answered(replicas.settle(called.charge(2)))).ok
    replicas.gone(REPLICA)
    await replicas.voided()
    assert called.entries(EntryType.REFUND) == [1, 2]
    await called.end()
    await successor.stop()


async def test_fences_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten."""
    monkeypatch.setattr(module, "FENCED_MAX", 3)

    class Shard:
        undelivered = UndeliveredCharges()

        async def forget_replica(self, replica: bytes) -> None: ...

        def release_holds(self, replica: bytes) -> None: ...

    replicas = Replicas(Shard())  # type: ignore[arg-type]
    for number in range(5):
        replicas.gone(b"%08d" % number)
    assert [replicas.is_fenced(b"%08d" % number) for number in range(5)] == [False, False, True, True, True]


def charge_of(replica: int, number: int) -> SettleRequest:
    return SettleRequest((REPLICA, OTHER)[replica] + number.to_bytes(8, "big"), bytes(32), 1, "getSlot", 1, 1, 0, 0)


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 9)))


@given(steps=steps)
def test_what_was_posted_and_not_delivered_is_in_doubt_and_nothing_else(steps: list[tuple[bool, int, int]]) -> None:
    """Rule (money rule 2): a replica's death leaves exactly its own undelivered charges to void, once."""
    kept, expected = UndeliveredCharges(), {0: set(), 1: set()}
    for is_post, replica, number in steps:
        if is_post:
            kept.posted(charge_of(replica, number))
            expected[replica].add(number)
        else:
            kept.delivered((charge_of(replica, number).operation,))
            expected[replica].discard(number)
    assert len(kept) == len(expected[0]) + len(expected[1])
    left = kept.of(REPLICA)
    assert left.keys() == {charge_of(0, n).operation for n in expected[0]}
    kept.forget(REPLICA)
    assert kept.of(REPLICA) == left, "a charge that is not voided yet is not forgotten"
    kept.delivered(left)
    kept.forget(REPLICA)
    assert kept.of(REPLICA) == {}
    assert len(kept) == len(expected[1])


def test_an_replica_that_never_says_anything_does_not_fill_memory(monkeypatch) -> None:
    """Rule: bounded everywhere; beyond the bound the oldest counts as delivered."""
    monkeypatch.setattr(undelivered_module, "UNDELIVERED_MAX", 3)
    kept = UndeliveredCharges()
    for number in range(10):
        kept.posted(charge_of(0, number))
    assert list(kept.of(REPLICA)) == [charge_of(0, n).operation for n in (7, 8, 9)]


async def test_who_has_linked_is_not_waited_for_any_more():
    """Design, "Owners, for every kind of actor": an owner that has just taken shards gives them on at once, as all of
    the replicas that were to link have; it waits for one that has not, until that is given up."""
    called = await Called().start()
    expected = called.replicas.expect((REPLICA, OTHER))
    called.replicas.give_up_later(expected)
    voided = asyncio.ensure_future(called.replicas.voided())
    for replica in (REPLICA, OTHER):
        await run_ready()
        assert not voided.done()
        called.replicas.undelivered(UndeliveredNotice(replica, ()))
    await asyncio.wait_for(voided, 1)
    called.replicas.expect((b"replica3",))
    late = asyncio.ensure_future(called.replicas.voided())
    await run_ready()
    assert not late.done()
    called.replicas.gone(b"replica3")
    await asyncio.wait_for(late, 1)
