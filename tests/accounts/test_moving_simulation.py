"""Calls of several customers while their shards move at random between owners that are killed at random.

Each call is answered once or refused, and the ledger has exactly the charges of those that were answered. The name of a
failing test has its seed."""

import asyncio
import random

import msgspec
import pytest

from actors.accounts import client as client_module
from actors.accounts import moving as moving_module
from actors.accounts.api import OwnerUnavailable
from actors.accounts.ledger import EntryType
from actors.accounts.moving import KEPT_SECONDS
from actors.calls import ChargeRequest, HoldReply, KeyProof, WalletProof
from actors.units import shard_of
from tests.accounts.making import pubkey_of
from tests.accounts.moving_cluster import OWNERS, REPLICA, Cluster, running, until

PUBKEYS = [pubkey_of(f"customer {number}") for number in range(6)]
CREDITS, PRICE = 10_000, 5


class Story:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.chance = cluster, random.Random(seed)
        self.proofs: dict[bytes, KeyProof] = {}
        self.known: dict[bytes, HoldReply] = {}
        self.answered: dict[bytes, list[bytes]] = {pubkey: [] for pubkey in PUBKEYS}
        self.ended = False

    async def tell(self) -> None:
        for pubkey in PUBKEYS:
            self.proofs[pubkey] = await self.cluster.customer(pubkey, CREDITS)
        ticking = asyncio.ensure_future(self._time_goes_on())
        clients = [asyncio.ensure_future(self._client(pubkey)) for pubkey in PUBKEYS]
        await self._direct()
        for owner in self.cluster.owners:  # Whatever a move left is found.
            self.cluster.world.clock.advance(KEPT_SECONDS)
            await owner.shard.tick()
            await owner.shard.tick()
        await asyncio.sleep(0.05)
        self.ended = True
        await asyncio.gather(*clients)
        await until(lambda: not self.cluster.accounts._voids)
        await until(lambda: not any(len(owner.shard.undelivered) for owner in self.cluster.owners))
        await ticking

    async def _client(self, pubkey: bytes) -> None:
        cluster, accounts = self.cluster, self.cluster.accounts
        while not self.ended:
            is_wallet = self.chance.random() < 0.3
            proof: KeyProof | WalletProof = cluster.world.wallet(pubkey) if is_wallet else self.proofs[pubkey]
            request = cluster.request(proof, PRICE)
            known = None if is_wallet or self.chance.random() < 0.5 else self.known.get(pubkey)
            charge = None
            try:
                if known is None:
                    held, settled = await accounts.hold(request), None
                else:  # Asked ahead of the hold.
                    charge = cluster.charge(known, request, PRICE)
                    held, settled = msgspec.structs.astuple(await accounts.charge(ChargeRequest(request, charge)))
                if held.refusal is not None or held.verdicts != (None,):
                    assert held.refusal == "SERVICE_TEMPORARILY_UNAVAILABLE", held
                    if charge is not None:
                        accounts.void(charge)
                    continue
                self.known[pubkey] = held
                if charge is None:
                    charge = cluster.charge(held, request, PRICE)
                    settled = await accounts.settle(charge)
            except OwnerUnavailable:
                if known is not None and charge is not None:
                    accounts.void(charge)
                continue
            if settled.ok and (accounts.may_leave(charge) or await accounts.confirm(charge)):
                self.answered[pubkey].append(request.operation)
                accounts.delivered(pubkey, request.operation)
            else:
                accounts.void(charge)
            await asyncio.sleep(self.chance.random() * 0.002)

    async def _direct(self) -> None:
        for _ in range(25):
            shards = [shard_of(self.chance.choice(PUBKEYS))]
            await asyncio.sleep(self.chance.random() * 0.01)
            try:
                await self.cluster.move(self.chance.randrange(OWNERS), shards)
            except OwnerUnavailable:
                pass
            self.cluster.world.clock.advance(1)  # Another window of the rate limit.
            if self.chance.random() < 0.1:
                owner = self.chance.choice(self.cluster.owners)
                await owner.kill()
                await owner.start()

    async def _time_goes_on(self) -> None:
        while not self.ended:
            await self.cluster.world.pauses.end()
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", range(4))
async def test_calls_go_on_while_shards_move_and_owners_die(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_module, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(client_module, "ROUTES_SECONDS", 0.05)
    async with running() as cluster:
        story = Story(cluster, seed)
        await story.tell()
        assert cluster.replicas == [REPLICA], "nobody was given up"
        assert not any(owner.replicas._awaited for owner in cluster.owners)
        for pubkey, answered in story.answered.items():
            debits = cluster.entries(pubkey, EntryType.DEBIT)
            refunds = set(cluster.entries(pubkey, EntryType.REFUND))
            kept = [name for name in debits if name not in refunds]
            assert len(set(debits)) == len(debits)
            assert set(answered) <= set(kept), "an answer that was refunded"
            assert len(kept) == len(answered), "a charge without an answer"
            assert cluster.world.store.rows[pubkey].head.balance == CREDITS - PRICE * len(kept)
        assert min(map(len, story.answered.values())) > 5
