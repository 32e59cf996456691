"""Has the nodes of one process follow an operator's changes, and carries out commands about them.

Implements: upstream/README.md, "Nodes that change while the service runs". Wiring only: every rule is in upstream/.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors import hosting, small_actors
from actors.actor_settings import fingerprint
from actors.clock import SystemClock
from actors.config import Config
from actors.storage.connections import checked_postgres
from actors.upstream.api import Nodes
from actors.upstream.following import NodesFollower
from actors.upstream.node_operator import NodeOperator
from actors.upstream.store import PostgresNodeChanges

_CONNECTIONS = 1  # Of each process that has nodes: a question every two seconds.


@dataclass(frozen=True, slots=True)
class Following:
    """operator: carries out commands about the nodes. close: ends the following, before the nodes are closed. limit:
    tells of more that the process cannot take over."""

    operator: NodeOperator
    close: Callable[[], Awaitable[None]]
    limit: Callable[[tuple[str, ...]], None]


_of_this_process: dict[str, "asyncio.Task[tuple[Nodes, Following]]"] = {}  # Nodes of small actors, by their settings.


async def follow_changes(config: Config, nodes: Nodes, process: str, limits: tuple[str, ...] = ()) -> Following:
    """Take over what was changed so far, probe the nodes once, and go on with both.

    process: its name in reports. limits: what it cannot take over. A database that is away is asked again: until it
    answers, the nodes are those of the settings.
    """
    storage = config.storage
    assert storage.postgres_url is not None and storage.cluster_secret is not None
    url = storage.postgres_url.get_secret_value()
    pool = await checked_postgres(url, connections_max=_CONNECTIONS, application=f"{process} nodes")
    store = PostgresNodeChanges(pool, storage.cluster_secret.get_secret_value().encode())
    follower = NodesFollower(config.upstream.named_nodes, nodes, store, process, limits)
    await follower.begin()
    await nodes.probe()
    nodes.start()
    follower.start()

    async def close() -> None:
        await follower.stop()
        await pool.close()

    return Following(NodeOperator(config.upstream, nodes, store), close, follower.limit)


async def open_followed(config: Config, limits: tuple[str, ...] = ()) -> tuple[Nodes, Following]:
    """Open the nodes of an actor, which live as long as its process, without an answer cache: actors outside the
    replicas only ask for what is new. Small actors that share a process have the nodes together, too: their probes, and
    the look at an operator's changes, are made once for all of them."""
    if small_actors.here is None:
        return await _open_followed(config, limits)
    key = fingerprint(config, ("storage.postgres_url", "storage.cluster_secret", "upstream"))
    if key not in _of_this_process or _has_failed(_of_this_process[key]):
        _of_this_process[key] = asyncio.create_task(_open_followed(config, ()))
    nodes, following = await asyncio.shield(_of_this_process[key])
    following.limit(limits)
    return nodes, following


def _has_failed(task: "asyncio.Task[tuple[Nodes, Following]]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _open_followed(config: Config, limits: tuple[str, ...]) -> tuple[Nodes, Following]:
    nodes = Nodes(config.upstream.model_copy(update={"cache_bytes_max": 0}), SystemClock(), lambda *_: None)
    process = hosting.this_actor() or f"process-{os.getpid()}"
    return nodes, await follow_changes(config, nodes, process, limits)
