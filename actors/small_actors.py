"""Several small actors in one process: keeps their list, calls them, and restores them after a restart of the process.

Implements: decisions, "Small actors of a local run". Each Ray actor is a process of its own, which takes memory and
wakes up a hundred times a second when it has nothing to do. So a local run has one Ray actor, named `small-actors`,
that holds instances of the classes which a cluster runs apart. A look-up by name returns a handle like Ray's.

What belongs to the process is kept by Ray's head, beside the actors that Ray itself keeps there, and in its memory
alone. So a process that Ray starts again has the same actors, and each goes on as after an end of its own. An instance
has no end but its process's: where one is replaced or removed, the process ends, and starts without it.
Not here: which actors are placed in it (callers of hosting.py), the Ray actor itself (telemetry/shared_process.py).
"""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

SHARED_ACTOR_NAME = "small-actors"
_TOGETHER = b"ledger-gateway small actor "
APART = b"ledger-gateway actor "  # Of actors with a process of their own, so that they can be started elsewhere.


class Spec(NamedTuple):
    """Description of an actor. fingerprint: of its settings, from actor_settings.py. calls_at_once: as of
    hosting.place; of an actor with a process of its own."""

    name: str
    fingerprint: str
    actor_class: Callable[..., Any]
    arguments: tuple[Any, ...]
    calls_at_once: int | None = None


class NoSuchActor(Exception):
    """The process has no actor of this name."""


class ActorFailed(Exception):
    """A method of an actor in this process raised; as with a Ray error, it may have been carried out."""


class Specs(Protocol):
    """The list of the process's actors, which outlives the process."""

    def names(self) -> list[str]: ...

    def all(self) -> list[Spec]: ...

    def keep(self, spec: Spec) -> None: ...

    def forget(self, name: str) -> None: ...


class RaySpecs:
    """Kept by Ray's head. Needs a connected Ray. Blocks. prefix: of the keys."""

    def __init__(self, prefix: bytes = _TOGETHER) -> None:
        from ray.experimental import internal_kv

        self._store, self._prefix = internal_kv, prefix

    def names(self) -> list[str]:
        keys: list[bytes] = self._store._internal_kv_list(self._prefix)
        return sorted(key.removeprefix(self._prefix).decode() for key in keys)

    def has(self, name: str) -> bool:
        return bool(self._store._internal_kv_exists(self._prefix + name.encode()))

    def all(self) -> list[Spec]:
        from ray import cloudpickle

        kept = (self._store._internal_kv_get(self._prefix + name.encode()) for name in self.names())
        return [Spec(*cloudpickle.loads(value)) for value in kept if value is not None]

    def get(self, name: str) -> Spec | None:
        """Return the actor of this name. None: none is kept, or it is of another release, whose code is not here."""
        from ray import cloudpickle

        value = self._store._internal_kv_get(self._prefix + name.encode())
        try:
            return None if value is None else Spec(*cloudpickle.loads(value))
        except Exception:  # noqa: BLE001 - whatever a class that is not there raises.
            return None

    def keep(self, spec: Spec) -> None:
        from ray import cloudpickle

        self._store._internal_kv_put(self._prefix + spec.name.encode(), cloudpickle.dumps(tuple(spec)))

    def forget(self, name: str) -> None:
        self._store._internal_kv_del(self._prefix + name.encode())


class SmallActors:
    """The actors of this process. end_process: ends it, so that it starts again with what is kept by then."""

    def __init__(self, specs: Specs, end_process: Callable[[], None]) -> None:
        self._specs, self._end_process = specs, end_process
        self._fingerprints: dict[str, str] = {}
        self._instances: dict[str, Any] = {}

    def start(self) -> None:
        """Make all listed actors. Each opens its connections with its first call, as actors do."""
        for spec in self._specs.all():
            self._make(spec)

    def place(self, spec: Spec) -> None:
        """Add this actor. One of its name with other settings is replaced by restarting the process."""
        found = self._fingerprints.get(spec.name)
        if found == spec.fingerprint:
            return
        self._specs.keep(spec)
        if found is None:
            self._make(spec)
        else:
            self._end_process()

    def has(self, name: str) -> bool:
        return name in self._instances

    async def call(self, name: str, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of one of them. Raises NoSuchActor, and what the method raises."""
        if name not in self._instances:
            raise NoSuchActor(name)
        answer = getattr(self._instances[name], method)(*arguments)
        return await answer if inspect.isawaitable(answer) else answer

    def _make(self, spec: Spec) -> None:
        self._instances[spec.name] = spec.actor_class(*spec.arguments)
        self._fingerprints[spec.name] = spec.fingerprint


here: SmallActors | None = None  # Of this process, where it is the shared one.


class _Method(NamedTuple):
    """A method of a handle, called as Ray's are."""

    remote: Callable[..., Any]


def _refuse_special(name: str) -> None:
    """Raise AttributeError for a name of Python's or of Ray's own, which no actor here has."""
    if name.startswith("__"):
        raise AttributeError(name)


class SharedHandle:
    """Calls one actor of the shared process, from another process. shared: Ray's handle of that process."""

    def __init__(self, shared: Any, name: str) -> None:
        self._shared, self._name = shared, name

    def __getattr__(self, method: str) -> _Method:
        _refuse_special(method)
        return _Method(lambda *arguments: self._shared.call.remote(self._name, method, arguments))


class LocalHandle:
    """Calls one actor of this process, from another one of it. As with Ray, the work goes on where the caller does not
    wait for it any more, and an exception tells that the call failed."""

    def __init__(self, actors: SmallActors, name: str) -> None:
        self._actors, self._name = actors, name

    def __getattr__(self, method: str) -> _Method:
        _refuse_special(method)
        return _Method(partial(self._call, method))

    async def _call(self, method: str, *arguments: Any) -> Any:
        task = asyncio.ensure_future(self._actors.call(self._name, method, arguments))
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        try:
            return await asyncio.shield(task)
        except Exception as error:
            raise ActorFailed(f"{self._name}.{method}: {type(error).__name__}: {error}") from error
