"""Ends the holds of races that have ended: each ticket once, by the charge that core.py names.

Implements: interface, "sendAndConfirm outcome"; money rules 1 and 2.
The shell. Asked again, nothing changes: an operation ends once in the ledger, and a ticket once in the store.
"""

import asyncio
import logging
from typing import Protocol

from actors.accounts.api import OwnerUnavailable
from actors.calls import Outcome, SettleReply, SettleRequest, send_evidence
from actors.clock import Clock
from actors.sends import core
from actors.sends.core import Race, Ticket
from actors.sends.fault_switch import Reached
from actors.sends.store import RaceStore
from actors.telemetry.metrics import Metrics
from actors.units import base58_text

logger = logging.getLogger(__name__)

_AT_ONCE = 64


class Settles(Protocol):
    """The part of accounts.api.AccountsClient that ends holds."""

    async def settle(self, request: SettleRequest) -> SettleReply: ...

    def delivered(self, pubkey: bytes, operation: bytes) -> None: ...


class HoldEndings:
    def __init__(self, accounts: Settles, store: RaceStore, clock: Clock, metrics: Metrics, reached: Reached) -> None:
        self._accounts, self._store, self._clock, self._reached = accounts, store, clock, reached
        self._metrics = metrics

    async def settle_all(self, race: Race) -> None:
        """End all holds of a race, as it is stored, that have not ended. Raises RacesUnavailable, and SliceLost: then
        another racer ends what is left, by the same charges."""
        after = b""
        while tickets := await self._store.waiting(race.signature, after, _AT_ONCE):
            await asyncio.gather(*(self._settle(race, ticket) for ticket in tickets))
            after = tickets[-1].operation

    async def _settle(self, race: Race, ticket: Ticket) -> None:
        """Post or release. When the owner cannot be reached, recovery tries again."""
        charged, name = core.charge(race, ticket), base58_text(race.signature)
        request = SettleRequest(
            ticket.operation,
            ticket.pubkey,
            ticket.epoch,
            ticket.method,
            ticket.landing,
            charged,
            int(Outcome.ANSWERED if charged else Outcome.RELEASED),
            # The owner accepts no charge for an old hold; this one is as old as its proof.
            self._clock.now(),
            send_evidence(name) if charged else "",
            ticket.key,
            # Its account reads its own send from now on. Below zero: other reads of it may have shown more.
            (0, -race.slot, 0) if race.slot else None,
        )
        try:
            settled = await self._accounts.settle(request)
        except OwnerUnavailable:
            logger.warning("the charge of send %s waits for the owner of its account", name)
            return
        self._reached("settled")
        if charged and not settled.ok:
            # The hold was voided, or it expired and the credits are spent: in the customer's favour.
            logger.warning("the charge of send %s was refused by the ledger", name)
        charged = charged if settled.ok else 0
        await self._store.end_ticket(ticket, charged)
        outcome = Outcome.ANSWERED if charged else Outcome.RELEASED
        self._metrics.call_ended(ticket.method, outcome, charged, None)  # The replica leaves counting to the racer.
        if charged:
            self._accounts.delivered(ticket.pubkey, ticket.operation)
        self._reached("ticket_ended")
