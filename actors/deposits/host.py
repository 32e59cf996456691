"""The watcher as a Ray actor: one for the whole service, placed, restarted and found by name.

Implements: design, section 3 (an actor exists where state needs one owner). A thin wrapper: the watcher itself is
actor.py. After the loss of a machine there may be two for a while. They do the same work twice and credit once, because
credits, records and the cursor are unique by their keys.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

from actors import hosting
from actors.accounts.api import AccountsClient
from actors.clock import SystemClock
from actors.config import Config
from actors.deposits.actor import AWAY, DepositWatcher
from actors.deposits.api import WATCHER_ACTOR_NAME
from actors.deposits.chain import DepositChain, signature_of
from actors.deposits.confirming import Confirming
from actors.deposits.core import FindingStatus
from actors.deposits.crediting import Crediting
from actors.deposits.endpoints import finding_body, status_of
from actors.deposits.store import PostgresDepositStore
from actors.deposits.subscription import DepositSubscription
from actors.deposits.transfers import deposit_account
from actors.errors import Refusal
from actors.storage.connections import connect_postgres
from actors.telemetry import logs
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import report_for_ever
from actors.units import parse_pubkey
from actors.upstream.replies import Node
from actors.x402_types import mint_of

logger = logging.getLogger(__name__)

_CONNECTIONS_MAX = 4
_REASON_MAX = 200
LISTING_MAX = 500
OpenAccounts = Callable[[Config], Awaitable[AccountsClient]]
OpenNode = Callable[[Config], Awaitable[Node]]


class DepositWatcherActor:
    """Starts with its first call. open_accounts, open_node: given by the wiring, because this context may not know how
    accounts and nodes are reached."""

    def __init__(self, config: Config, fingerprint: str, open_accounts: OpenAccounts, open_node: OpenNode) -> None:
        self._config, self._fingerprint = config, fingerprint
        self._open_accounts, self._open_node = open_accounts, open_node
        self._starting: asyncio.Task[None] | None = None

    async def fingerprint(self) -> str:
        return self._fingerprint

    async def health(self) -> dict[str, Any]:
        """fault: why the latest round failed, empty when it did not; caught_up_at: Unix seconds, 0 before the first."""
        await self._ready()
        return {
            "fault": self._watcher.fault,
            "caught_up_at": self._watcher.caught_up_at,
            "subscribed": self._subscription is not None and self._subscription.connected,
        }

    async def confirm(self, signature: bytes) -> tuple[str | None, str, list[tuple[bytes, int, int | None]], bool]:
        """(name of a refusal, its detail, parts, looked).

        parts: (account, credits added, balance). looked: whether this call looked the transaction up.
        """
        await self._ready()
        outcome, looked = await self._confirming.confirm(signature)
        if isinstance(outcome, Refusal):
            return outcome.err.name, outcome.detail, [], looked
        return None, "", [(part.pubkey, part.added, part.balance) for part in outcome], looked

    # --- the operator; a text is one sentence about what went wrong -------------------------------------------------

    async def listing(self, status: str, limit: int, offset: int) -> list[dict[str, Any]] | str:
        await self._ready()
        try:
            wanted = status_of(status)
        except KeyError:
            return f"no such status: {status}; there are all, {', '.join(each.name.lower() for each in FindingStatus)}"
        try:
            found = await self._store.listing(
                self._account.address, wanted, max(1, min(limit, LISTING_MAX)), max(0, offset)
            )
        except AWAY as error:
            return f"the store does not answer: {error}"
        return [finding_body(row) for row in found]

    async def totals(self) -> dict[str, Any] | str:
        await self._ready()
        try:
            totals = await self._store.totals(self._account.address)
        except AWAY as error:
            return f"the store does not answer: {error}"
        counts = {status.name.lower(): count for status, count in totals.counts.items()}
        gaps = [f"{gap.after_slot + 1} to {gap.before_slot - 1}" for gap in totals.gaps]
        return {"account": self._account.address, "waiting": totals.waiting, **counts, "slots_never_seen": gaps}

    async def explain(self, signature_text: str) -> dict[str, Any] | str:
        """Look the transaction up again and give its outcome."""
        await self._ready()
        try:
            signature = signature_of(signature_text)
        except ValueError:
            return "that is not the base58 text of a signature"
        outcome, _ = await self._confirming.confirm(signature)
        try:
            found = await self._store.find(self._account.address, signature)
        except AWAY as error:
            return f"the store does not answer: {error}"
        verdict = outcome.message if isinstance(outcome, Refusal) else "credited"
        return {"verdict": verdict, "transfers": [finding_body(row) for row in found]}

    async def assign(
        self, signature_text: str, index: int | None, pubkey_text: str, reason: str
    ) -> dict[str, Any] | str:
        """index: of the transfer. None: the only transfer of this transaction that is listed."""
        await self._ready()
        pubkey = parse_pubkey(pubkey_text)
        if pubkey is None:
            return f"{pubkey_text!r} is not a base58 public key of 32 bytes"
        if not 0 < len(reason) <= _REASON_MAX or not reason.isprintable():
            return f"the reason must be 1 to {_REASON_MAX} printable characters"
        try:
            found = await self._store.find(self._account.address, signature_of(signature_text))
            listed = [row for row in found if row.status == FindingStatus.LISTED and index in (None, row.index)]
            if len(listed) != 1:
                return f"{len(listed)} transfers of it are listed; `deposits explain` shows them, --transfer picks one"
            if listed[0].amount <= 0:
                return "its amount is not known; give credits with `accounts grant` instead"
            row = await self._watcher.assign(listed[0], pubkey, reason)
        except ValueError:
            return "that is not the base58 text of a signature"
        except AWAY as error:
            return f"the transfer may or may not be assigned now; repeat the command: {error}"
        return row if isinstance(row, str) else finding_body(row)

    # --- life -------------------------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        try:
            await self._open()
        except Exception:
            logger.exception("the deposit watcher cannot start")
            os._exit(1)  # Ray starts another one.

    async def _open(self) -> None:
        config, payments = self._config, self._config.payments
        assert config.storage.postgres_url is not None and payments.deposit_wallet is not None
        logs.set_up(config.telemetry, WATCHER_ACTOR_NAME, config.telemetry.log_dir)
        clock = SystemClock()
        pool = await connect_postgres(
            config.storage.postgres_url.get_secret_value(),
            connections_max=_CONNECTIONS_MAX,
            application=WATCHER_ACTOR_NAME,
        )
        self._store = PostgresDepositStore(pool)
        await self._store.prepare()
        self._account = deposit_account(payments.deposit_wallet, mint_of(payments))
        chain = DepositChain(await self._open_node(config))
        crediting = Crediting(await self._open_accounts(config))
        metrics = Metrics()
        self._watcher = DepositWatcher(
            self._account,
            chain,
            self._store,
            crediting,
            clock,
            minimum_base_units=payments.minimum_deposit_base_units,
            start_slot=payments.deposit_start_slot,
            poll_seconds=payments.deposit_poll_seconds,
            metrics=metrics,
        )
        self._confirming = Confirming(self._account.address, self._watcher, chain, self._store, crediting, clock)
        self._subscription: DepositSubscription | None = None
        if config.upstream.node_ws_url is not None:
            wake = self._watcher.wake.set
            self._subscription = DepositSubscription(config.upstream.node_ws_url, self._account.address, wake)
            self._subscription.start()
        self._watcher.start()
        self._reporting = asyncio.create_task(report_for_ever(config, WATCHER_ACTOR_NAME, metrics))
        hosting.tune_gc()


def place_watcher(config: Config, fingerprint: str, open_accounts: OpenAccounts, open_node: OpenNode) -> Any:
    """The handle of the one watcher, which is started where there is none. Needs a connected Ray."""
    return hosting.place(
        DepositWatcherActor, WATCHER_ACTOR_NAME, fingerprint, config, fingerprint, open_accounts, open_node
    )
