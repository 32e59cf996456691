"""Decisions, "Balance of an account with open sockets": the balance of an account with open sockets is what is left
after all that its streams delivered."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from actors.accounts.api import AdjustCredits
from actors.calls import ProvenProof
from actors.errors import Refusal
from actors.metering.meters import Meter, Meters
from actors.metering.standing_watch import StandingWatch
from tests.gateway.world import World, a_world
from tests.streams.world import ask, hear, open_sockets


class Replica:
    """One process with one stream of an account."""

    def __init__(self, world: World, pubkey: bytes, replica: bytes) -> None:
        self.meters, self.ended = Meters(world.accounts, world.clock, replica), list[Refusal]()
        self.watch = StandingWatch(world.accounts, spending=self.meters)
        self.watch.join(ProvenProof(pubkey), ProvenProof(pubkey), self, self.ended.append)
        self.meter: Meter = self.meters.open(ProvenProof(pubkey), "accountNotification")
        self.meter.join(self, lambda: None, self.ended.append)

    async def delivers(self, events: int) -> None:
        for _ in range(events):
            for _ in range(10):
                if self.meter.spend(1, self):
                    break
                await self.posted()
                self.meters.look()
                await self.posted()
            else:
                raise AssertionError("it is not covered")

    async def posted(self) -> None:
        await self.meters._posts.finish()


@contextlib.asynccontextmanager
async def two_replicas(credits: int) -> AsyncIterator[tuple[Replica, Replica, Any, World]]:
    async with a_world() as world:
        wallet = await world.customer(credits=credits)
        one, two = (Replica(world, wallet.pubkey, replica) for replica in (b"replica1", b"replica2"))
        yield one, two, wallet, world
        for replica in (one, two):
            replica.meter.leave(replica)
            await replica.posted()


async def test_what_is_delivered_and_not_posted_is_spent() -> None:
    """The check that follows the notification ends the socket; the one before does not."""
    async with two_replicas(30) as (one, _, _wallet, _world):
        await one.delivers(209)
        await one.watch.check()
        assert one.ended == []
        await one.delivers(1)
        await one.posted()
        await one.watch.check()
        assert len(one.ended) == 1


async def test_a_balance_that_is_large_enough_is_left_alone() -> None:
    """Nothing is posted early, and no stream is ended for credits that are only held."""
    async with two_replicas(500) as (one, two, wallet, world):
        await one.delivers(40)
        await two.delivers(40)
        for replica in (one, two):
            await replica.watch.check()
            await replica.posted()
        assert one.ended == two.ended == [] and await world.debits(wallet) == []


async def test_near_the_minimum_each_process_tells_the_others_what_it_has_delivered() -> None:
    """Neither process alone delivers enough to go below ten; together they do, and both streams end."""
    async with two_replicas(75) as (one, two, wallet, world):
        await one.delivers(200)
        await two.delivers(199)
        for replica in (one, two, one, two):
            await replica.watch.check()
            await replica.posted()
        assert one.ended == two.ended == []  # 36 are left.
        await two.delivers(100)
        await one.delivers(170)
        for replica in (one, two, one, two):  # One look posts, and the next one reads.
            await replica.watch.check()
            await replica.posted()
        assert one.ended and two.ended and await world.balance(wallet) == 9


async def test_a_post_that_is_on_its_way_is_not_counted_twice() -> None:
    """The owner's balance may have it already: a stream must not end while ten credits are left."""
    async with two_replicas(35) as (one, _, _wallet, _world):
        await one.delivers(240)
        one.meter.post_spent()
        await one.watch.check()
        await one.posted()
        await one.watch.check()
        assert one.ended == []


@pytest.mark.parametrize("sockets_of_it", [1, 3])
async def test_a_socket_is_closed_with_4002_at_the_next_check(sockets_of_it: int) -> None:
    """Through the door, by notifications alone: the allowance is not posted yet."""
    async with open_sockets() as sockets, contextlib.AsyncExitStack() as stack:
        wallet = await sockets.world.customer(credits=100)
        opened = [await stack.enter_async_context(sockets.connect(wallet)) for _ in range(sockets_of_it)]
        for socket in opened:
            assert "result" in await ask(socket, "slotSubscribe")
        told = 0
        while told < 60:
            await sockets.node.new_slot(told)
            for socket in opened:
                await hear(socket)
                told += 1
        left = await sockets.world.balance(wallet)
        assert left == 100 - 5 * sockets_of_it
        await sockets.world.shard.ask(AdjustCredits(wallet.pubkey, 15 - left, "test", "less"))
        await sockets.watch.check()
        for socket in opened:
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await hear(socket)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4002
