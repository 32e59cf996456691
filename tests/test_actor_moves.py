"""An actor that is started on another machine is never ended for nothing, and never forgotten."""

from collections.abc import Callable
from typing import Any

import pytest

from actors import actor_moves, hosting
from actors.release import RELEASE
from actors.small_actors import Spec

SPEC = Spec("send-racer", "ours", object, ())


class Head:
    """Ray's head. running: the fingerprint of each actor by its name; None: it does not answer. away: so many further
    questions fail, as Ray's do while the head is away. kept: names of the actors that should run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: dict[str, str | None] = {"send-racer": "ours"}
        self.kept: dict[str, Spec | None] = {"send-racer": SPEC}
        self.away_for, self.placed = 0, list[str | None]()
        self.on_kill: Callable[[], object] = lambda: None
        self.on_create: Callable[[], object] = lambda: None
        monkeypatch.setattr(actor_moves, "connected_ray", lambda: self)
        monkeypatch.setattr(actor_moves, "shared_process", lambda: None)
        monkeypatch.setattr(actor_moves, "names", lambda: list(self.running))  # Of the cluster.
        monkeypatch.setattr(actor_moves, "RaySpecs", lambda _: self)
        monkeypatch.setattr(actor_moves, "told_fingerprint", lambda handle, _: self.running.get(handle))
        monkeypatch.setattr(actor_moves, "created", self._created)
        monkeypatch.setattr(actor_moves, "runs", lambda name: name in self.running)

    def _created(self, spec: Spec, _: Any, node: str | None) -> str:
        self.on_create()
        self.placed.append(node)
        self.running[spec.name] = spec.fingerprint
        return spec.name

    def _answers(self) -> None:
        if self.away_for:
            self.away_for -= 1
            raise RuntimeError("the head is away")

    def get_actor(self, name: str, namespace: str) -> str:
        self._answers()
        if name not in self.running:
            raise ValueError(name)
        return name

    def kill(self, name: str, no_restart: bool) -> None:
        assert no_restart
        del self.running[name]
        self.on_kill()

    def nodes(self) -> list[dict[str, Any]]:
        self._answers()
        return [{"NodeID": "one", "Alive": True}, {"NodeID": "two", "Alive": False}]

    def names(self) -> list[str]:  # Of the store.
        return list(self.kept)

    def has(self, name: str) -> bool:
        return name in self.kept

    def get(self, name: str) -> Spec | None:
        return self.kept[name]

    def keep(self, spec: Spec) -> None:
        self.kept[spec.name] = spec


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Head:
    return Head(monkeypatch)


def test_an_actor_is_ended_and_starts_where_it_shall(head: Head) -> None:
    actor_moves.start_on(SPEC, "two")
    assert head.running == {"send-racer": "ours"} and head.placed == ["two"]


@pytest.mark.parametrize("told", ["of a deployment meanwhile", None])
def test_one_with_other_settings_and_one_that_is_silent_are_left_alone(head: Head, told: str | None) -> None:
    """A deployment has replaced it since; the silent one may be on its way to another machine by Ray's own hand."""
    head.running["send-racer"] = told
    with pytest.raises(hosting.ActorUnreachable):
        actor_moves.start_on(SPEC, "two")
    assert head.placed == [] and head.running == {"send-racer": told}


def test_one_that_cannot_work_at_its_new_place_goes_back_though_it_is_silent(head: Head) -> None:
    head.running["send-racer"] = None
    actor_moves.start_on(SPEC, "one", even_silent=True)
    assert head.running == {"send-racer": "ours"} and head.placed == ["one"]


def test_a_head_that_goes_away_after_the_kill_is_asked_again(head: Head) -> None:
    """Nobody else would start the actor: it was ended for good."""
    head.on_kill = lambda: setattr(head, "away_for", 2)
    actor_moves.start_on(SPEC, "two")
    assert head.running == {"send-racer": "ours"}


def test_a_head_that_stays_away_leaves_an_actor_that_should_run_and_does_not(head: Head) -> None:
    """So the next look of any replica starts it (launch/assembly/reseating.py)."""
    head.on_kill = lambda: setattr(head, "away_for", 99)
    with pytest.raises(hosting.ActorUnreachable):
        actor_moves.start_on(SPEC, "two")
    assert actor_moves.kept_and_running() == ({"send-racer"}, set())
    head.away_for = 0
    actor_moves.start_missing(SPEC)
    assert actor_moves.kept_and_running() == ({"send-racer"}, {"send-racer"})


def test_one_that_runs_again_by_now_is_not_started_a_second_time(head: Head) -> None:
    """The process that was to start the actor was slow. One that runs is not ended for nothing, and a removed one does
    not come back."""
    actor_moves.start_missing(SPEC)
    head.running.clear()
    head.kept.clear()
    actor_moves.start_missing(SPEC)
    assert head.placed == [] and head.running == {}


def test_one_that_is_removed_meanwhile_does_not_come_back(head: Head) -> None:
    """An operator wants fewer: `remove` forgets it first, and ends it then."""
    head.on_kill = head.kept.clear
    actor_moves.start_on(SPEC, "two")
    assert head.running == {} and head.placed == []


def test_one_that_is_removed_while_it_starts_is_ended(head: Head) -> None:
    """The command that removes it finds none to end in that moment."""
    head.on_create = head.kept.clear
    actor_moves.start_on(SPEC, "two")
    assert head.running == {}


def test_the_head_that_is_away_is_one_kind_of_failure(head: Head) -> None:
    """Ray raises many, and a look that is repeated is no crash."""
    head.away_for = 1
    with pytest.raises(hosting.ActorUnreachable, match="the head is away"):
        actor_moves.machines()
    assert list(actor_moves.machines()) == ["one"]


@pytest.mark.parametrize("release", [None, RELEASE, "0.0.9"])
async def test_an_actor_with_the_code_of_another_release_does_not_work(
    monkeypatch: pytest.MonkeyPatch, release: str | None
) -> None:
    """On a machine that has other code it would run under the fingerprint of this release until the next one. None: an
    actor of 0.1.0 does not tell."""

    async def asked(*_: Any, **__: Any) -> dict[str, Any]:
        return {"machine": "10.0.0.1"} | ({} if release is None else {"release": release})

    monkeypatch.setattr(actor_moves, "ask", asked)
    if release != "0.0.9":
        await actor_moves.works("send-racer", 1.0)
        return
    with pytest.raises(hosting.ActorUnreachable, match=r"code of release 0\.0\.9; put release"):
        await actor_moves.works("send-racer", 1.0)
