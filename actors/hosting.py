"""Runs plain classes as Ray actors: names, places and finds them.

Implements: design, "Measured facts" ("Ray places, names, supervises and restarts the shard actors and tells their
addresses"). Of the shared files only this, small_actors.py and actor_moves.py import Ray. Each function imports it when
called: Ray reads its settings from the environment while it is imported, so the environment must be set before. Tests
use the plain classes directly. Actors that have one process together (small_actors.py) are placed and found by the same
functions.
"""

import asyncio
import logging
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

from actors import small_actors
from actors.actor_methods import has_method
from actors.actor_settings import differences, fingerprint, part_of
from actors.config import Config
from actors.release import RELEASE
from actors.seats import NODE_LABEL, next_best, seat
from actors.small_actors import APART, SHARED_ACTOR_NAME, ActorFailed, LocalHandle, RaySpecs, SharedHandle, Spec

logger = logging.getLogger(__name__)

NAMESPACE = "ledger-gateway"
_ANSWER_SECONDS, _CONNECT_SECONDS = 10.0, 5.0
_PLACE_TRIES = 3
_SHARED_SECONDS = 30.0  # Includes the start of its process: a name without an actor has no owner yet.
_NODE_CHARACTERS = 12  # Of a node's id, in the names of actors: 48 random bits.


class ActorUnreachable(Exception):
    """The actor did not answer in time; it may or may not have done the work."""


class ActorEnded(ActorUnreachable):
    """The actor has ended for good, perhaps before the call; another one may have its name."""


class Reference:
    """The actor that has a name now. A handle of Ray's is of one actor: when that is replaced, the handle stays dead.
    handle: of the actor, where it is known already."""

    def __init__(self, name: str, handle: Any = None, find: Callable[[str], Any] | None = None) -> None:
        self._name, self._handle, self._find = name, handle, find

    async def handle(self) -> Any:
        """Raises ActorUnreachable when no actor has the name."""
        if self._handle is None:
            # In a thread, because the call blocks while Ray's own processes do not answer.
            self._handle = await asyncio.to_thread(self._find or find, self._name)
        return self._handle

    def forget(self) -> None:
        """Look the name up again at the next call."""
        self._handle = None


def place(
    plain_class: type,
    name: str,
    fingerprint: str,
    *arguments: Any,
    calls_at_once: int | None = None,
    on_node: str | None = None,
    may_share: bool = False,
) -> Reference:
    """Return a reference to the named actor of this class; start the actor where it does not run.

    calls_at_once: calls above this number wait inside Ray. None: Ray's default, 1,000 for classes with async methods.
    may_share: whether it goes into the process of small actors, where there is one.
    The actor is detached and always restarted: it outlives the process that placed it, and a new process loads its
    state from the stores. One whose `fingerprint` method tells other settings or another version is replaced. It takes
    no CPU in Ray's accounting. Blocks for as long as a new process takes to start. On a cluster it starts where `seat`
    says, and elsewhere once that is lost. on_node: the id of the node where it must be: it never starts on another one
    (`remove_of_lost_nodes`).
    """
    import ray
    from ray.exceptions import RayError

    spec = Spec(name, fingerprint, plain_class, arguments, calls_at_once)
    if may_share and (shared := shared_process()) is not None:
        try:
            if ray.get(shared.place.remote(spec), timeout=_SHARED_SECONDS):
                return Reference(name, SharedHandle(shared, name))
        except RayError:
            return Reference(name)  # It is starting, or restarting with the other settings, which it has stored.
    nodes, is_kept = ray.nodes(), on_node is None
    if is_kept and not runs(name):
        RaySpecs(APART).keep(spec)  # Before it starts, which may take longer than this waits (actor_moves.py).

    for _ in range(_PLACE_TRIES):
        handle = created(spec, nodes, on_node or seat(name, nodes), stays=not is_kept)
        found = told_fingerprint(handle, _ANSWER_SECONDS)
        if found is None:
            return Reference(name, handle)  # The actor is restarting; the next call of `place` checks it again.
        if is_kept:
            RaySpecs(APART).keep(spec)
        if found == fingerprint:
            return Reference(name, handle)
        logger.warning("%s is replaced: it has other settings (%s)", name, differences(found, fingerprint))
        ray.kill(handle, no_restart=True)
    raise ActorUnreachable(f"{name}: another process keeps placing it with other settings")


