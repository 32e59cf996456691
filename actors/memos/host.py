"""The sender of memos as a Ray actor: one for the whole service.

Implements: design, "Layout" (an actor exists where state needs one owner). A thin wrapper: the sender is actor.py. It
has a process of its own, so that neither its key nor the node comes near the owners of accounts. After the loss of a
machine two may run for a while; the database lets each hour of a series have one memo all the same.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from solders.keypair import Keypair

from actors import hosting
from actors.accounts.proven_roots import open_proven_roots
from actors.actor_settings import OF_EVERY_ACTOR
from actors.clock import SystemClock
from actors.config import Config
from actors.memos.actor import MemoSender
from actors.memos.chain import MemoChain
from actors.memos.store import PostgresMemoStore
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node

logger = logging.getLogger(__name__)

ACTOR_NAME = "memo-sender"
_CONNECTIONS_MAX = 2
# The settings of the sender and of what the wiring opens for it; it is replaced when one of them changes.
USES = (*OF_EVERY_ACTOR, "memos", "storage.cluster_secret", "storage.postgres_url", "upstream")


class ManyNodes(Node, Protocol):
    """All nodes as one, and each separately."""

    @property
    def single_nodes(self) -> Any: ...


OpenNode = Callable[[Config], Awaitable[ManyNodes]]


class MemoSenderActor(ReportingActor):
    """open_node: given by the wiring, because this context may not know how nodes are reached."""

    def __init__(self, config: Config, fingerprint: str, open_node: OpenNode) -> None:
        super().__init__(config, fingerprint, ACTOR_NAME)
        self._open_node = open_node
        self._sender: MemoSender | None = None

    async def health(self) -> dict[str, Any]:
        """fault: why the latest turn could not be made, or empty. payer: the address that pays. lamports: what it has;
        -1: not known yet."""
        await self._ready()
        assert self._sender is not None
        return {"fault": self._sender.fault, "payer": self._sender.address, "lamports": self._sender.lamports}

    async def _assemble(self) -> None:
        config, storage = self._config, self._config.storage
        assert config.memos.key is not None and storage.cluster_secret is not None
        pool = await configured_postgres(storage, _CONNECTIONS_MAX, self._name)
        secret = storage.cluster_secret.get_secret_value().encode()
        nodes = await self._open_node(config)
        self._sender = MemoSender(
            config.memos,
            Keypair.from_base58_string(config.memos.key.get_secret_value()),
            open_proven_roots(pool, SystemClock(), secret, self._metrics),
            MemoChain(nodes, nodes.single_nodes),
            PostgresMemoStore(pool),
            self._metrics,
        )
        self._sender.start()


def place_sender(config: Config, open_node: OpenNode) -> hosting.Reference | None:
    """Return the sender, which is started where it does not run. None: memos are off, and one that runs from before is
    ended, so that it pays for nothing more. Needs a connected Ray; blocks."""
    if not config.memos.enabled:
        hosting.remove(ACTOR_NAME)
        return None
    return hosting.place_with_settings(MemoSenderActor, ACTOR_NAME, config, USES, open_node, may_share=True)
