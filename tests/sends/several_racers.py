"""Several racers over one chain, one ledger and one store, and a replica's client before them; slices may move."""

import asyncio
from typing import Any

from ray.exceptions import ActorDiedError

from actors.ownership.held import HeldSlices
from actors.ownership.keeper import SliceKeeper
from actors.ownership.spreading import spread_slices
from actors.sends.actor import POLL_SECONDS, SendRacer
from actors.sends.api import RaceRefused, RaceResult, RacerUnreachable
from actors.sends.client import SendsClient
from actors.sends.legs import LEG_NAMES
from actors.sends.recovery import RaceRecovery
from actors.sends.slices import KIND, RACERS, SLICES
from tests.sends.memory_store import MemoryRaceStore
from tests.sends.world import (
    OPEN_MAX,
    Process,
    Sent,
    World,
    WorldAccounts,
    WorldChain,
    WorldLeg,
    WorldStore,
    turns,
)

Heard = RaceResult | RaceRefused | RacerUnreachable


class Member:
    """One racer's process, and the actor of its name as others reach it."""

    def __init__(self, world: "Racers", name: str) -> None:
        self.process, self.held, self.name = Process(), HeldSlices(), name
        chain: Any = WorldChain(world, self.process)
        self.store = MemoryRaceStore(world.store.tables, self.held)
        store: Any = WorldStore(world, self.process, self.store)
        legs: Any = [WorldLeg(world, self.process, leg) for leg in LEG_NAMES]
        accounts = WorldAccounts(world, self.process)
        self.racer = SendRacer(chain, legs, store, accounts, world.clock, self.held, open_max=OPEN_MAX)
        self.recovery = RaceRecovery(self.racer, chain, store, world.clock)
        ownership = world.store.tables.ownership
        self.keeper = SliceKeeper(KIND, name, ownership, self.held, world.clock, self.racer.finish, self.recovery.begin)

    @property
    def works(self) -> bool:
        return not self.process.dead and self.process.goes_on.is_set()

    async def health(self) -> dict[str, Any]:
        return {}

    async def look(self) -> None:
        """What its loops do, once."""
        if self.racer.under_way:
            await self.racer.look()

    async def recover(self) -> None:
        fresh, self.recovery._fresh = self.recovery._fresh, set()
        await (self.recovery.take_over(fresh) if fresh else self.recovery.carry_on())


class Racers(World):
    """members: by name; a killed one starts again under its name with `restart`."""

    def start(self, crash_at: int = 0) -> None:
        del crash_at
        self.members: dict[str, Member] = {}
        self.store = MemoryRaceStore(held=HeldSlices())  # The tables alone: it holds no slice.
        self.client = SendsClient(self._holders, self.clock, self._refer)

    async def _holders(self) -> Any:
        return await self.store.tables.ownership.holders(KIND)

    def _refer(self, name: str) -> Any:
        return _Handle(self, name)

    def _member(self, name: str) -> Member:
        found = self.members.get(name)
        if found is None or found.process.dead:
            raise ActorDiedError
        return found

    async def scale(self, *names: str) -> None:
        """As placing does: start those that are missing, move the slices, end the others."""
        for name in names:
            if name not in self.members:
                self.members[name] = Member(self, name)
        holding = await spread_slices(self.store.tables.ownership, RACERS, names, self._refer)
        assert holding == set(names), holding
        for name in self.members.keys() - set(names):
            self.members.pop(name).process.dead = True

    async def restart(self, name: str) -> None:
        """Kill it and start its successor."""
        self.members[name].process.dead = True
        await turns()
        self.members[name] = Member(self, name)
        await self.members[name].keeper.start()

    async def ask(self, sent: Sent, account: int = 1) -> "asyncio.Task[Heard]":
        """A call as a replica makes it."""

        async def call() -> Heard:
            try:
                return await self.client.race(self.wanted(sent, account))
            except RacerUnreachable as error:
                return error

        task = asyncio.create_task(call())
        await turns()
        return task

    async def pass_time(self, seconds: float, recover: bool = True) -> None:
        until, recovered = self.clock.monotonic() + seconds, self.clock.monotonic()
        while self.clock.monotonic() < until:
            self.clock.advance(POLL_SECONDS)
            is_time = recover and self.clock.monotonic() - recovered >= 1
            recovered = self.clock.monotonic() if is_time else recovered
            for member in [one for one in self.members.values() if one.works]:
                await self._unless_dead(member.look())
                await turns()
                if is_time:
                    await self._unless_dead(member.keeper.look())
                    await self._unless_dead(member.recover())
                    await turns()

    @property
    def shares(self) -> dict[str, int]:
        """How many slices each serves. No two serve one."""
        served = [number for member in self.members.values() for number in member.held.serving()]
        assert len(served) == len(set(served)) <= SLICES
        return {name: len(member.held.serving()) for name, member in self.members.items()}

    async def close(self) -> None:
        await self.client.stop()
        for member in self.members.values():
            member.process.goes_on.set()
            await member.racer.close()


class _Handle:
    """The actor that has this name now."""

    def __init__(self, world: Racers, name: str) -> None:
        self._world, self._name = world, name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):  # Of Ray's own.
            raise AttributeError(method)
        return _Method(self._world, self._name, method)


class _Method:
    def __init__(self, world: Racers, name: str, method: str) -> None:
        self._world, self._name, self._method = world, name, method

    async def remote(self, *arguments: Any) -> Any:
        member = self._world._member(self._name)
        await member.process.pause()
        of = {"take": member.keeper, "give": member.keeper, "health": member}.get(self._method, member.racer)
        answering = asyncio.ensure_future(getattr(of, self._method)(*arguments))
        while not (await asyncio.wait((answering,), timeout=0.02))[0]:
            if member.process.dead:  # Whoever waits for an answer of a killed process hears that it is dead.
                answering.cancel()
                raise ActorDiedError
        if member.process.dead:
            answering.exception() if not answering.cancelled() else None
            raise ActorDiedError
        return answering.result()