def runs(name: str) -> bool:
    """Return whether there is an actor with this name, with a process of its own. Needs a connected Ray."""
    import ray

    try:
        ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def created(spec: Spec, nodes: list[dict[str, Any]], node: str | None, stays: bool = False) -> Any:
    """Return Ray's handle of the actor with this name, which starts on that node where none runs. None: on any. stays:
    it starts on no other node once that is lost; else on a worker, and on the head where there is none."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where: dict[str, Any] = {}
    if node and stays:
        where = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
    elif node:
        where = {"label_selector": {NODE_LABEL: node}, "fallback_strategy": next_best(nodes)}
    actor = ray.remote(spec.actor_class).options(
        name=spec.name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=0,
        num_cpus=0,
        max_concurrency=spec.calls_at_once,
        **where,
    )
    return actor.remote(*spec.arguments)


def told_fingerprint(handle: Any, wait_seconds: float) -> str | None:
    """Return the fingerprint that an actor tells. None: it does not answer."""
    from ray import exceptions, get

    try:
        return str(get(handle.fingerprint.remote(), timeout=wait_seconds))
    except exceptions.RayError:
        return None


def shared_process() -> Any:
    """Return Ray's handle of the process of small actors. None: there is none, as on a cluster."""
    import ray

    try:
        return ray.get_actor(SHARED_ACTOR_NAME, namespace=NAMESPACE)
    except ValueError:
        return None


def place_with_settings(
    actor_class: type,
    name: str,
    config: Config,
    uses: Iterable[str],
    *more: Any,
    calls_at_once: int | None = None,
    on_node: str | None = None,
    may_share: bool = False,
) -> Reference:
    """Place an actor with the part of the settings that it uses; it is replaced when one of them changes.

    more: what its constructor takes after its settings and their fingerprint.
    """
    mine = fingerprint(config, uses)
    taken = part_of(config, uses), mine, *more
    return place(actor_class, name, mine, *taken, calls_at_once=calls_at_once, on_node=on_node, may_share=may_share)


def this_node() -> str:
    """Return the id of the Ray node of this process. Raises ActorUnreachable where it is not connected to Ray."""
    return str(connected_ray().get_runtime_context().get_node_id())


def this_actor() -> str:
    """Return the name of the actor that runs in this process; empty where none does, or it has none. Small actors that
    have one process together have its name here."""
    import ray

    return (ray.get_runtime_context().get_actor_name() or "") if ray.is_initialized() else ""


def name_on(prefix: str, node: str) -> str:
    """Return the name of the actor that each node has of a kind."""
    return prefix + node[:_NODE_CHARACTERS]


def remove_of_lost_nodes(prefix: str) -> None:
    """End the actors that `name_on` named for nodes that are gone: such an actor can start nowhere again."""
    import ray

    # The actors before the nodes: an actor of a node that joins meanwhile must not be taken for one of a lost node.
    found = ray.util.list_named_actors(all_namespaces=True)
    kept = {name_on(prefix, str(node["NodeID"])) for node in ray.nodes() if node["Alive"]}
    for each in found:
        name = each["name"]
        if each["namespace"] == NAMESPACE and name.startswith(prefix) and name not in kept:
            remove(name)


def remove(name: str) -> None:
    """End the actor of this name, if there is one."""
    import ray

    RaySpecs(APART).forget(name)
    try:
        ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
    except ValueError:  # It does not exist, or another process was faster; or it shares its process.
        specs = RaySpecs()
        if specs.has(name):
            specs.forget(name)
            restart(SHARED_ACTOR_NAME)  # The other actors restart, as after a crash of the process.


def names(prefix: str = "") -> list[str]:
    """Return the names of the product's actors that begin with this, in order. Raises ActorUnreachable where this
    process is not connected to Ray."""
    found = connected_ray().util.list_named_actors(all_namespaces=True)
    alone = {one["name"] for one in found if one["namespace"] == NAMESPACE}
    shared = RaySpecs().names() if SHARED_ACTOR_NAME in alone else ()
    return sorted(name for name in {*alone, *shared} if name.startswith(prefix))


async def running(prefix: str = "") -> list[str]:
    """Return `names` without holding the loop, because that call waits for Ray's own processes."""
    return await asyncio.to_thread(names, prefix)


