"""Ports through which the operators' pages use other contexts; `launch` passes the implementations.

Implements: decisions, "The operators' page". No rules.
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
    """The watcher of deposits. A refusal says why the request was not carried out."""

    async def totals(self) -> Mapping[str, Any] | Refusal:
        """Return how many transfers have each status, and the state of the watcher."""
        ...

    async def listing(self, status: str, limit: int, offset: int) -> Sequence[Mapping[str, Any]] | Refusal:
        """Return transfers of this status, newest first; `all` for every status."""
        ...

    async def explain(self, signature: str) -> Mapping[str, Any] | Refusal:
        """Look a transaction up, credit its transfers, and return the outcome of each."""
        ...

    async def assign(self, signature: str, index: int | None, pubkey: str, reason: str) -> Mapping[str, Any] | Refusal:
        """Give a listed transfer to an account, once. index None: the only listed one."""
        ...


class NodesAnswer(NamedTuple):
    """http: 200, with all nodes after the command; otherwise the reason and a sentence in `message`."""

    http: int
    body: Mapping[str, Any]


class NodeDesk(Protocol):
    """Lists and changes the nodes. is_unreachable_allowed: also if the node, or every other one, does not answer."""

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
    """transfers None: no deposit wallet is set. account_body: returns an account in the JSON form of the commands."""

    accounts: OwnersClient
    nodes: NodeDesk
    running: Running
    clock: Clock
    transfers: Transfers | None
    account_body: Callable[[AccountState], dict[str, Any]]
    pricing: PricingConfig = field(default_factory=PricingConfig)
