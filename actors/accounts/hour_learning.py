"""Asks the rollup of usage what accounts spend in an hour: for their hourly limits, and for how long credits last.

Implements: decisions, "Hourly limit". A shell: hourly_limit.py has the rules. Accounts that were just loaded come
first, those with a limit of their wallet before all; the others once an hour. An account's limit is not kept until it
was asked for: a second or two after it was loaded, and longer where thousands are loaded at once.
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

ASKED_AT_ONCE_MAX = 50  # Accounts of one question: a week of hours of each, some 40 ms of the database.
_LOOKED_AT_MAX = 2_000  # Accounts in memory that one tick looks at.


class HourLearning:
    """activations: the accounts in memory. Those that were just loaded wait in its `fresh`."""

    def __init__(self, store: UsageStore, clock: LedgerClock, activations: Activations) -> None:
        self._store, self._clock, self._activations = store, clock, activations
        self._hour = 0
        self._round: Iterator[Account] = iter(())  # Over the accounts in memory, once an hour.

    async def tick(self) -> None:
        """Once a second, after the rollup's own."""
        hour = self._clock.now() // HOUR_SECONDS
        if hour > self._hour:
            self._hour, self._round = hour, iter(list(self._activations.accounts.values()))
        asked: dict[bytes, Account] = {}
        fresh = self._activations.fresh
        while fresh and len(asked) < ASKED_AT_ONCE_MAX:
            self._want(asked, fresh.popleft(), hour)
        for account in islice(self._round, _LOOKED_AT_MAX):
            if account.hourly.learnt is not None and self._has_spent(account):
                self._want(asked, account, hour)
            if len(asked) >= ASKED_AT_ONCE_MAX:
                break
        await self._learn(asked, hour)

    async def know(self, account: Account) -> None:
        """Learn of one account at once, unless it is known."""
        asked: dict[bytes, Account] = {}
        hour = self._clock.now() // HOUR_SECONDS
        self._want(asked, account, hour)
        await self._learn(asked, hour)

    def _want(self, asked: dict[bytes, Account], account: Account, hour: int) -> None:
        learnt = account.hourly.learnt
        if (learnt is None or learnt.hour < hour) and self._activations.accounts.get(account.pubkey) is account:
            asked[account.pubkey] = account

    @staticmethod
    def _has_spent(account: Account) -> bool:
        """Whether there is something to learn about an account that is known: it has spent since, or was not idle."""
        learnt = account.hourly.learnt
        return learnt is not None and (account.total_consumed != learnt.before or learnt.in_day > 0)

    async def _learn(self, asked: dict[bytes, Account], hour: int) -> None:
        if not asked:
            return
        try:
            found = await self._store.hours(list(asked), hour - LEARNT_HOURS, hour + 1)
        except StoreUnavailable as error:
            logger.info("what accounts spend in an hour is asked again later: %s", error)
            self._activations.fresh.extend(asked.values())
            return
        for pubkey, account in asked.items():
            hours = found.get(pubkey)
            if hours is None:  # It was opened a moment ago, and is not in the tables yet.
                self._activations.fresh.append(account)
            elif self._activations.accounts.get(pubkey) is account:
                apply(account, HoursLearnt(learnt_of(hours.consumed, hours.by_hour, hour)))
