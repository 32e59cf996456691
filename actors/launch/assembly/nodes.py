"""Has the nodes of one process follow an operator's changes, and carries out commands about them.

Implements: upstream/README.md, "Nodes that change while the service runs". Wiring only: every rule is in upstream/.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors import hosting
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
    """operator: carries out commands about the nodes. close: ends the following, before the nodes are closed."""

    operator: NodeOperator
    close: Callable[[], Awaitable[None]]


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

    return Following(NodeOperator(config.upstream, nodes, store), close)


async def open_followed(config: Config, limits: tuple[str, ...] = ()) -> tuple[Nodes, Following]:
    """Open the nodes of an actor, which live as long as its process, without an answer cache: actors outside the
    replicas only ask for what is new."""
    nodes = Nodes(config.upstream.model_copy(update={"cache_bytes_max": 0}), SystemClock(), lambda *_: None)
    process = hosting.this_actor() or f"process-{os.getpid()}"
    return nodes, await follow_changes(config, nodes, process, limits)
