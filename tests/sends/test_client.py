"""A replica finds the racer of each call, and follows a slice that moves."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from actors.addresses import TIP_ACCOUNTS
from actors.clock import ManualClock
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.sends import client as client_module
from actors.sends.api import RaceRefused, RacerUnreachable, SliceMoved, WantedRace
from actors.sends.client import SendsClient
from actors.sends.engine import EngineAnswer, EngineCall
from actors.sends.slices import SLICES
from tests.sends.world import World

REFUSED = RaceRefused("no node")
ENGINE = EngineAnswer(200, b"{}")


class Actor:
    """The actor of a name: it answers what is set, in order, and the last answer for ever."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {"health": [{}], "ask_engine": [ENGINE]}
        self.asked: list[str] = []

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):  # Of Ray's own.
            raise AttributeError(method)
        actor = self

        class Method:
            async def remote(self, *_: Any) -> Any:
                actor.asked.append(method)
                answers = actor.answers[method]
                found = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(found, Exception):
                    raise found
                return found

        return Method()

    def count(self, method: str) -> int:
        return self.asked.count(method)


class Scene:
    def __init__(self) -> None:
        self.actors = {name: Actor() for name in ("r0", "r1")}
        self.owner, self.away = "r0", False
        self.clock = ManualClock()
        self.client = SendsClient(self.holders, self.clock, self.actors.__getitem__)

    async def holders(self) -> Mapping[int, Owned]:
        if self.away:
            raise OwnershipUnavailable("away")
        spread = {number: Owned("r0" if number % 2 else "r1", 1) for number in range(SLICES)}
        return dict.fromkeys(spread, Owned(self.owner, 2)) if self.owner else spread

    async def race(self) -> Any:
        raw = World().make().transaction.raw
        return await self.client.race(WantedRace(raw, b"o" * 16, b"p" * 32, 1, "sendAndConfirm", 50, 2))


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(client_module, "_MOVING_SECONDS", 0.001)
    made = Scene()
    yield made
    await made.client.stop()


async def started(scene: Scene) -> None:
    await scene.client.start()
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_call_that_was_refused_as_moved_goes_to_the_next_holder(scene: Scene) -> None:
    """Also while the slice is given and not taken yet: the holder is asked until the store names another one."""
    await started(scene)
    moved = SliceMoved()

    class Moves(list[Any]):
        def pop(self, index: Any = 0) -> Any:
            if len(self) == 2:
                scene.owner = "r1"
            return super().pop(index)

    scene.actors["r0"].answers["race"] = Moves([moved] * 4)
    scene.actors["r1"].answers["race"] = [REFUSED]
    assert await scene.race() == REFUSED
    assert scene.actors["r0"].count("race") >= 3 and scene.actors["r1"].count("race") == 1


@pytest.mark.parametrize("first", [SliceMoved(in_doubt=True), ActorDiedError()], ids=["moved", "dead"])
async def test_a_refusal_after_doubt_is_no_refusal(scene: Scene, first: Any) -> None:
    """The former racer may have stored the call: its hold must not be released as if nothing had been."""
    await started(scene)
    scene.owner = "r1"
    scene.actors["r0"].answers["race"] = [first]
    scene.actors["r1"].answers["race"] = [REFUSED]
    with pytest.raises(RacerUnreachable, match="no node"):
        await scene.race()
    assert scene.actors["r1"].count("race") == 1


async def test_a_racer_that_died_and_still_holds_the_slice_is_not_asked_twice(scene: Scene) -> None:
    """Its callers hear `unknown`, and its successor finishes the race."""
    await started(scene)
    scene.actors["r0"].answers["race"] = [ActorDiedError()]
    with pytest.raises(RacerUnreachable):
        await scene.race()
    assert scene.actors["r0"].count("race") == 1


async def test_a_slice_that_nobody_takes_ends_the_call_in_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await started(scene)
    scene.actors["r0"].answers["has_sent"] = [SliceMoved()]

    async def pause(seconds: float) -> None:
        scene.clock.advance(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(scene.client, "_pause", pause)
    with pytest.raises(RacerUnreachable, match="in time"):
        await scene.client.has_sent(b"s" * 64)


async def test_a_store_that_is_away_leaves_the_holders_as_they_were(scene: Scene) -> None:
    await started(scene)
    scene.away = True
    scene.actors["r0"].answers["status"] = [None]
    await scene.client._look()
    assert await scene.client.status(b"s" * 64, b"p" * 32) is None


async def test_without_any_racer_nothing_is_known(scene: Scene) -> None:
    scene.away = True
    await started(scene)
    with pytest.raises(RacerUnreachable):
        await scene.client.ask_engine(EngineCall("tipFloor", b"[]", 100))
    assert scene.client.landing is None and scene.client.relay_reachable and scene.client.tip_accounts == TIP_ACCOUNTS


async def test_the_engine_is_asked_by_racers_that_have_a_share_in_turn(scene: Scene) -> None:
    scene.owner = ""
    for name, per_second in (("r0", 0), ("r1", 2.5)):
        relay = {"reachable": name == "r1", "tip_accounts": (name,), "requests_per_second": per_second}
        scene.actors[name].answers["health"] = [{"relay": relay}]
    await started(scene)
    for _ in range(3):
        assert await scene.client.ask_engine(EngineCall("sendBundle", b"[]", 100)) == ENGINE
    assert (scene.actors["r0"].count("ask_engine"), scene.actors["r1"].count("ask_engine")) == (0, 3)
    assert scene.client.relay_reachable and scene.client.tip_accounts == ("r0",)
    for actor in scene.actors.values():
        actor.answers["health"] = [{"relay": {"reachable": False, "requests_per_second": 2.5}}]
    for racer in scene.client._racers.values():
        racer.state = {"relay": {"reachable": False, "requests_per_second": 2.5}}
    assert not scene.client.relay_reachable
    for _ in range(4):
        await scene.client.ask_engine(EngineCall("sendBundle", b"[]", 100))
    assert (scene.actors["r0"].count("ask_engine"), scene.actors["r1"].count("ask_engine")) == (2, 5)


async def test_questions_about_a_bundle_go_where_it_went(scene: Scene) -> None:
    scene.owner = ""
    await started(scene)
    for number in range(8):
        before = {name: actor.count("ask_engine") for name, actor in scene.actors.items()}
        for method in ("sendBundle", "getInflightBundleStatuses", "getBundleStatuses"):
            await scene.client.ask_engine(EngineCall(method, b"[]", 100, bundle_id=f"b{number}"))
        after = {name: actor.count("ask_engine") for name, actor in scene.actors.items()}
        assert sorted(after[name] - before[name] for name in after) == [0, 3]


async def test_racers_that_hold_nothing_any_more_are_forgotten(scene: Scene) -> None:
    scene.owner = ""
    await started(scene)
    assert set(scene.client._racers) == {"r0", "r1"}
    scene.owner = "r1"
    await scene.client._look()
    assert set(scene.client._racers) == {"r1"}
