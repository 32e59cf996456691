"""Pays for deliveries: a credit of the account is held before a request, and posted or released after it.

Implements: money rules 1 to 3; decisions, "webhook delivery price"; threat 68. A shell; the owners of accounts decide.
An operation is named by the event, so an event is charged once, however often it is sent. All jobs that wait go to
an owner in one message. The holds of a dispatcher that is killed expire; its successor makes new ones.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence

from actors.accounts.api import OwnersClient
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.calls import OPERATION_BYTES
from actors.clock import Clock
from actors.errors import Err
from actors.methods.prices import WEBHOOK_DELIVERY_CREDITS
from actors.telemetry.metrics import Metrics
from actors.webhooks import core
from actors.webhooks.store import Job

logger = logging.getLogger(__name__)

METHOD = "webhookDelivery"  # As the ledger and the usage history name a charge.
# A request begins at most so long after its hold was asked for. It takes 15 s, and a hold lasts 55 s at least
# (`accounts.hold_seconds`), so the charge comes before the hold ends by its time.
BEGIN_SECONDS = 30.0
# The owner of the account may or may not have charged; or the account is suspended, and pays later.
_EXPECTED = (Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, Err.METHOD_NOT_ALLOWED.name)

Owing = Mapping[bytes, Sequence[tuple[int, str]]]  # By account: jobs with their webhooks.


def charge_operation(event_id: str) -> bytes:
    """The operation that charges for an event, however often it is sent."""
    return hashlib.sha256(f"webhook delivery {event_id}".encode()).digest()[:OPERATION_BYTES]


class DeliveryPayments:
    def __init__(self, accounts: OwnersClient, clock: Clock, metrics: Metrics) -> None:
        self._accounts, self._clock, self._metrics = accounts, clock, metrics
        self._begin_until: dict[int, float] = {}  # By job that is held.

    async def hold(self, jobs: Sequence[Job]) -> set[int]:
        """Hold the price of each job that is not free. Returns the ids of the jobs that may be sent."""
        until = self._clock.monotonic() + BEGIN_SECONDS
        wanted = _by_account(jobs)
        commands = [
            HoldOperations(pubkey, _operations(owed), WEBHOOK_DELIVERY_CREDITS) for pubkey, owed in wanted.items()
        ]
        granted = {job.id for job in jobs if job.is_free}
        for owed, reply in zip(wanted.values(), await self._accounts.ask_many(commands), strict=True):
            held = {job for (job, _), is_held in zip(owed, reply.value or (), strict=False) if is_held}
            self._begin_until |= dict.fromkeys(held, until)
            granted |= held
        return granted

    def may_begin(self, job: Job) -> bool:
        """Whether the hold of this job lasts until its charge, if its request begins now."""
        return job.is_free or self._clock.monotonic() < self._begin_until.get(job.id, 0.0)

    def forget(self, jobs: Sequence[Job]) -> None:
        """Their requests have ended. What another dispatcher sends again is charged and released there: its hold has
        the same name, so it must not be released here."""
        for job in jobs:
            self._begin_until.pop(job.id, None)

    async def settle(self, delivered: Sequence[Job], undelivered: Sequence[Job]) -> set[int]:
        """Charge for the delivered jobs, and release the holds of the others. Returns the ids of the jobs that are
        charged or free."""
        self.forget((*delivered, *undelivered))
        free = {job.id for job in delivered if job.is_free}
        return free | await self.charge(_by_account(delivered), _by_account(undelivered))

    async def charge(self, owing: Owing, released: Owing | None = None) -> set[int]:
        """Charge each event once for ever. Returns the ids of the jobs that are charged."""
        released = released or {}
        accounts = list({**owing, **released})
        commands = [
            ChargeOperations(
                pubkey,
                _operations(owing.get(pubkey, ())),
                METHOD,
                WEBHOOK_DELIVERY_CREDITS,
                _operations(released.get(pubkey, ())),
            )
            for pubkey in accounts
        ]
        charged: set[int] = set()
        for pubkey, reply in zip(accounts, await self._accounts.ask_many(commands), strict=True):
            for (job, _), is_charged in zip(owing.get(pubkey, ()), reply.value or (), strict=False):
                if is_charged:
                    charged.add(job)
                    self._metrics.charged(METHOD, WEBHOOK_DELIVERY_CREDITS)
            if reply.refusal is not None and reply.refusal not in _EXPECTED:
                logger.warning("webhooks: deliveries could not be charged: %s", reply.refusal)
        return charged


def jobs_by_account(jobs: Sequence[Job]) -> dict[bytes, list[Job]]:
    found: dict[bytes, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.pubkey, []).append(job)
    return found


def _by_account(jobs: Sequence[Job]) -> dict[bytes, list[tuple[int, str]]]:
    """Return id and webhook of the jobs that are not free, by account."""
    paid = jobs_by_account([job for job in jobs if not job.is_free])
    return {pubkey: [(job.id, job.webhook_id) for job in mine] for pubkey, mine in paid.items()}


def _operations(owed: Sequence[tuple[int, str]]) -> tuple[bytes, ...]:
    return tuple(charge_operation(core.event_id(webhook, job)) for job, webhook in owed)
