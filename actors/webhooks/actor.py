"""The dispatcher: leases jobs, sends them, charges for the first success of each, and keeps what came of them.

Implements: interface, "Webhook deliveries"; decisions, "webhook retries", "webhook delivery price";
threats 27 to 29. A shell: core.py decides about an attempt, lanes.py and places.py about fairness, and
functions.sql claims.
Order of one delivery: lease, have its credit held, send, have the hold posted or released, keep. A kill in between
sends it once more; the charge is named by the event, so it is made once. What is not held is given back unsent.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from actors.accounts.api import OwnersClient
from actors.clock import Clock
from actors.methods.prices import WEBHOOK_DELIVERY_CREDITS
from actors.telemetry.metrics import Metrics
from actors.webhooks import core
from actors.webhooks.core import Attempt, JobState
from actors.webhooks.lanes import AT_ONCE_MAX, Lanes
from actors.webhooks.payments import DeliveryPayments
from actors.webhooks.places import Places, paid_places_max
from actors.webhooks.sealing import CannotUnseal, SecretSeal
from actors.webhooks.signing import delivery_headers
from actors.webhooks.standings import Standings
from actors.webhooks.store import Job, JobResult, QueueFigures, WebhookStore, WebhooksUnavailable

logger = logging.getLogger(__name__)

LEASE_MS = 120_000
_LIFECYCLE_SECONDS = 0.5
_EVENTS_AT_ONCE_MAX = 500
_RESULTS_AT_ONCE_MAX = 500
_DEBT_SECONDS = 10.0  # Between two tries to charge an account without credits.
_DEBTS_AT_ONCE_MAX = 50
_BEYOND_SECONDS = 1.0  # Until jobs are leased again that were beyond what an account's balance pays at once.
_CARE_SECONDS = 60.0
_FIGURES_SECONDS = 5.0
_PAUSE_SECONDS = 1.0  # After a failure of the store.


class DeliverySender(Protocol):
    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt: ...


class WebhookDispatcher:
    """name: of this dispatcher; a new one of the same name gives back what its predecessor had leased.

    kept_ms: how long ended jobs are kept. idle_seconds: between two looks for jobs when there are none.
    """

    def __init__(
        self,
        name: str,
        store: WebhookStore,
        sender: DeliverySender,
        accounts: OwnersClient,
        seal: SecretSeal,
        clock: Clock,
        metrics: Metrics,
        *,
        kept_ms: int,
        jitter: Callable[[float, float], float] = random.uniform,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        idle_seconds: float = 0.25,
    ) -> None:
        self._name, self._store, self._sender = name, store, sender
        self._seal, self._clock, self._metrics = seal, clock, metrics
        self._kept_ms, self._jitter, self._sleep = kept_ms, jitter, sleep
        self._idle_seconds = idle_seconds
        self._standings = Standings(accounts)
        self._payments = DeliveryPayments(accounts, clock, metrics)
        self._stopped: set[str] = set()  # Webhooks that were withdrawn since the newest claim began.
        self._lanes: Lanes[Job] = Lanes(lambda job: job.webhook_id, _at_once_max)
        self._requests: set[asyncio.Task[None]] = set()
        self._ended: list[tuple[Job, Attempt]] = []
        self._given_back: list[Job] = []
        self._has_ended = asyncio.Event()
        self.wake = asyncio.Event()  # Set by the sources of events: there are new jobs.
        self.places = Places()
        self.figures = QueueFigures(0, None, 0)
        self._tasks: list[asyncio.Task[None]] = []
        for figure, text, read in (
            ("queue_depth", "Deliveries that wait.", lambda: self.figures.waiting),
            ("oldest_undelivered_seconds", "Age of the oldest waiting delivery.", self._oldest_seconds),
            ("paused_accounts", "Accounts without credits for deliveries.", lambda: self.figures.paused_accounts),
            ("requests_under_way", "Requests to webhooks without an answer yet.", lambda: self._lanes.under_way),
        ):
            metrics.watch(f"webhook_{figure}", text, read)

    # --- life

    def start(self) -> None:
        loops = (
            (self.claim_once, self._idle_seconds),
            (self.finish_once, 0.0),
            (self.take_events_once, _LIFECYCLE_SECONDS),
            (self.collect_debts_once, _DEBT_SECONDS),
            (self.look_once, _FIGURES_SECONDS),
            (self.care_once, _CARE_SECONDS),
        )
        self._tasks = [asyncio.create_task(self._for_ever(work, seconds)) for work, seconds in loops]

    async def stop(self) -> None:
        for task in (*self._tasks, *self._requests):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._requests, return_exceptions=True)

    async def _for_ever(self, work: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Do the work again at once while it says that there is more, and else after a pause."""
        if work == self.claim_once:
            await self._recover()
        while True:
            try:
                more = await work()
            except WebhooksUnavailable as error:
                logger.warning("webhooks: %s", error)
                await self._sleep(_PAUSE_SECONDS)
                continue
            except Exception:  # After a bug, deliveries of others must go on.
                logger.exception("webhooks: a round failed")
                await self._sleep(_PAUSE_SECONDS)
                continue
            if work == self.claim_once and not more:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self.wake.wait()
                self.wake.clear()
            elif not more and seconds:
                await self._sleep(seconds)

    async def _recover(self) -> None:
        while True:
            try:
                count = await self._store.release_of(self._name, self._clock.now_ms())
            except WebhooksUnavailable as error:
                logger.warning("webhooks: %s", error)
                await self._sleep(_PAUSE_SECONDS)
                continue
            if count:
                logger.warning("webhooks: %d deliveries of a predecessor are sent again", count)
            return

    # --- jobs

    async def claim_once(self) -> bool:
        """Lease jobs that are due and begin to send them. True: there may be more."""
        room = self.places.room()
        if not room.jobs:
            return False
        now_ms = self._clock.now_ms()
        self._stopped.clear()
        jobs = await self._store.claim(self._name, now_ms, now_ms + LEASE_MS, room)
        self.places.take(jobs)
        try:
            payable = await self._payable(jobs, now_ms)
        except BaseException:
            self._give_back(jobs)
            self._has_ended.set()
            raise
        stopped = [job for job in payable if job.webhook_id in self._stopped]
        if stopped:  # Their owner disabled them while the account was asked about.
            self._give_back(stopped)
            self._has_ended.set()
        self._begin(self._lanes.add([job for job in payable if job.webhook_id not in self._stopped]))
        return bool(jobs)

    async def _payable(self, jobs: Sequence[Job], now_ms: int) -> Sequence[Job]:
        """Return the jobs that may be sent; the others are put off, and accounts that pay for nothing now are paused.

        A job that is free needs an account that is not suspended. One that costs something needs a hold, and all of an
        account together a tenth of its balance, so that slow receivers leave credits for its calls.
        """
        standings = await self._standings.of([job.pubkey for job in jobs])
        off: list[Job] = []
        paused: list[bytes] = []
        for pubkey, mine in _by_account(jobs).items():
            standing, paid = standings.get(pubkey), [job for job in mine if not job.is_free]
            most = 0  # Also where nobody knows: nothing is delivered on trust.
            if standing is not None and standing.is_active:
                most = paid_places_max(standing.balance, WEBHOOK_DELIVERY_CREDITS)
            elif standing is not None:
                off += [job for job in mine if job.is_free]
            off += paid[max(0, most - (self.places.paid_of(pubkey) - len(paid))) :]
            if standing is not None and (paid or not standing.is_active) and not most:
                paused.append(pubkey)
        late = {job.id for job in off}
        held = await self._payments.hold([job for job in jobs if job.id not in late])
        off += [job for job in jobs if job.id not in held and job.id not in late]
        if paused:
            await self._store.pause(paused, now_ms, now_ms + int(_DEBT_SECONDS * 1_000))
        if off:
            await self._store.put_off([job.id for job in off], now_ms + int(_BEYOND_SECONDS * 1_000), now_ms)
            for job in off:
                self.places.attempted(job)
            self.places.free(off)
        return [job for job in jobs if job.id in held]

    def _begin(self, jobs: Sequence[Job]) -> None:
        waiting = list(jobs)
        while waiting:
            job = waiting.pop(0)
            if not self._payments.may_begin(job):  # It waited for slow requests before it; held anew, it is sent.
                ready, _ = self._lanes.ended(job, failed=False)
                waiting += ready
                self._give_back([job])
                self._has_ended.set()
                continue
            task = asyncio.get_running_loop().create_task(self._send(job))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _send(self, job: Job) -> None:
        attempt = await self._attempt(job)
        self.places.attempted(job)
        self._ended.append((job, attempt))
        ready, given_back = self._lanes.ended(job, failed=not attempt.is_success)
        self._give_back(given_back)
        self._has_ended.set()
        self._begin(ready)

    def withdraw(self, webhook_id: str) -> None:
        """Give back what waits for a webhook that was disabled, deleted or rotated; requests under way end by
        themselves."""
        self._stopped.add(webhook_id)
        self._give_back(self._lanes.withdraw(webhook_id))
        self._has_ended.set()

    def _take_back(self, accounts: Collection[bytes]) -> None:
        """Give back what these accounts have ahead of their requests, as they do not pay."""
        if accounts:
            self._give_back(self._lanes.withdraw_where(lambda job: job.pubkey in accounts and not job.is_free))
            self._has_ended.set()

    def _give_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.places.attempted(job)
        self._given_back += jobs

    async def _attempt(self, job: Job) -> Attempt:
        now_ms = self._clock.now_ms()
        try:
            secrets = [self._seal.unseal(sealed, job.webhook_id) for sealed in job.secrets.valid(now_ms)]
        except CannotUnseal as error:
            logger.error("%s: was the cluster's secret changed?", error)
            return Attempt(now_ms, 0, None, "its secret cannot be read; rotate it")
        body = job.body.encode()
        event_id = core.event_id(job.webhook_id, job.id)
        headers = delivery_headers(secrets, job.webhook_id, event_id, now_ms // 1000, body)
        try:
            return await self._sender.send(job.url, headers, body)
        except Exception:  # A fault of ours must not leave the job without an end.
            logger.exception("webhooks: a delivery failed in an unexpected way")
            return Attempt(now_ms, 0, None, "internal error")

    async def finish_once(self) -> bool:
        """Charge for what was delivered, and keep what came of each attempt."""
        await self._has_ended.wait()
        ended, self._ended = self._ended[:_RESULTS_AT_ONCE_MAX], self._ended[_RESULTS_AT_ONCE_MAX:]
        given_back, self._given_back = self._given_back, []
        if not self._ended:
            self._has_ended.clear()
        try:
            delivered = [job for job, attempt in ended if attempt.is_success]
            failed = [job for job, attempt in ended if not attempt.is_success]
            # Holds end before their leases: who leases a job next holds its credit anew.
            charged = await self._payments.settle(delivered, [*failed, *given_back])
            if given_back:
                await self._store.release([job.id for job in given_back], self._clock.now_ms())
                self.places.free(given_back)
                given_back = []
            if ended:
                results = [self._result(job, attempt, job.id in charged) for job, attempt in ended]
                self._take_back({job.pubkey for job in delivered if job.id not in charged})
                await self._store.finish(results, self._clock.now_ms())
        except BaseException:
            self._ended, self._given_back = ended + self._ended, given_back + self._given_back
            self._has_ended.set()
            raise
        self.places.free(job for job, _ in ended)
        for _, attempt in ended:
            self._metrics.webhook_attempts.add((_label(attempt),))
        return True

    def _result(self, job: Job, attempt: Attempt, is_charged: bool) -> JobResult:
        after = core.decide(job.attempts, attempt, job.failing_since_ms, self._jitter(-1, 1))
        state = after.state
        if state is JobState.DELIVERED and not is_charged:
            state = JobState.UNPAID
        what = job.id, job.lease, state, after.due_ms, job.attempts + 1
        return JobResult(
            *what, attempt.at_ms, attempt.latency_ms, attempt.http_status, attempt.error, attempt.answer, after.disable
        )

    # --- the rest

    async def take_events_once(self) -> bool:
        """Queue events of accounts. True: there may be more."""
        taken = await self._store.take_account_events(_EVENTS_AT_ONCE_MAX, self._clock.now_ms())
        return taken == _EVENTS_AT_ONCE_MAX

    async def collect_debts_once(self) -> bool:
        """Charge what could not be charged before. An account that pays again gets its deliveries again."""
        now_ms = self._clock.now_ms()
        accounts = await self._store.debts(now_ms, now_ms + int(_DEBT_SECONDS * 1_000), _DEBTS_AT_ONCE_MAX)
        standings = await self._standings.of(accounts)
        for pubkey in accounts:
            standing = standings.get(pubkey)
            if standing is None or not standing.is_active or standing.balance < WEBHOOK_DELIVERY_CREDITS:
                continue
            unpaid = await self._store.unpaid(pubkey, _RESULTS_AT_ONCE_MAX)
            charged = await self._payments.charge({pubkey: unpaid}) if unpaid else set()
            if await self._store.paid(pubkey, list(charged)):
                logger.info("webhooks: an account has credits again, its deliveries go on")
        return len(accounts) == _DEBTS_AT_ONCE_MAX

    async def look_once(self) -> bool:
        self.figures = await self._store.figures()
        return False

    async def care_once(self) -> bool:
        """End what waited too long, and remove what ended long ago. Pause accounts that hold places of wallets and pay
        for nothing. True: there may be more."""
        now_ms = self._clock.now_ms()
        standings = await self._standings.of(await self._store.wallet_accounts())
        idle = [
            each.pubkey for each in standings.values() if not each.is_active or each.balance < WEBHOOK_DELIVERY_CREDITS
        ]
        if idle:
            await self._store.pause(idle, now_ms, now_ms + int(_DEBT_SECONDS * 1_000))
        expired = await self._store.expire(now_ms - core.KEPT_MS_MAX, now_ms)
        return bool(expired + await self._store.forget(now_ms - self._kept_ms))

    def _oldest_seconds(self) -> float:
        oldest_ms = self.figures.oldest_ms
        return 0.0 if oldest_ms is None else max(0, self._clock.now_ms() - oldest_ms) / 1_000


def _at_once_max(job: Job) -> int:
    """Events of an account's life have an order; a webhook that fails is tried with one request at a time."""
    return 1 if job.filter_type == "lifecycle" or job.failing_since_ms is not None else AT_ONCE_MAX


def _by_account(jobs: Sequence[Job]) -> dict[bytes, list[Job]]:
    found: dict[bytes, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.pubkey, []).append(job)
    return found


def _label(attempt: Attempt) -> str:
    if attempt.http_status is None:
        return "refused" if attempt.error.startswith("refused by") else "no_answer"
    return f"{attempt.http_status // 100}xx" if 100 <= attempt.http_status < 600 else "other"
