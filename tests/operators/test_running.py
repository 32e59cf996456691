"""A look at the running product: shared by all who look at the same moment, and never without a bound."""

import asyncio
from typing import Any

import pytest

from actors import hosting
from actors.clock import ManualClock
from actors.errors import Refusal
from actors.operators.ports import ProductLook
from actors.operators.running import LOOK_SECONDS, RunningProduct
from actors.telemetry.figures import ProcessFigures

FIGURES = [ProcessFigures("10.0.0.1", "gateway-1", 1.0, {"health_status": 0.0}, {})]


class Cluster:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.under_way = self.most = 0
        self.actors = ["account-shard-0", "metrics-page-1", "metrics-page-2", *(f"racer-{at}" for at in range(20))]
        monkeypatch.setattr(hosting, "running", self.running)
        monkeypatch.setattr(hosting, "ask_each", self.ask_each)

    async def running(self) -> list[str]:
        return self.actors

    async def ask_each(self, handles: list[Any], method: str, wait_seconds: float) -> list[Any]:
        (handle,) = handles
        self.asked.append(f"{method} {handle._name}")
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if handle._name == "metrics-page-2":
            return [None]
        return [FIGURES if method == "figures" else {"epoch": 1}]


async def test_looks_of_one_moment_are_one_and_a_later_one_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many operators look, each actor is asked once in two seconds, a few of them at a time."""
    cluster, clock = Cluster(monkeypatch), ManualClock()
    running = RunningProduct(clock, has_figures=True)
    looks = await asyncio.gather(*(running.look() for _ in range(10)))
    assert len(cluster.asked) == 23 + 2 and cluster.most <= 6
    look = looks[0]
    assert isinstance(look, ProductLook) and look.figures == FIGURES
    assert look.actors["metrics-page-2"] == {} and look.actors["racer-3"] == {"epoch": 1}
    clock.advance(int(LOOK_SECONDS))
    await running.look()
    assert len(cluster.asked) == 50


async def test_without_figures_no_page_is_asked_and_without_a_cluster_nobody_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    look = await RunningProduct(ManualClock(), has_figures=False).look()
    assert isinstance(look, ProductLook) and look.figures is None and not any("figures" in one for one in cluster.asked)

    async def gone() -> list[str]:
        raise hosting.ActorUnreachable("no cluster")

    monkeypatch.setattr(hosting, "running", gone)
    assert isinstance(await RunningProduct(ManualClock(), has_figures=True).look(), Refusal)
