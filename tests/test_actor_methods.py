"""Guards calls of actors of another release: a method that the actor lacks is not called."""

import ast
from typing import Any

import pytest

from actors import hosting
from actors.actor_methods import OF_EVERY_RELEASE
from bench.product import ROOT

_OTHERS = ("hosting", "telemetry/metrics_page")  # Files with actors, beside those of the name host.py.


class Owner:
    """An owner of accounts of release 0.1.0."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def health(self) -> str:
        return "well"


class OwnerNow(Owner):
    async def give(self, shards: list[int]) -> list[int]:
        return shards


class Handle:
    """Ray's handle in a process of this release: it has every method of this release's class. A call by a method that
    the actor lacks ends the actor's process."""

    def __init__(self, actor: Owner) -> None:
        self.actor, self.calls, self.has_ended = actor, list[str](), False

    def __getattr__(self, name: str) -> Any:
        if name == "__ray_call__":
            return self._Method(self, lambda function, *arguments: function(self.actor, *arguments))
        if not hasattr(OwnerNow, name):
            raise AttributeError(name)
        return self._Method(self, lambda *arguments: self._called(name, *arguments))

    def _called(self, name: str, *arguments: Any) -> Any:
        self.has_ended = self.has_ended or not hasattr(self.actor, name)
        return getattr(self.actor, name)(*arguments)

    class _Method:
        def __init__(self, handle: "Handle", call: Any) -> None:
            self._handle, self._call = handle, call

        async def remote(self, *arguments: Any) -> Any:
            self._handle.calls.append(str(arguments))
            found = self._call(*arguments)
            return await found if hasattr(found, "__await__") else found


async def test_an_actor_of_a_release_before_is_not_called_by_what_it_lacks() -> None:
    """Rule: the way back to the release before. Its owners of accounts were ended again and again by replicas of this
    one, which asked them for the table of owners."""
    owner = Handle(Owner())
    with pytest.raises(hosting.ActorUnreachable, match="give: an actor of another release"):
        await hosting.ask(owner, "give", [1])
    assert not owner.has_ended
    assert await hosting.ask(owner, "health") == "well"


async def test_an_actor_of_this_release_is_called() -> None:
    owner = Handle(OwnerNow())
    assert await hosting.ask(owner, "give", [1]) == [1]
    with pytest.raises(hosting.ActorUnreachable, match="sing"):
        await hosting.ask(owner, "sing")


async def test_what_every_release_has_is_called_at_once() -> None:
    """Calls of clients wait for these: one way there and back, not two."""
    owner = Handle(Owner())
    await hosting.ask(owner, "health")
    assert owner.calls == ["()"]


def test_methods_of_every_release_are_methods_of_this_one() -> None:
    """A method that this release has not either would be called in vain."""
    hosts = [*(ROOT / "actors").rglob("host.py"), *(ROOT / f"actors/{name}.py" for name in _OTHERS)]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in hosts]
    actors = [
        one for tree in trees for one in tree.body if isinstance(one, ast.ClassDef) and one.name.endswith("Actor")
    ]
    methods = {
        one.name for actor in actors for one in actor.body if isinstance(one, ast.AsyncFunctionDef | ast.FunctionDef)
    }
    assert methods >= OF_EVERY_RELEASE
