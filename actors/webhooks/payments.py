"""Pays for deliveries: a credit of the account is held before a request, and posted or released after it.

Implements: money rules 1 to 3; decisions, "webhook delivery price"; threat 68. A shell; the owners of accounts decide.
An operation is named by the event, so an event is charged once, however often it is sent. All jobs that wait go to
an owner in one message. The holds of a dispatcher that is killed expire; its successor makes new ones.
"""

import hashlib
import itertools
import logging
from collections.abc import Mapping, Sequence

from actors.accounts.api import OwnersClient
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.accounts.told_lists import ToldLists
from actors.calls import OPERATION_BYTES, OTHER_PRICES, ProvenProof
from actors.clock import Clock
from actors.errors import Err
from actors.methods.price_lists import PUBLIC, PriceList
from actors.methods.prices import WEBHOOK_DELIVERY_CREDITS
from actors.telemetry.metrics import Metrics
from actors.webhooks import core
from actors.webhooks.store import Job

logger = logging.getLogger(__name__)

METHOD = "webhookDelivery"  # Name of a charge in the ledger and the usage history.
_HOLDS_MAX = 3  # By a guess, by the price list that the owner told, and once more where that changed meanwhile.
# A request begins at most so long after its hold was asked for. It takes 15 s, and a hold lasts 55 s at least
# (`accounts.hold_seconds`), so the charge comes before the hold ends by its time.
BEGIN_SECONDS = 30.0
# The owner may or may not have charged; or the account is suspended, and pays later.
_EXPECTED = (Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, Err.METHOD_NOT_ALLOWED.name)

Owing = Mapping[bytes, Sequence[tuple[int, str]]]  # By account: jobs with their webhooks.


def charge_operation(event_id: str) -> bytes:
    """The operation that charges for an event, however often it is sent."""
    return hashlib.sha256(f"webhook delivery {event_id}".encode()).digest()[:OPERATION_BYTES]


class DeliveryPayments:
    """lists: the price lists of the settings."""

    def __init__(
        self,
        accounts: OwnersClient,
        clock: Clock,
        metrics: Metrics,
        lists: Mapping[str, PriceList] | None = None,
    ) -> None:
        self._accounts, self._clock, self._metrics = accounts, clock, metrics
        self._lists, self._told = lists or {}, ToldLists()
        self._begin_until: dict[int, float] = {}  # By held job.
        self._credits: dict[int, int] = {}  # Held price by job.

    async def hold(self, jobs: Sequence[Job]) -> set[int]:
        """Hold the price of each job that is not free. Returns the ids of the jobs that may be sent."""
        until = self._clock.monotonic() + BEGIN_SECONDS
        wanted: Owing = _by_account(jobs)
        granted = {job.id for job in jobs if job.is_free}
        for _ in range(_HOLDS_MAX):
            wanted = await self._hold(wanted, until, granted)
            if not wanted:
                break
        return granted

    async def _hold(self, wanted: Owing, until: float, granted: set[int]) -> Owing:
        """Hold what is wanted, add the jobs that are held to `granted`, and return what has to be asked for once more,
        as its account has another price list."""
        commands = [
            HoldOperations(pubkey, _operations(owed), self.price_of(pubkey), self._list_of(pubkey).name)
            for pubkey, owed in wanted.items()
        ]
        again: dict[bytes, Sequence[tuple[int, str]]] = {}
        for command, reply in zip(commands, await self._accounts.ask_many(commands), strict=True):
            owed = wanted[command.pubkey]
            if reply.refusal == OTHER_PRICES:
                self._told.learn(ProvenProof(command.pubkey), reply.detail)
                again[command.pubkey] = owed
                continue
            held = {job for (job, _), is_held in zip(owed, reply.value or (), strict=False) if is_held}
            self._begin_until |= dict.fromkeys(held, until)
            self._credits |= dict.fromkeys(held, command.credits_each)
            granted |= held
        return again

    def price_of(self, pubkey: bytes) -> int:
        """Return the price of a delivery for this account, as far as is known here."""
        return self._list_of(pubkey).credits(METHOD, WEBHOOK_DELIVERY_CREDITS)

    def _list_of(self, pubkey: bytes) -> PriceList:
        if not self._told.names:
            return PUBLIC
        name = self._told.of(ProvenProof(pubkey))
        return self._lists.get(name) or PriceList(name)

    def may_begin(self, job: Job) -> bool:
        """Return whether this job's hold lasts until its charge if its request begins now."""
        return job.is_free or self._clock.monotonic() < self._begin_until.get(job.id, 0.0)

    def forget(self, jobs: Sequence[Job]) -> None:
        """Forget ended requests without releasing their holds: another dispatcher that sends them again uses holds of
        the same names."""
        for job in jobs:
            self._begin_until.pop(job.id, None)
            self._credits.pop(job.id, None)

    async def settle(self, delivered: Sequence[Job], undelivered: Sequence[Job]) -> set[int]:
        """Charge for the delivered jobs, and release the holds of the others. Returns the ids of the jobs that are
        charged or free."""
        for job in (*delivered, *undelivered):
            self._begin_until.pop(job.id, None)
        free = {job.id for job in delivered if job.is_free}
        return free | await self.charge(_by_account(delivered), _by_account(undelivered))

    async def charge(self, owing: Owing, released: Owing | None = None) -> set[int]:
        """Charge each event once for ever, at the price that is held. Returns the ids of the jobs that are charged.

        An event whose hold this dispatcher does not know, as its own predecessor made it, costs what everybody pays:
        one credit cannot be more than a list says.
        """
        released = released or {}
        by_price: dict[tuple[bytes, int], list[tuple[int, str]]] = {}
        for pubkey, owed in owing.items():
            for each in owed:
                credits = self._credits.pop(each[0], WEBHOOK_DELIVERY_CREDITS)
                by_price.setdefault((pubkey, credits), []).append(each)
        for job, _ in itertools.chain.from_iterable(released.values()):
            self._credits.pop(job, None)
        places = [*by_price, *((pubkey, WEBHOOK_DELIVERY_CREDITS) for pubkey in released)]
        commands = [
            ChargeOperations(pubkey, _operations(by_price[pubkey, credits]), METHOD, credits)
            for pubkey, credits in by_price
        ]
        commands += [
            ChargeOperations(pubkey, (), METHOD, WEBHOOK_DELIVERY_CREDITS, _operations(ended))
            for pubkey, ended in released.items()
        ]
        charged: set[int] = set()
        for place, reply in zip(places, await self._accounts.ask_many(commands), strict=True):
            for (job, _), is_charged in zip(by_price.get(place, ()), reply.value or (), strict=False):
                if is_charged:
                    charged.add(job)
                    self._metrics.charged(METHOD, place[1])
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
