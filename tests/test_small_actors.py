"""Guards several actors in one process: found and called as those that have processes of their own."""

import asyncio
import pickle
from typing import Any

import pytest

from actors import hosting, small_actors
from actors.small_actors import LocalHandle, NoSuchActor, SharedHandle, SmallActors, Spec


class Counter:
    """An actor with a method that waits and one that does not, as both kinds exist."""

    def __init__(self, start: int) -> None:
        self.count = start
        self.may_go_on = asyncio.Event()

    async def add(self, number: int) -> int:
        self.count += number
        return self.count

    def read(self) -> int:
        return self.count

    async def add_later(self) -> None:
        await self.may_go_on.wait()
        self.count += 1

    async def fail(self) -> None:
        raise ValueError("a bug")


class MemorySpecs:
    """What Ray's head keeps: as bytes, so that the next process shares nothing with the one before."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return sorted(self.kept)

    def all(self) -> list[Spec]:
        return [pickle.loads(value) for _, value in sorted(self.kept.items())]

    def keep(self, spec: Spec) -> None:
        self.kept[spec.name] = pickle.dumps(spec)

    def forget(self, name: str) -> None:
        self.kept.pop(name)


class Process:
    """One process after another, as Ray starts them."""

    def __init__(self) -> None:
        self.specs, self.ends = MemorySpecs(), 0
        self.actors = self.begun()

    def begun(self) -> SmallActors:
        self.actors = SmallActors(self.specs, self._end)
        self.actors.start()
        return self.actors

    def _end(self) -> None:
        self.ends += 1


async def test_actors_of_one_process_are_called_by_their_names() -> None:
    process = Process()
    process.actors.place(Spec("one", "settings", Counter, (1,)))
    process.actors.place(Spec("two", "settings", Counter, (2,)))
    assert await process.actors.call("one", "add", (5,)) == 6
    assert await process.actors.call("two", "read", ()) == 2
    with pytest.raises(NoSuchActor):
        await process.actors.call("three", "read", ())


async def test_a_process_that_starts_again_has_the_same_actors() -> None:
    """Rule: a kill of the process ends all of them, and all of them go on by what is stored, not by what they were."""
    process = Process()
    process.actors.place(Spec("one", "settings", Counter, (1,)))
    await process.actors.call("one", "add", (5,))
    process.begun()
    assert await process.actors.call("one", "read", ()) == 1


async def test_placing_again_changes_nothing_and_other_settings_end_the_process() -> None:
    """Rule: an actor with other settings is replaced. An instance has connections and loops that nothing else ends, so
    the process does; the next one has the actor with its new settings, and all others."""
    process = Process()
    for spec in (Spec("one", "settings", Counter, (1,)), Spec("two", "settings", Counter, (2,))):
        process.actors.place(spec)
    await process.actors.call("one", "add", (5,))
    process.actors.place(Spec("one", "settings", Counter, (1,)))
    assert process.ends == 0 and await process.actors.call("one", "read", ()) == 6
    process.actors.place(Spec("one", "other settings", Counter, (70,)))
    assert process.ends == 1
    process.begun()
    assert [await process.actors.call(name, "read", ()) for name in ("one", "two")] == [70, 2]


async def test_actors_of_one_process_ask_each_other_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Ray: a failure says that the call failed, and work goes on when its caller has gone."""
    process = Process()
    process.actors.place(Spec("one", "settings", Counter, (1,)))
    monkeypatch.setattr(small_actors, "here", process.actors)
    assert isinstance(hosting.find("one"), LocalHandle)
    one = hosting.Reference("one")
    assert await hosting.ask(one, "add", 2) == 3
    with pytest.raises(hosting.ActorUnreachable):
        await hosting.ask(one, "fail")
    with pytest.raises(hosting.ActorUnreachable):
        await hosting.ask(one, "add_later", wait_seconds=0)
    process.actors._instances["one"].may_go_on.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await hosting.ask(one, "read") == 4


async def test_other_processes_call_it_through_the_shared_one() -> None:
    process = Process()
    process.actors.place(Spec("one", "settings", Counter, (1,)))

    class Shared:
        """Ray's handle of the process."""

        class call:
            @staticmethod
            async def remote(name: str, method: str, arguments: tuple[Any, ...]) -> Any:
                return await process.actors.call(name, method, arguments)

    assert await hosting.ask(hosting.Reference("one", SharedHandle(Shared, "one")), "add", 4) == 5