def remove_others(prefix: str, kept: Collection[str]) -> None:
    """End the actors whose name has this prefix and is not among `kept`, left by a run with more actors."""
    for name in names(prefix):
        if name not in kept:
            remove(name)


def restart(name: str) -> None:
    """End the process of an actor, also of one that hangs; Ray starts another one under its name."""
    import ray

    ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=False)


def process_ids() -> dict[str, int]:
    """Return the process id of each actor of the product by the actor's name. One that does not answer is left out."""
    found = names()
    pids = asyncio.run(ask_each(map(Reference, found), "process_id", _ANSWER_SECONDS))
    return {name: pid for name, pid in zip(found, pids, strict=True) if pid is not None}


async def ask(handle: Any, method: str, *arguments: Any, wait_seconds: float = _ANSWER_SECONDS) -> Any:
    """Make one ordinary actor call. Raises ActorUnreachable when the actor is down, restarting or too slow. handle: a
    Reference, or a handle of Ray's."""
    from ray.exceptions import ActorDiedError, RayError

    reference = handle if isinstance(handle, Reference) else None
    try:
        async with asyncio.timeout(wait_seconds):
            found = handle if reference is None else await reference.handle()
            if not await has_method(found, method):
                raise ActorUnreachable(f"{method}: an actor of another release, which has no such method")
            return await getattr(found, method).remote(*arguments)
    except (RayError, TimeoutError, ActorFailed) as error:
        if (has_ended := isinstance(error, ActorDiedError)) and reference is not None:
            reference.forget()
        raise (ActorEnded if has_ended else ActorUnreachable)(f"{method}: {type(error).__name__}") from error


async def ask_each(handles: Iterable[Any], method: str, wait_seconds: float) -> list[Any]:
    """Ask all of them at once. None: the actor is unreachable."""

    async def asked(handle: Any) -> Any:
        try:
            return await ask(handle, method, wait_seconds=wait_seconds)
        except ActorUnreachable:
            return None

    return list(await asyncio.gather(*map(asked, handles)))


class StartingActor(ABC):
    """An actor that starts with its first call. Each of its methods begins with `await self._ready()`.

    An actor that cannot start ends its process, and Ray starts another one.
    """

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self._starting: asyncio.Task[None] | None = None

    async def fingerprint(self) -> str:
        return self._fingerprint

    async def process_id(self) -> int:
        return os.getpid()

    async def actor_state(self) -> dict[str, Any]:
        """Return where the actor runs, and its health."""
        health = getattr(self, "health", None)
        return where_this_runs() | (await health() if health else {})

    async def _ready(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        try:
            await self._open()
        except Exception:
            logger.exception("%s cannot start", type(self).__name__)
            os._exit(1)

    @abstractmethod
    async def _open(self) -> None:
        """Open connections and start loops."""


def connect(address: str) -> None:
    """Join a running cluster as a client of its actors. Raises ConnectionError when none is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:  # Not "auto". Ray itself would go on looking for minutes where a cluster has ended.
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:  # ValueError: the port is no number.
            raise ConnectionError(str(error)) from error
    import ray

    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)


def disconnect() -> None:
    import ray

    ray.shutdown()


def this_address() -> str:
    """Return the address of this machine that other machines of the cluster can reach."""
    import ray

    return str(ray.util.get_node_ip_address())


def where_this_runs() -> dict[str, Any]:
    """release: of the code of this process, which may be another one than the fingerprint of its actor names."""
    return {"machine": this_address(), "process": os.getpid(), "release": RELEASE}


def connected_ray(about: str = "") -> Any:
    """Return Ray's module. Raises ActorUnreachable where this process has not joined a cluster: Ray would look for one,
    or start it. about: begins the text of that."""
    import ray

    if not ray.is_initialized():
        raise ActorUnreachable(f"{about}this process is not connected to a cluster")
    return ray


def find(name: str) -> Any:
    """Return the handle of a named actor. Raises ActorUnreachable when there is none."""
    if small_actors.here is not None and small_actors.here.has(name):
        return LocalHandle(small_actors.here, name)
    try:
        return connected_ray(f"{name}: ").get_actor(name, namespace=NAMESPACE)
    except ValueError as error:
        shared = shared_process()
        if shared is None or not RaySpecs().has(name):
            raise ActorUnreachable(f"{name}: no such actor") from error
        return SharedHandle(shared, name)
