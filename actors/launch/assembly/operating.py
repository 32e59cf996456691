"""Connects the operators' pages to the owners of accounts, the watcher of deposits, the nodes and the actors.

Implements: design, "Layout" (contexts of one level are joined here). Wiring; every rule is in the contexts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actors import hosting
from actors.accounts.api import AccountState, OwnersClient
from actors.clock import Clock
from actors.config import Config, UpstreamConfig
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
from actors.gateway.pages.account import batches_body, last_deposit_body
from actors.operators.endpoints import operator_pages
from actors.operators.ports import NodeDesk, NodesAnswer, OperatorParts, Transfers
from actors.operators.running import RunningProduct
from actors.pages import Page
from actors.provider_config import shown_url
from actors.status.live import CurrentHealth
from actors.telemetry.metrics_page import metrics_port
from actors.units import base58_text

_WATCHER_SECONDS = 20.0  # Less than the gateway's clients wait; a node may be slow to look up a transaction.
_AWAY = ("the store does not answer", "the transfer may or may not be assigned")
_NO_WATCHER = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the deposit watcher does not answer: try again in seconds")
_MAY_BE_ASSIGNED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the transfer may or may not be assigned now: look at it, and repeat"
)
_SETTINGS_ALONE = "nodes are changed in the settings (upstream.nodes) and with a new deployment"


def assemble_operators(config: Config, accounts: OwnersClient, current: CurrentHealth, clock: Clock) -> list[Page]:
    """Return the pages of /operator/*; none where they are switched off."""
    if not config.operator.enabled:
        return []
    transfers: Transfers | None = None if config.payments.deposit_wallet is None else WatchedTransfers()
    desk: NodeDesk = NodesOfSettings(config.upstream, current)
    running = RunningProduct(clock, metrics_port(config) is not None)
    return operator_pages(OperatorParts(accounts, desk, running, clock, transfers, account_document))


def account_document(state: AccountState) -> dict[str, Any]:
    """Return an account as GET /account/info shows it to the customer, times as Unix seconds; and its limits."""
    return {
        "pubkey": base58_text(state.pubkey),
        "balance": state.balance,
        "status": state.status,
        "total_consumed_credits": state.total_consumed,
        "created_at": state.created_at,
        "requests_per_second": state.requests_per_second,
        "concurrency": state.concurrency,
        "last_deposit": last_deposit_body(state),
        "credit_batches": batches_body(state),
    }


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
        try:
            told = await ask_watcher(self._watchers, "ask", command, wait_seconds=_WATCHER_SECONDS)
        except hosting.ActorUnreachable:
            return _MAY_BE_ASSIGNED if isinstance(command, AssignTransfer) else _NO_WATCHER
        if not isinstance(told, str):
            return told
        if told.startswith(_AWAY):  # The rest is an exception's text, which is for the log.
            return _MAY_BE_ASSIGNED if isinstance(command, AssignTransfer) else _NO_WATCHER
        return Refusal(Err.INVALID_REQUEST, told)


class NodesOfSettings:
    """The nodes of the settings, as this replica finds them."""

    def __init__(self, config: UpstreamConfig, current: CurrentHealth) -> None:
        self._config, self._current = config, current

    async def listing(self) -> NodesAnswer:
        health = {node.name: node for node in self._current.health.nodes}
        best = max((node.figures.slot or 0 for node in health.values()), default=0)
        rows = []
        for node in self._config.named_nodes:
            known = health[str(node.name)]
            state = "well" if known.is_well else "behind" if known.is_answering else "failing"
            slot = known.figures.slot
            rows.append(
                {
                    "id": node.name,
                    "url": shown_url(node.url.get_secret_value()),
                    "ws_url": None if node.ws_url is None else shown_url(node.ws_url.get_secret_value()),
                    "origin": "settings",
                    "roles": node.roles,
                    "weight": node.weight,
                    "settings_weight": node.weight,
                    "drained": False,
                    "state": "in_use" if known.answered else "joining",
                    "health": {name: int(state == name) for name in ("well", "behind", "failing")},
                    "slot": slot,
                    "lag_slots": None if slot is None else best - slot,
                    "version": known.figures.version,
                }
            )
        return NodesAnswer(200, {"nodes": rows, "notes": [], "can_change": False})

    async def add(self, *_: Any) -> NodesAnswer:
        return self._refused()

    async def change(self, *_: Any) -> NodesAnswer:
        return self._refused()

    async def remove(self, *_: Any) -> NodesAnswer:
        return self._refused()

    def _refused(self) -> NodesAnswer:
        return NodesAnswer(409, {"reason": "settings_alone", "message": _SETTINGS_ALONE})
