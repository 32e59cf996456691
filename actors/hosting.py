"""Plain classes as Ray actors: naming, placing, finding, and which actor owns which virtual shard.

Implements: design, section 2 ("Ray places, names, supervises and restarts the shard actors and tells their
addresses") and section 6 (virtual shards). The only shared module that imports Ray, and only when it is used:
Ray reads its settings from the environment while it is imported, so that must come first. In tests the same plain
class is used as it is; nothing here is needed for that.
"""

import asyncio
import functools
import gc
from collections.abc import Collection, Sequence
from typing import Any

from actors.units import VIRTUAL_SHARDS, VirtualShard, routing_bytes, virtual_shard

NAMESPACE = "ledger-gateway"
_ANSWER_SECONDS = 10.0
_PLACE_TRIES = 3
_REMEMBERED_OWNERS = 16_384  # Of the accounts that call now; each call needs its own twice. About 3 MB.


class ActorUnreachable(Exception):
    """The actor did not answer in time; whether it did the work is not known."""


def owner_index(routing: bytes, actors: int) -> int:
    """Which of `actors` owns the account with these routing bytes."""
    return virtual_shard(routing) % actors


@functools.lru_cache(maxsize=_REMEMBERED_OWNERS)
def owner_index_of(pubkey: bytes, actors: int) -> int:
    return owner_index(routing_bytes(pubkey), actors)


def owned_shards(index: int, actors: int) -> Sequence[VirtualShard]:
    """The virtual shards of the actor with this index: every n-th, so that any number of actors shares evenly."""
    assert 0 <= index < actors, (index, actors)
    return tuple(VirtualShard(shard) for shard in range(index, VIRTUAL_SHARDS, actors))


def place(plain_class: type, name: str, fingerprint: str, *arguments: Any) -> Any:
    """The named actor of this class: found, or made where there is none.

    Detached and restarted for ever: it outlives the process that placed it, and its state is in the stores, so a
    fresh process simply loads it again. One that was made with other settings or by another version, as its
    `fingerprint` method says, is replaced. Takes no CPU of its own in Ray's accounting: it waits more than it works.
    Blocks for as long as a new process takes to start.
    """
    import ray
    from ray.exceptions import RayError

    for _ in range(_PLACE_TRIES):
        handle = (
            ray.remote(plain_class)
            .options(
                name=name,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                max_task_retries=0,
                num_cpus=0,
            )
            .remote(*arguments)
        )
        try:
            if ray.get(handle.fingerprint.remote(), timeout=_ANSWER_SECONDS) == fingerprint:
                return handle
        except RayError:
            return handle  # It is restarting; whoever places it next asks again.
        ray.kill(handle, no_restart=True)
    raise ActorUnreachable(f"{name}: somebody else keeps placing it with other settings")


def remove_others(prefix: str, names: Collection[str]) -> None:
    """End the named actors that begin with this prefix and are not among these: of a run with more of them."""
    import ray

    for found in ray.util.list_named_actors(all_namespaces=True):
        name = found["name"]
        if found["namespace"] == NAMESPACE and name.startswith(prefix) and name not in names:
            ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)


async def ask(handle: Any, method: str, *arguments: Any, wait_seconds: float = _ANSWER_SECONDS) -> Any:
    """One ordinary actor call. Raises ActorUnreachable when the actor is down, restarting or too slow."""
    from ray.exceptions import RayError

    try:
        async with asyncio.timeout(wait_seconds):
            return await getattr(handle, method).remote(*arguments)
    except (RayError, TimeoutError) as error:
        raise ActorUnreachable(f"{method}: {type(error).__name__}") from error


def tune_gc() -> None:
    """Once a process has what it keeps: collect cycles rarely, and never again look through what is there for good.

    Calls make few cycles, and by default the collector runs after every few of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def connect(address: str) -> None:
    """Join a running cluster as a client of its actors."""
    import ray

    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)


def disconnect() -> None:
    import ray

    ray.shutdown()


def this_address() -> str:
    """Address of this machine that other machines of the cluster can reach."""
    import ray

    return str(ray.util.get_node_ip_address())


def find(name: str) -> Any:
    """The handle of a named actor. Raises ActorUnreachable when there is none."""
    import ray

    if not ray.is_initialized():  # Ray would start a cluster of its own to look there.
        raise ActorUnreachable(f"{name}: this process has joined no cluster")
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError as error:
        raise ActorUnreachable(f"{name}: no such actor") from error
