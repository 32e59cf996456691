"""The watcher as a Ray actor: one for the whole service, and another one that stands by, where the settings have it.

Implements: design, "Layout" (an actor exists where state needs one owner) and "Owners, for every kind of actor". A thin
wrapper: the watcher itself is actor.py. After the loss of a machine two may watch for a while. The newer one has the
next epoch, so the former one writes nothing more, and its process ends at its next write. Credits are unique by
transfer besides.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

from actors import hosting
from actors.accounts.api import OwnersClient
from actors.actor_settings import OF_EVERY_ACTOR, OF_OWNERS_CLIENTS
from actors.background import Background
from actors.clock import SystemClock
from actors.config import Config
from actors.deposits.api import STANDBY_ACTOR_NAME, WATCHER_ACTOR_NAME, CountTransfers, StandsBy, WatcherCommand
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.core import Outcome
from actors.deposits.usdc.crediting import Crediting
from actors.deposits.usdc.operator_commands import OperatorCommands
from actors.deposits.usdc.store import DepositStoreUnavailable, PostgresDepositStore
from actors.deposits.usdc.subscription import DepositSubscription
from actors.deposits.usdc.transfers import deposit_account
from actors.ownership.pulses import Pulses
from actors.ownership.silence import AGAIN_SECONDS, ANSWER_SECONDS, LOOK_SECONDS, Silence
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.api import ChangingNode, first_ws_url
from actors.x402_types import mint_of

logger = logging.getLogger(__name__)

_CONNECTIONS_MAX = 4
OpenAccounts = Callable[[Config], Awaitable[OwnersClient]]
OpenNode = Callable[[Config], Awaitable[ChangingNode]]
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
    """name: of the first watcher, or of the standby. open_accounts, open_node: given by the wiring, because this
    context may not know how accounts and nodes are reached.

    The first watches from its start. The standby has the same settings, and begins when the first has been silent for
    two looks. When that one is back, it claims the next epoch, and the standby ends with its next write; Ray starts it
    again, to stand by.
    """

    def __init__(
        self, config: Config, fingerprint: str, name: str, open_accounts: OpenAccounts, open_node: OpenNode
    ) -> None:
        super().__init__(config, fingerprint, name)
        self._open_accounts, self._open_node = open_accounts, open_node
        self._watcher: DepositWatcher | None = None
        self._background = Background(logger, "standing by for the deposit watcher failed")

    async def health(self) -> dict[str, Any]:
        """Report the watcher's state.

        fault: why the latest round failed, or empty; caught_up_at: Unix seconds, 0 at first; epoch: 0 of one that
        stands by.
        """
        await self._ready()
        return {
            "fault": "" if self._watcher is None else self._watcher.fault,
            "caught_up_at": 0 if self._watcher is None else self._watcher.caught_up_at,
            "subscribed": self._subscription is not None and self._subscription.connected,
            "epoch": 0 if self._watcher is None else self._store.epoch,
        }

    async def confirm(self, signature: bytes) -> tuple[Outcome, bool] | StandsBy:
        """Confirm a transaction, and return the outcome and whether this call looked the transaction up."""
        await self._ready()
        return StandsBy() if self._watcher is None else await self._confirming.confirm(signature)

    async def ask(self, command: WatcherCommand) -> Any:
        """Execute a command of the operator."""
        await self._ready()
        if self._watcher is None:
            return StandsBy()
        told = await self._commands.ask(command)
        return told | await self.health() if isinstance(command, CountTransfers) else told

    async def _assemble(self) -> None:
        config, payments = self._config, self._config.payments
        assert payments.deposit_wallet is not None
        pool = await configured_postgres(config.storage, _CONNECTIONS_MAX, self._name)
        self._store = PostgresDepositStore(pool, f"{self._name} of process {os.getpid()}")
        self._account = deposit_account(payments.deposit_wallet, mint_of(payments))
        self._nodes = await self._open_node(config)
        self._chain = DepositChain(self._nodes)
        self._crediting = Crediting(await self._open_accounts(config))
        self._subscription: DepositSubscription | None = None
        if self._name == WATCHER_ACTOR_NAME:
            await self._begin()
        else:
            self._background.start(self._stand_by())

    async def _begin(self) -> None:
        """Watch with the next epoch, which refuses all later writes of an earlier watcher."""
        payments, clock = self._config.payments, SystemClock()
        await self._store.prepare()
        watcher = DepositWatcher(
            self._account,
            self._chain,
            self._store,
            self._crediting,
            clock,
            minimum_base_units=payments.minimum_deposit_base_units,
            start_slot=payments.deposit_start_slot,
            poll_seconds=payments.deposit_poll_seconds,
            metrics=self._metrics,
            replaced=lambda: os._exit(1),  # Ray starts another one where this was the last.
        )
        self._confirming = Confirming(self._account.address, watcher, self._chain, self._store, self._crediting, clock)
        self._commands = OperatorCommands(self._account.address, watcher, self._confirming, self._store)
        self._subscription = subscription = DepositSubscription(None, self._account.address, watcher.wake.set)
        subscription.start()
        self._nodes.follow(lambda in_use: subscription.use(first_ws_url(in_use)))
        watcher.start()
        self._watcher = watcher

    async def _stand_by(self) -> None:
        """Wait until the first watcher is unavailable. Failed health checks and bugs must not end it."""
        pulses, silence = Pulses(), Silence()
        while self._watcher is None:
            in_doubt = silence.is_in_doubt([WATCHER_ACTOR_NAME])
            await asyncio.sleep(AGAIN_SECONDS if in_doubt else LOOK_SECONDS)
            try:
                pulse = (await pulses.look([WATCHER_ACTOR_NAME], ANSWER_SECONDS))[WATCHER_ACTOR_NAME]
                if silence.heard({WATCHER_ACTOR_NAME: pulse.may_serve}):
                    logger.warning("the deposit watcher does not answer: %s takes over", self._name)
                    await self._begin()
            except DepositStoreUnavailable as error:
                logger.warning("%s cannot take over yet: %s", self._name, error)
            except Exception:
                logger.exception("looking at the deposit watcher failed")


def place_watchers(config: Config, open_accounts: OpenAccounts, open_node: OpenNode) -> list[hosting.Reference]:
    """Return the watcher, and the standby where the settings have one. Needs a connected Ray; blocks."""
    names = [WATCHER_ACTOR_NAME, STANDBY_ACTOR_NAME][: config.payments.deposit_watchers]
    openers = open_accounts, open_node

    def place(name: str) -> hosting.Reference:
        # The standby has a process of its own, in which it survives the first one's.
        may_share = name == WATCHER_ACTOR_NAME
        return hosting.place_with_settings(DepositWatcherActor, name, config, USES, name, *openers, may_share=may_share)

    placed = list(map(place, names))
    hosting.remove_others(WATCHER_ACTOR_NAME, names)
    return placed
