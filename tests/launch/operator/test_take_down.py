"""take_down.py: which machines Ray has to end on, and how long it is waited for."""

from collections.abc import Awaitable, Callable

from actors.clock import ManualClock
from actors.launch.operator.take_down import await_none, workers_of

_HEAD = {"NodeID": "h", "NodeManagerAddress": "10.0.0.10", "Alive": True, "Resources": {"node:__internal_head__": 1.0}}


def worker(name: str, address: str, alive: bool = True) -> dict[str, object]:
    return {"NodeID": name, "NodeManagerAddress": address, "Alive": alive, "Resources": {"CPU": 2.0}}


def passing(clock: ManualClock) -> Callable[[float], Awaitable[None]]:
    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    return sleep


def test_all_machines_that_are_alive_but_the_head_are_told() -> None:
    nodes = [_HEAD, worker("a", "10.0.0.11"), worker("b", "10.0.0.12"), worker("c", "10.0.0.13", alive=False)]
    assert workers_of(nodes) == {"a": "10.0.0.11", "b": "10.0.0.12"}


async def test_it_waits_until_ray_has_ended_beside_the_head() -> None:
    clock = ManualClock()
    began = clock.monotonic()
    nodes = lambda: workers_of([_HEAD, worker("a", "10.0.0.11", alive=clock.monotonic() < began + 3)])  # noqa: E731
    assert await await_none(nodes, clock, passing(clock))
    assert 3 <= clock.monotonic() - began < 4


async def test_it_does_not_wait_for_ever() -> None:
    clock = ManualClock()
    began = clock.monotonic()
    assert not await await_none(lambda: True, clock, passing(clock))
    assert 60 <= clock.monotonic() - began < 61
