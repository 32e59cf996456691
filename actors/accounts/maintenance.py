"""The regular work of an owner: writes `credits.expiring`, ends expired batches, creates the next month's partition.

Implements: interface, lifecycle event `credits.expiring`; ledger entries of type `expiry` for unused accounts; threat
53. A shell; part of AccountShard's tick. A later tick tries again whatever fails. The monotonic clock says when work is
due: setting a wall clock must not delay the next check by a year. Work that cannot be undone uses the time on which the
clocks agree, and waits while they do not.
"""

import logging

from actors.accounts.activations import Activations
from actors.accounts.api import OwnerUnavailable
from actors.accounts.commits import GroupCommit
from actors.accounts.held_shards import HeldShards
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable

logger = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
_LOOK_SECONDS = 60  # A batch within 24 hours of its expiry is announced within a minute.
_EXPIRED_AT_ONCE_MAX = 200  # Accounts loaded in one check; the next one finds the rest.
_EVENTS_KEPT_MS = 30 * 86_400_000


class Maintenance:
    def __init__(
        self,
        store: AccountStore,
        clock: LedgerClock,
        commits: GroupCommit,
        activations: Activations,
        held: HeldShards,
    ) -> None:
        self._store, self._clock, self._commits = store, clock, commits
        self._activations, self._held = activations, held
        self._prepare_at = clock.monotonic() + _DAY_SECONDS
        self._forget_at = clock.monotonic() + _DAY_SECONDS
        self._look_at = 0.0

    async def tick(self) -> None:
        """Run once a second."""
        if not self._commits.open:
            return
        steady = self._clock.monotonic()
        try:
            if steady >= self._prepare_at:
                await self._store.prepare(self._clock.now_ms())
                self._prepare_at = steady + _DAY_SECONDS
            agreed_ms = self._clock.agreed_ms()
            if agreed_ms is not None and steady >= self._forget_at:
                await self._store.outbox.forget(agreed_ms - _EVENTS_KEPT_MS)
                self._forget_at = steady + _DAY_SECONDS
            if agreed_ms is not None and steady >= self._look_at:
                await self._store.outbox.announce_expiring(self._held.all, agreed_ms)
                await self._expire(agreed_ms // 1000)
                self._look_at = steady + _LOOK_SECONDS
        except (StoreUnavailable, OwnerUnavailable) as error:
            logger.warning("maintenance is late, the next tick tries again: %s", error)

    async def _expire(self, now: int) -> None:
        """Load accounts with expired batches: an account out of memory would otherwise keep credits past their date
        until its next use."""
        for pubkey in await self._store.expired(self._held.all, now, _EXPIRED_AT_ONCE_MAX):
            try:
                account = await self._activations.load(pubkey)
            except OwnerUnavailable as error:
                if not self._commits.open:
                    raise
                # A halted account must not block the others, nor their events.
                logger.warning("credits of account %s cannot expire for now: %s", pubkey.hex(), error)
                continue
            if account is not None and self._activations.is_current(account):
                self._activations.end_due(account, self._activations.moment())
