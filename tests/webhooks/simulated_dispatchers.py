"""The dispatchers of a simulated world: processes that share the accounts, move slices, die, or are cut off.

A process that is cut off goes on beside its successor, which has claimed its slices by newer epochs, until it learns of
that; what it writes meanwhile must change nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from actors.ownership.held import HeldSlices
from actors.ownership.keeper import SliceKeeper
from actors.ownership.moves import HolderAway, move_slices
from actors.telemetry.metrics import Metrics
from actors.webhooks.actor import WebhookDispatcher
from actors.webhooks.core import Attempt
from actors.webhooks.slices import KIND, SLICES, dispatcher_names
from tests.ownership.memory_store import MemoryOwnership

from .owned_webhooks import OwnedMemory


class SimulatedWorld(Protocol):
    dice: Any
    clock: Any
    kept: Any
    seal: Any
    counts: Any

    def fragile(self, store: Any) -> Any: ...
    async def ask_many(self, commands: Sequence[Any]) -> Any: ...
    async def answer(self, url: str, headers: Mapping[str, str], body: bytes, is_cut_off: bool) -> Attempt: ...


class Process:
    def __init__(self, world: SimulatedWorld, name: str, ownership: MemoryOwnership, kept_ms: int) -> None:
        self._world, self.name, self.is_cut_off = world, name, False
        self.held = HeldSlices()
        store = world.fragile(OwnedMemory(world.kept, ownership, self.held))
        owners: Any = world
        self.dispatcher = WebhookDispatcher(
            *(name, store, self, owners, world.seal, world.clock, Metrics(), self.held),
            kept_ms=kept_ms,
            jitter=world.dice.uniform,
            sleep=_rarely,
            idle_seconds=120,
        )
        finish, begin = self.dispatcher.finish, self.dispatcher.begin
        self.keeper = SliceKeeper(KIND, name, ownership, self.held, world.clock, finish, begin)

    async def start(self) -> None:
        await self.keeper.start()
        self.dispatcher.start()

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt:
        return await self._world.answer(url, headers, body, self.is_cut_off)

    async def learn_that_it_was_cut_off(self, seconds: float) -> None:
        self.is_cut_off = True
        await asyncio.sleep(seconds)
        await self.keeper.look()
        assert not self.held.serving(), "its successor has all of its slices"
        await asyncio.sleep(30)  # Requests under way end, and nothing comes of them.
        await self.dispatcher.stop()


class Dispatchers:
    def __init__(self, world: SimulatedWorld, kept_ms: int) -> None:
        self._world, self._kept_ms, self._ownership = world, kept_ms, MemoryOwnership()
        self.running: dict[str, Process] = {}
        self._cut_off: list[asyncio.Task[None]] = []

    async def scale(self, count: int) -> None:
        """As placing does: start those that are missing, move the slices, end the others."""
        names = dispatcher_names(count)
        for name in names:
            if name not in self.running:
                await self._start(name)
        self._world.counts["moved"] += await move_slices(SLICES, names, self._holders, self._give, self._take, SLICES)
        for name in self.running.keys() - set(names):
            await self.running.pop(name).dispatcher.stop()

    async def kill(self, *, lose_machine: bool) -> None:
        """End a process, or, with its machine, only its connection to the others; Ray starts another of its name."""
        name = self._world.dice.choice(sorted(self.running))
        before = self.running[name]
        if lose_machine:
            self._world.counts["cut_off"] += 1
            waking = before.learn_that_it_was_cut_off(self._world.dice.uniform(0, 10))
            self._cut_off.append(asyncio.create_task(waking))
        else:
            await before.dispatcher.stop()
        await self._start(name)

    async def stop(self) -> None:
        await asyncio.gather(*self._cut_off)
        for process in self.running.values():
            await process.dispatcher.stop()

    def wake(self) -> None:
        for process in self.running.values():
            process.dispatcher.wake.set()

    def withdraw(self, webhook_id: str) -> None:
        """A command reaches the dispatcher that has the slice; the others have nothing of the webhook."""
        for process in self.running.values():
            process.dispatcher.withdraw(webhook_id)

    async def _start(self, name: str) -> None:
        self.running[name] = Process(self._world, name, self._ownership, self._kept_ms)
        await self.running[name].start()

    async def _holders(self) -> dict[int, str]:
        return {number: owned.holder for number, owned in (await self._ownership.holders(KIND)).items()}

    async def _give(self, name: str, slices: Sequence[int]) -> None:
        if name not in self.running:
            raise HolderAway(name)
        await self.running[name].keeper.give(slices)

    async def _take(self, name: str, slices: Sequence[int]) -> None:
        await self.running[name].keeper.take(slices)


async def _rarely(seconds: float) -> None:
    """Days pass in a world: rounds that look at nothing are made rare."""
    await asyncio.sleep(seconds if seconds == 1 else 300)
