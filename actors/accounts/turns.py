"""One turn on an account that is in memory: what is due comes first, events are applied and recorded at once.

Implements: house rule "load first, then decide, apply and journal with no await between". Shared by the calls
(actor.py) and by everything else that is asked of an account (desk.py). Synchronous throughout.
"""

import asyncio

from actors.accounts.account import Account, Event, Moment, apply
from actors.accounts.activations import Activations
from actors.accounts.commits import GroupCommit
from actors.accounts.core import decide_credit_expiry, decide_hold_expiry, is_due
from actors.accounts.ledger_clock import LedgerClock


class Turns:
    def __init__(self, activations: Activations, commits: GroupCommit, clock: LedgerClock) -> None:
        self._activations, self._commits, self._clock = activations, commits, clock

    def steady(self) -> int:
        return int(self._clock.monotonic())

    def moment(self) -> Moment:
        return self._clock.moment()

    def is_current(self, account: Account) -> bool:
        """Whether this object still is the account, and what is recorded of it will be written."""
        return self._commits.open and self._activations.accounts.get(account.pubkey) is account

    def take_due(self, account: Account, moment: Moment) -> None:
        """End what is past its time. Every decision expects that this was done."""
        if not is_due(account, moment):
            return
        for ended in decide_hold_expiry(account, moment):
            apply(account, ended)
        for expired in decide_credit_expiry(account, moment, self._clock.agreed_ms()):
            self.take(account, expired)

    def take(self, account: Account, event: Event) -> "asyncio.Future[None]":
        """Make an event true and write it with the next group, whose future this is."""
        apply(account, event)
        return self._commits.record(account, event)
