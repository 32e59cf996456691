"""One broadcast: what a leg did becomes its report, a word for the metrics, and `sent` only where bytes left."""

import asyncio

import pytest

from actors.clock import ManualClock
from actors.methods.signed_transactions import SignedTransaction
from actors.sends.broadcasts import Broadcasts, RunningRace
from actors.sends.fault_switch import STEPS
from actors.sends.legs import Submission
from actors.sends.statistics import LandingStatistics
from actors.sends.store import LegReport, RacesUnavailable
from actors.telemetry.metrics import Metrics
from tests.sends.making import NOW, a_race, a_ticket
from tests.sends.memory_store import MemoryRaceStore
from tests.sends.world import World


class Leg:
    def __init__(self, done: Submission | Exception, name: str = "jito", takes: bool = True) -> None:
        self.name, self._done, self._takes = name, done, takes

    def takes(self, transaction: SignedTransaction) -> bool:
        return self._takes

    async def send(self, transaction: SignedTransaction) -> Submission:
        if isinstance(self._done, Exception):
            raise self._done
        return self._done

    async def close(self) -> None:
        pass


class Scene:
    def __init__(self, *legs: Leg) -> None:
        self.store, self.metrics, self.steps = MemoryRaceStore(), Metrics(), list[str]()
        self.made = Broadcasts(legs, self.store, ManualClock(), LandingStatistics(0), self.metrics, self.steps.append)
        transaction = World().make().transaction
        self.running = RunningRace(a_race(), transaction)

    async def send(self) -> None:
        await self.store.open(a_race(), a_ticket(), 0, 9)
        await self.made.send(self.running, 1)

    @property
    def reports(self) -> list[LegReport]:
        return self.store.reports.get(a_race().signature, [])


@pytest.mark.parametrize(
    ("done", "result", "sent"),
    [
        (Submission(NOW, NOW + 2), "acknowledged", True),
        (Submission(NOW, None, "timed_out"), "unacknowledged", True),
        (Submission(NOW, None, "-32602: no", refused=True), "refused", False),
        (Submission(None, None, "no connection"), "not_sent", False),
        (ValueError("a bug"), "not_sent", False),
    ],
)
async def test_each_end_of_a_leg_has_its_word(done: Submission | Exception, result: str, sent: bool) -> None:
    """A broadcast that every leg refused was none."""
    scene = Scene(Leg(done))
    await scene.send()
    assert scene.running.race.sent is sent and (await scene.store.race(a_race().signature)) == a_race(sent=sent)
    assert [report.result for report in scene.reports] == [result] and scene.running.reports == scene.reports
    family = next(one for one in scene.metrics.families() if one.name.endswith("send_legs"))
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"leg": "jito", "result": result}, 1)]


async def test_a_leg_that_does_not_take_it_is_not_attempted() -> None:
    scene = Scene(Leg(Submission(NOW, NOW), takes=False))
    await scene.send()
    assert scene.reports == []


async def test_reports_wait_for_the_store() -> None:
    scene = Scene(Leg(Submission(NOW, NOW)))
    right = scene.store.report

    async def away(*_: object) -> None:
        raise RacesUnavailable("away")

    scene.store.report = away  # type: ignore[method-assign]
    await scene.send()
    with pytest.raises(RacesUnavailable):
        await scene.made.store_again()
    scene.store.report = right  # type: ignore[method-assign]
    await asyncio.gather(scene.made.store_again(), scene.made.store_again())
    assert len(scene.reports) == 1 and scene.steps == ["leg:jito", "broadcast", "reported"]
    assert set(scene.steps) <= set(STEPS)
