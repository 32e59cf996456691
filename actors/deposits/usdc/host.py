"""The watcher as a Ray actor: one for the whole service, placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner) and "Owners, for every kind of actor". A thin
wrapper: the watcher itself is actor.py. After the loss of a machine there may be two for a while. The newer one has the
next epoch, so the former one writes nothing more, and its process ends at its next write. Credits are unique by
transfer besides.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from actors import hosting
from actors.accounts.api import OwnersClient
from actors.actor_settings import OF_EVERY_ACTOR, OF_OWNERS_CLIENTS
from actors.clock import SystemClock
from actors.config import Config
from actors.deposits.api import WATCHER_ACTOR_NAME, WatcherCommand
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.core import Outcome
from actors.deposits.usdc.crediting import Crediting
from actors.deposits.usdc.operator_commands import OperatorCommands
from actors.deposits.usdc.store import PostgresDepositStore
from actors.deposits.usdc.subscription import DepositSubscription
from actors.deposits.usdc.transfers import deposit_account
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node
from actors.x402_types import mint_of

_CONNECTIONS_MAX = 4
OpenAccounts = Callable[[Config], Awaitable[OwnersClient]]
OpenNode = Callable[[Config], Awaitable[Node]]
# The settings of the watcher and of what the wiring opens for it; it is replaced when one of them changes.
USES = (
    *OF_EVERY_ACTOR,
    *OF_OWNERS_CLIENTS,
    "payments.deposit_poll_seconds",
    "payments.deposit_start_slot",
    "payments.deposit_wallet",
    "payments.minimum_deposit_base_units",
    "payments.network",
    "payments.usdc_mint",
    "storage.postgres_url",
    "upstream",
)


class DepositWatcherActor(ReportingActor):
    """open_accounts, open_node: given by the wiring, because this context may not know how accounts and nodes are
    reached."""

    def __init__(self, config: Config, fingerprint: str, open_accounts: OpenAccounts, open_node: OpenNode) -> None:
        super().__init__(config, fingerprint, WATCHER_ACTOR_NAME)
        self._open_accounts, self._open_node = open_accounts, open_node

    async def health(self) -> dict[str, Any]:
        """Report the watcher's state.

        fault: why the latest round failed, or empty; caught_up_at: Unix seconds, 0 at first.
        """
        await self._ready()
        return {
            "fault": self._watcher.fault,
            "caught_up_at": self._watcher.caught_up_at,
            "subscribed": self._subscription is not None and self._subscription.connected,
        }

    async def confirm(self, signature: bytes) -> tuple[Outcome, bool]:
        """Confirm a transaction, and return the outcome and whether this call looked the transaction up."""
        await self._ready()
        return await self._confirming.confirm(signature)

    async def ask(self, command: WatcherCommand) -> Any:
        """Execute a command of the operator."""
        await self._ready()
        return await self._commands.ask(command)

    async def _assemble(self) -> None:
        config, payments = self._config, self._config.payments
        assert payments.deposit_wallet is not None
        clock = SystemClock()
        pool = await configured_postgres(config.storage, _CONNECTIONS_MAX, WATCHER_ACTOR_NAME)
        self._store = PostgresDepositStore(pool, f"{WATCHER_ACTOR_NAME} of process {os.getpid()}")
        await self._store.prepare()
        self._account = deposit_account(payments.deposit_wallet, mint_of(payments))
        chain = DepositChain(await self._open_node(config))
        crediting = Crediting(await self._open_accounts(config))
        self._watcher = DepositWatcher(
            self._account,
            chain,
            self._store,
            crediting,
            clock,
            minimum_base_units=payments.minimum_deposit_base_units,
            start_slot=payments.deposit_start_slot,
            poll_seconds=payments.deposit_poll_seconds,
            metrics=self._metrics,
            replaced=lambda: os._exit(1),  # Ray starts another one where this was the last.
        )
        self._confirming = Confirming(self._account.address, self._watcher, chain, self._store, crediting, clock)
        self._commands = OperatorCommands(self._account.address, self._watcher, self._confirming, self._store)
        self._subscription: DepositSubscription | None = None
        if config.upstream.node_ws_url is not None:
            wake = self._watcher.wake.set
            self._subscription = DepositSubscription(config.upstream.node_ws_url, self._account.address, wake)
            self._subscription.start()
        self._watcher.start()


def place_watcher(config: Config, open_accounts: OpenAccounts, open_node: OpenNode) -> Any:
    """Return the handle of the one watcher, which is started where there is none. Needs a connected Ray."""
    openers = open_accounts, open_node
    return hosting.place_with_settings(DepositWatcherActor, WATCHER_ACTOR_NAME, config, USES, *openers)
