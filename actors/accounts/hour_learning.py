"""Reads from the rollup of usage what accounts usually spend in an hour, and how long their credits last.

Implements: decisions, "Hourly limit". A shell: hourly_limit.py has the rules. Accounts that were just loaded come
first, the others once an hour, if they have new usage. One query at a time, for a bounded number of accounts.
"""

import logging
from collections.abc import Iterator
from itertools import islice

from actors.accounts.account import Account, apply
from actors.accounts.activations import Activations
from actors.accounts.hourly_limit import HOUR_SECONDS, LEARNT_HOURS, HoursLearnt, learnt_of
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.stored import StoreUnavailable
from actors.accounts.usage import UsageStore

logger = logging.getLogger(__name__)

ASKED_AT_ONCE_MAX = 50  # Accounts in one query, which reads a week of hours of each and the entries behind the rollup.
_LOOKED_AT_MAX = 2_000  # Accounts in memory that one tick examines.


class HourLearning:
    """Learns the hourly spending of accounts. activations: its `fresh` has the accounts of which nothing is
    known yet."""

    def __init__(self, store: UsageStore, clock: LedgerClock, activations: Activations) -> None:
        self._store, self._clock, self._activations = store, clock, activations
        self._hour = 0
        self._round: Iterator[Account] = iter(())  # Iterates over the accounts in memory, once an hour.

    async def tick(self) -> None:
        """Run once a second, after the rollup's tick. Accounts whose query failed are asked about again, after the
        others."""
        hour = self._clock.now() // HOUR_SECONDS
        asked = self._due(hour)
        if not asked:
            return
        accounts, fresh = self._activations.accounts, self._activations.fresh
        try:
            found = await self._store.hours(list(asked), hour - LEARNT_HOURS, hour)
        except StoreUnavailable as error:
            logger.info("what accounts spend in an hour is asked again later: %s", error)
            for pubkey, account in asked.items():
                if accounts.get(pubkey) is account:
                    fresh.pop(pubkey, None)
                    fresh[pubkey] = account
            return
        for pubkey, account in asked.items():
            if fresh.get(pubkey) is account:
                del fresh[pubkey]
            if accounts.get(pubkey) is account:
                apply(account, HoursLearnt(learnt_of(found[pubkey], hour)))

    def _due(self, hour: int) -> dict[bytes, Account]:
        if hour > self._hour:
            self._hour, self._round = hour, iter(list(self._activations.accounts.values()))
        due = dict(islice(self._activations.fresh.items(), ASKED_AT_ONCE_MAX))
        looked_at = 0
        while len(due) < ASKED_AT_ONCE_MAX and looked_at < _LOOKED_AT_MAX:
            account = next(self._round, None)
            if account is None:
                break
            looked_at += 1
            if self._has_more(account, hour):
                due[account.pubkey] = account
        return due

    @staticmethod
    def _has_more(account: Account, hour: int) -> bool:
        """Return whether a known account has spent recently, so that its rollup has something new."""
        learnt = account.hourly.learnt
        return learnt is not None and learnt.hour < hour and (account.hourly.hour >= learnt.hour or learnt.in_day > 0)
