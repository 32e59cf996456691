"""Connects the operators' pages to the owners of accounts, the watcher of deposits, the nodes and the actors.

Implements: design, "Layout" (contexts of one level are joined here). Wiring; every rule is in the contexts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actors import hosting
from actors.accounts.api import AccountState, OwnersClient
from actors.accounts.price_list import PUBLIC_WORD
from actors.clock import Clock
from actors.config import Config
from actors.deposits.api import (
    STANDBY_ACTOR_NAME,
    WATCHER_ACTOR_NAME,
    AssignTransfer,
    CountTransfers,
    ExplainTransaction,
    ListTransfers,
    WatcherCommand,
    ask_watcher,
)
from actors.errors import Err, Refusal
from actors.gateway.pages.account import batches_body, last_deposit_body, later_body
from actors.operators.endpoints import operator_pages
from actors.operators.ports import NodeDesk, NodesAnswer, OperatorParts, Transfers
from actors.operators.running import RunningProduct
from actors.pages import Page
from actors.telemetry.metrics_page import metrics_port
from actors.units import base58_text
from actors.upstream.node_commands import AddNode, ChangeNode, ListNodes, NodeCommand, NodeRefused, RemoveNode
from actors.upstream.node_operator import NodeOperator

_WATCHER_SECONDS = 20.0  # Less than the gateway's clients wait; a node may be slow to look up a transaction.
_READ_SECONDS = 5.0  # Lists ask no node. There are two watchers, and the page waits 25 s.
_AWAY = ("the store does not answer", "the transfer may or may not be assigned")
_NO_WATCHER = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the deposit watcher does not answer: try again in seconds")
_MAY_BE_ASSIGNED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the transfer may or may not be assigned now: look at it, and repeat"
)


def assemble_operators(config: Config, accounts: OwnersClient, nodes: NodeOperator, clock: Clock) -> list[Page]:
    """Return the pages of /operator/*; none where they are switched off."""
    if not config.operator.enabled:
        return []
    transfers: Transfers | None = None if config.payments.deposit_wallet is None else WatchedTransfers()
    desk: NodeDesk = ChangingNodes(nodes)
    running = RunningProduct(clock, metrics_port(config) is not None)
    return operator_pages(OperatorParts(accounts, desk, running, clock, transfers, account_document, config.pricing))


def account_document(state: AccountState) -> dict[str, Any]:
    """Return an account as GET /account/info shows it to the customer, times as Unix seconds; and its limits."""
    return {
        "pubkey": base58_text(state.pubkey),
        "balance": state.balance,
        "status": state.status,
        "price_list": state.price_list or PUBLIC_WORD,
        "total_consumed_credits": state.total_consumed,
        "created_at": state.created_at,
        "requests_per_second": state.requests_per_second,
        "concurrency": state.concurrency,
        "last_deposit": last_deposit_body(state),
        "credit_batches": batches_body(state),
    } | later_body(state)


class WatchedTransfers:
    """Asks the watcher of deposits, or its standby where that one watches."""

    def __init__(self) -> None:
        self._watchers = [hosting.Reference(name) for name in (WATCHER_ACTOR_NAME, STANDBY_ACTOR_NAME)]

    async def totals(self) -> Mapping[str, Any] | Refusal:
        told: Mapping[str, Any] | Refusal = await self._ask(CountTransfers())
        return told

    async def listing(self, status: str, limit: int, offset: int) -> Sequence[Mapping[str, Any]] | Refusal:
        told: Sequence[Mapping[str, Any]] | Refusal = await self._ask(ListTransfers(status, limit, offset))
        return told

    async def explain(self, signature: str) -> Mapping[str, Any] | Refusal:
        told: Mapping[str, Any] | Refusal = await self._ask(ExplainTransaction(signature))
        return told

    async def assign(self, signature: str, index: int | None, pubkey: str, reason: str) -> Mapping[str, Any] | Refusal:
        told: Mapping[str, Any] | Refusal = await self._ask(AssignTransfer(signature, index, pubkey, reason))
        return told

    async def _ask(self, command: WatcherCommand) -> Any:
        wait_seconds = _READ_SECONDS if isinstance(command, CountTransfers | ListTransfers) else _WATCHER_SECONDS
        try:
            told = await ask_watcher(self._watchers, "ask", command, wait_seconds=wait_seconds)
        except hosting.ActorUnreachable:
            return _MAY_BE_ASSIGNED if isinstance(command, AssignTransfer) else _NO_WATCHER
        if not isinstance(told, str):
            return told
        if told.startswith(_AWAY):  # The rest is an exception's text, which is for the log.
            return _MAY_BE_ASSIGNED if isinstance(command, AssignTransfer) else _NO_WATCHER
        return Refusal(Err.INVALID_REQUEST, told)


class ChangingNodes:
    """The nodes of the settings with the operator's changes, which every process takes over by itself."""

    def __init__(self, operator: NodeOperator) -> None:
        self._operator = operator

    async def listing(self) -> NodesAnswer:
        return await self._ask(ListNodes())

    async def add(
        self,
        node_id: str,
        url: str,
        ws_url: str | None,
        weight: int,
        roles: Sequence[str],
        is_unreachable_allowed: bool,
    ) -> NodesAnswer:
        return await self._ask(
            AddNode(
                id=node_id,
                url=url,
                ws_url=ws_url,
                weight=weight,
                roles=tuple(roles),
                is_unreachable_allowed=is_unreachable_allowed,
            )
        )

    async def change(
        self, node_id: str, weight: int | None, drained: bool | None, is_unreachable_allowed: bool
    ) -> NodesAnswer:
        return await self._ask(
            ChangeNode(id=node_id, weight=weight, drained=drained, is_unreachable_allowed=is_unreachable_allowed)
        )

    async def remove(self, node_id: str) -> NodesAnswer:
        return await self._ask(RemoveNode(id=node_id))

    async def _ask(self, command: NodeCommand) -> NodesAnswer:
        reply = await self._operator.ask(command)
        return NodesAnswer(reply.reason.http if isinstance(reply, NodeRefused) else 200, reply.as_json())
