"""What the operators' pages need of other contexts, which `launch` hands to them.

Implements: decisions, "The operators' page". Ports and their values; no rules.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from actors.accounts.api import AccountState, OwnersClient
from actors.clock import Clock
from actors.errors import Refusal
from actors.pricing_config import PricingConfig
from actors.telemetry.figures import ProcessFigures


class Transfers(Protocol):
    """The watcher of deposits. A refusal says why it did not do what was asked."""

    async def totals(self) -> Mapping[str, Any] | Refusal:
        """How many transfers there are of each status, and the state of the watcher."""
        ...

    async def listing(self, status: str, limit: int, offset: int) -> Sequence[Mapping[str, Any]] | Refusal:
        """Transfers of this status, newest first; `all` for every one."""
        ...

    async def explain(self, signature: str) -> Mapping[str, Any] | Refusal:
        """ProductLook a transaction up, credit what is due, and tell what became of each transfer."""
        ...

    async def assign(self, signature: str, index: int | None, pubkey: str, reason: str) -> Mapping[str, Any] | Refusal:
        """Give a listed transfer to an account, once. index None: the only one that is listed."""
        ...


class NodesAnswer(NamedTuple):
    """http: 200, with all nodes after the command; else the reason and a sentence in `message`."""

    http: int
    body: Mapping[str, Any]


class NodeDesk(Protocol):
    """Lists and changes the nodes. is_unreachable_allowed: also where the node, or every other one, does not answer."""

    async def listing(self) -> NodesAnswer: ...

    async def add(
        self,
        node_id: str,
        url: str,
        ws_url: str | None,
        weight: int,
        roles: Sequence[str],
        is_unreachable_allowed: bool,
    ) -> NodesAnswer: ...

    async def change(
        self, node_id: str, weight: int | None, drained: bool | None, is_unreachable_allowed: bool
    ) -> NodesAnswer: ...

    async def remove(self, node_id: str) -> NodesAnswer: ...


class ProductLook(NamedTuple):
    """The running product at one moment.

    actors: what each actor says of itself; empty where it does not answer. figures: of each process that reports, of
    all machines; None: no process reports any (telemetry.metrics_port is 0). at: Unix seconds.
    """

    at: int
    actors: Mapping[str, Mapping[str, Any]]
    figures: Sequence[ProcessFigures] | None


class Running(Protocol):
    async def look(self) -> ProductLook | Refusal: ...


@dataclass(frozen=True, slots=True)
class OperatorParts:
    """transfers None: no deposit wallet is set. account_body: an account as the commands print it for programs."""

    accounts: OwnersClient
    nodes: NodeDesk
    running: Running
    clock: Clock
    transfers: Transfers | None
    account_body: Callable[[AccountState], dict[str, Any]]
    pricing: PricingConfig = field(default_factory=PricingConfig)
