"""Guards the Ray actor that several small actors have together: one log, one watch, and figures of each."""

import asyncio
from typing import Any

import pytest

from actors import small_actors
from actors.config import Config
from actors.small_actors import NoSuchActor, Spec
from actors.telemetry import logs, metrics_page, shared_process
from tests.test_small_actors import Counter, MemorySpecs


class Reporting(metrics_page.ReportingActor):
    async def _assemble(self) -> None: ...

    async def health(self) -> None:
        await self._ready()


async def test_an_actor_that_has_much_to_do_gets_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_process, "RaySpecs", MemorySpecs)
    monkeypatch.setattr(small_actors, "here", None)
    monkeypatch.setattr(shared_process.SharedProcessActor, "_open", shared_process.SharedProcessActor._assemble)
    shared = shared_process.SharedProcessActor(Config(), "fingerprint", ("busy-",))
    assert await shared.place(Spec("quiet-0", "settings", Counter, (1,)))
    assert not await shared.place(Spec("busy-0", "settings", Counter, (1,)))
    assert await shared.call("quiet-0", "read", ()) == 1
    with pytest.raises(NoSuchActor):
        await shared.call("busy-0", "read", ())


async def test_the_process_has_one_log_and_one_watch_of_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its actors report their own figures by their own names, as they do apart; the loop is of all of them."""
    written: list[str] = []
    watched: list[str] = []
    reports: dict[str, asyncio.Event] = {"small-actors": asyncio.Event(), "one": asyncio.Event()}

    class Watch:
        def __init__(self, metrics: Any, _: float) -> None:
            self._metrics = metrics

        def start(self) -> None:
            watched.extend(name for name, of in actors.items() if of._metrics is self._metrics)

        def stop(self) -> None: ...

    async def report(_: Config, process: str, __: Any) -> None:
        reports[process].set()

    monkeypatch.setattr(metrics_page, "LoopWatch", Watch)
    monkeypatch.setattr(metrics_page, "_report", report)
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: None)
    monkeypatch.setattr(logs, "set_up", lambda _, name, __: written.append(name))
    monkeypatch.setattr(shared_process, "RaySpecs", MemorySpecs)
    monkeypatch.setattr(small_actors, "here", None)
    shared = shared_process.SharedProcessActor(Config(), "fingerprint")
    actors: dict[str, metrics_page.ReportingActor] = {"small-actors": shared}
    await shared.place(Spec("one", "settings", Reporting, (Config(), "settings", "one")))
    actors["one"] = shared._actors._instances["one"]
    await shared.call("one", "health", ())
    async with asyncio.timeout(5):
        await asyncio.gather(*(event.wait() for event in reports.values()))
    assert (written, watched) == (["small-actors"], ["small-actors"])
    crashes = [of._metrics.registry.get_sample_value("ledger_gateway_background_crashes") for of in actors.values()]
    assert crashes[0] is not None and crashes[1] is None
