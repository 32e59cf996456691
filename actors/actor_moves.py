"""Starts actors on another machine of a cluster, with everything that they were placed with.

Implements: launch/README.md, "A machine that returns". How each actor was placed is kept by Ray's head (hosting.place),
beside what Ray itself keeps of it. Whoever ends an actor for good forgets that first (hosting.remove), so one that is
kept and does not run was lost on its way to another machine. Each function blocks, needs a connected Ray, and raises
ActorUnreachable while Ray's head does not answer. Not here: which actor moves (seats.py), and when
(launch/assembly/reseating.py).
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from actors.hosting import (
    NAMESPACE,
    ActorUnreachable,
    Reference,
    ask,
    connected_ray,
    created,
    names,
    runs,
    shared_process,
    told_fingerprint,
)
from actors.release import RELEASE
from actors.small_actors import APART, RaySpecs, Spec

_ANSWER_SECONDS = 10.0
_START_SECONDS = 120.0  # Of a new process, on a machine where much else starts.
_TRIES = 3


def machines() -> dict[str, dict[str, Any]]:
    """Return Ray's description of the nodes that are alive, by their ids. Empty for a local run, which has one."""
    with _while_the_head_answers():
        if shared_process() is not None:
            return {}
        return {str(node["NodeID"]): node for node in connected_ray().nodes() if node["Alive"]}


def kept_and_running() -> tuple[set[str], set[str]]:
    """Return the names of the actors that may move: those that should run, and of them those that do."""
    with _while_the_head_answers():
        kept = set(RaySpecs(APART).names())
        return kept, kept & set(names())


def kept(name: str) -> Spec | None:
    """Return how an actor was placed. None: it was removed, or has code that this process lacks."""
    with _while_the_head_answers():
        return RaySpecs(APART).get(name)


def keep(spec: Spec) -> None:
    with _while_the_head_answers():
        RaySpecs(APART).keep(spec)


def start_on(spec: Spec, node: str | None, even_silent: bool = False) -> None:
    """Start an actor on this node, and end the one with its name that runs elsewhere. None: on any node.

    Waits for a new process. Nothing is ended where the actor has other settings than these, or does not answer;
    even_silent: one that does not answer is.
    """
    with _while_the_head_answers():
        ray = connected_ray()
        with contextlib.suppress(ValueError):  # No actor has the name.
            running = ray.get_actor(spec.name, namespace=NAMESPACE)
            told = told_fingerprint(running, _ANSWER_SECONDS)
            if told != spec.fingerprint and not (told is None and even_silent):
                raise ActorUnreachable(f"{spec.name} does not answer, or was replaced by a deployment meanwhile")
            ray.kill(running, no_restart=True)
    for _ in range(_TRIES):  # At first its name may belong to the one that is ending.
        with contextlib.suppress(ActorUnreachable), _while_the_head_answers():
            handle = _created_if_kept(spec, node)
            if handle is None or told_fingerprint(handle, _START_SECONDS) == spec.fingerprint:
                return
    raise ActorUnreachable(f"{spec.name} does not start")


async def works(name: str, wait_seconds: float) -> None:
    """Return once an actor works where it was started: it tells its state when it has opened its connections. Raises
    ActorUnreachable where it does not, or has the code of another release, under whose fingerprint it would stay."""
    state = await ask(Reference(name), "actor_state", wait_seconds=wait_seconds)
    if (release := state.get("release", RELEASE)) != RELEASE:
        raise ActorUnreachable(f"{name}: its machine has the code of release {release}; put release {RELEASE} there")


def start_missing(spec: Spec) -> None:
    """Start an actor that does not run, on any node. One that runs by now stays where it is: whoever was to start it
    was slow. Any number of processes may do so at once, because Ray has one actor of a name."""
    with _while_the_head_answers():
        if not runs(spec.name):
            _created_if_kept(spec, None)


def _created_if_kept(spec: Spec, node: str | None) -> Any:
    """Return Ray's handle of the actor, which starts where it does not run. None: it was removed: fewer are wanted."""
    if not RaySpecs(APART).has(spec.name):
        return None
    ray = connected_ray()
    handle = created(spec, ray.nodes(), node)
    if RaySpecs(APART).has(spec.name):
        return handle
    ray.kill(handle, no_restart=True)  # The command that removed it ran before it was there to be ended.
    return None


@contextlib.contextmanager
def _while_the_head_answers() -> Iterator[None]:
    try:
        yield
    except ActorUnreachable:
        raise
    except Exception as error:  # Ray has many for a head that is away.
        raise ActorUnreachable(f"Ray: {type(error).__name__}: {error}") from error
