"""The dispatcher: leases jobs, sends them, charges for the first success of each, and stores the results.

Implements: interface, "Webhook deliveries"; decisions, "webhook retries", "webhook delivery price";
threats 27 to 29; design, "Owners, for every kind of actor". A shell: core.py decides about an attempt, lanes.py and
places.py about fairness, and functions.sql claims.
Order of one delivery: lease, have its credit held, send, have the hold posted or released, keep. After a kill in
between it is sent once more; the charge is named by the event, so it is made once. A job without a hold is given back
unsent. Several dispatchers share the accounts by slices; the dispatcher of one slice also reads the sources of events,
and cleans up.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from actors.accounts.api import OwnersClient
from actors.clock import Clock
from actors.methods.price_lists import PriceList
from actors.ownership.held import HeldSlices
from actors.telemetry.metrics import Metrics
from actors.webhooks import core
from actors.webhooks.core import Attempt, JobState
from actors.webhooks.lanes import AT_ONCE_MAX, Lanes
from actors.webhooks.payments import DeliveryPayments, jobs_by_account
from actors.webhooks.places import Places, paid_places_max
from actors.webhooks.sealing import CannotUnseal, SecretSeal
from actors.webhooks.signing import delivery_headers
from actors.webhooks.slices import SOURCES_SLICE, slice_of
from actors.webhooks.standings import Standings
from actors.webhooks.store import Job, JobResult, QueueFigures, WebhookStore, WebhooksUnavailable

logger = logging.getLogger(__name__)

LEASE_MS = 120_000
_LIFECYCLE_SECONDS = 0.5
_EVENTS_AT_ONCE_MAX = 500
_RESULTS_AT_ONCE_MAX = 500
_DEBT_SECONDS = 10.0  # Interval of attempts to charge an account without credits.
_DEBTS_AT_ONCE_MAX = 50
_BEYOND_SECONDS = 1.0  # Pause before jobs are leased again that exceeded what an account's balance pays at once.
_CARE_SECONDS = 60.0
_FIGURES_SECONDS = 5.0
_PAUSE_SECONDS = 1.0  # Pause after a failure of the store.
FINISH_SECONDS = 16.0  # Time limit of a move: a request takes 15 s at most, and then its result is stored.


class DeliverySender(Protocol):
    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt: ...


class WebhookDispatcher:
    """name: of this dispatcher. held: its slices; jobs leased of a new slice are given back first. kept_ms: how long
    ended jobs are kept. idle_seconds: interval of looking for jobs when there are none."""

    def __init__(
        self,
        name: str,
        store: WebhookStore,
        sender: DeliverySender,
        accounts: OwnersClient,
        seal: SecretSeal,
        clock: Clock,
        metrics: Metrics,
        held: HeldSlices,
        *,
        kept_ms: int,
        lists: Mapping[str, PriceList] | None = None,
        jitter: Callable[[float, float], float] = random.uniform,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        idle_seconds: float = 0.25,
    ) -> None:
        self._name, self._store, self._sender = name, store, sender
        self._seal, self._clock, self._metrics = seal, clock, metrics
        self._kept_ms, self._jitter, self._sleep, self._idle_seconds = kept_ms, jitter, sleep, idle_seconds
        self._held, self._fresh = held, set(held.serving())  # Slices not recovered yet.
        self._claiming, self._was_kept = asyncio.Lock(), asyncio.Event()  # The event is set when results were stored.
        self._standings = Standings(accounts)
        self._payments = DeliveryPayments(accounts, clock, metrics, lists)
        self._stopped: set[str] = set()  # Webhooks withdrawn since the newest claim began.
        self._lanes: Lanes[Job] = Lanes(lambda job: job.webhook_id, _at_once_max)
        self._requests: set[asyncio.Task[None]] = set()
        self._ended: list[tuple[Job, Attempt]] = []
        self._given_back: list[Job] = []
        self._has_ended = asyncio.Event()
        self.wake = asyncio.Event()  # Set by the sources of events when there are new jobs.
        self.places = Places()
        self.figures = QueueFigures(0, None, 0)
        self._tasks: list[asyncio.Task[None]] = []
        for figure, text, read in (
            ("queue_depth", "Deliveries that wait.", lambda: self.figures.waiting),
            (
                "oldest_undelivered_seconds",
                "Age of the oldest one.",
                lambda: self.figures.oldest_seconds(clock.now_ms()),
            ),
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
        """Repeat the work at once while it returns True, and otherwise after a pause."""
        while True:
            try:
                more = await work()
            except WebhooksUnavailable as error:
                logger.warning("webhooks: %s", error)
                await self._sleep(_PAUSE_SECONDS)
                continue
            except Exception:  # A bug must not stop the deliveries of others.
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

    # --- slices

    def begin(self, slices: Sequence[int]) -> None:
        """Continue with the stored jobs of these slices."""
        self._fresh.update(slices)
        self.wake.set()

    async def finish(self, slices: Collection[int]) -> None:
        """Send nothing more of these slices, and wait until results of running requests are stored.

        Does not wait longer than a request may take: the next owner of the slices sends the remaining jobs again."""
        self._fresh.difference_update(slices)
        self._give_back(self._lanes.withdraw_where(lambda job: slice_of(job.pubkey) in slices))
        self._has_ended.set()
        waited_for = {number for number in slices if self._held.epoch(number) is not None}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                async with self._claiming:  # A running claim gives back the jobs that it leased of them.
                    pass
                left = [account for account in self.places.accounts if slice_of(account) in waited_for]
                while any(map(self.places.of, left)):
                    self._was_kept.clear()
                    await self._was_kept.wait()

    async def _recover(self) -> None:
        fresh, self._fresh = self._fresh, set()
        try:
            count = await self._store.recover(fresh, self._clock.now_ms())
        except BaseException:
            self._fresh |= fresh
            raise
        if count:
            logger.warning("webhooks: %d deliveries of another dispatcher are sent again", count)

    def _is_mine(self, job: Job) -> bool:
        return self._held.epoch(slice_of(job.pubkey)) is not None

    def _drop_lost(self) -> None:
        """Leave jobs to the dispatcher that now has their slices: it sends them again, and pays for them."""
        lost = [job for job in (*self._given_back, *(job for job, _ in self._ended)) if not self._is_mine(job)]
        self._ended = [(job, attempt) for job, attempt in self._ended if self._is_mine(job)]
        self._given_back = list(filter(self._is_mine, self._given_back))
        self._payments.forget(lost)
        self.places.free(lost)
        self._was_kept.set()

    # --- jobs

    async def claim_once(self) -> bool:
        """Lease jobs that are due, and begin to send them. True: there may be more."""
        async with self._claiming:
            return await self._claim()

    async def _claim(self) -> bool:
        if self._fresh:
            await self._recover()
        room = self.places.room()
        if not room.jobs or not self._held.serving():
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
        # Skip jobs whose webhook was disabled, or whose slice was given away, while the account was asked about.
        ready = [job for job in payable if job.webhook_id not in self._stopped]
        ready = [job for job in ready if self._held.serves(slice_of(job.pubkey))]
        begun = {job.id for job in ready}
        self._give_back([job for job in payable if job.id not in begun])
        self._has_ended.set()
        self._begin(self._lanes.add(ready))
        return bool(jobs)

    async def _payable(self, jobs: Sequence[Job], now_ms: int) -> Sequence[Job]:
        """Return the jobs that may be sent; the others are put off, and accounts that pay for nothing now are paused.

        A job that is free needs an account that is not suspended. One that costs something needs a hold, and all of an
        account together a tenth of its balance, so that slow receivers leave credits for its calls.
        """
        standings = await self._standings.of([job.pubkey for job in jobs])
        off: list[Job] = []
        paused: list[bytes] = []
        for pubkey, mine in jobs_by_account(jobs).items():
            standing, paid = standings.get(pubkey), [job for job in mine if not job.is_free]
            most = 0  # Also if the standing is unknown: nothing is delivered without it.
            if standing is not None and standing.is_active and not standing.is_stopped:
                most = paid_places_max(standing.balance, self._payments.price_of(pubkey))
            elif standing is not None and not standing.is_active:
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
            # It waited too long behind slow requests; it is sent after a new hold.
            if not self._payments.may_begin(job):
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
        """Give back the waiting jobs of a webhook that was disabled, deleted or rotated; running requests end by
        themselves."""
        self._stopped.add(webhook_id)
        self._give_back(self._lanes.withdraw(webhook_id))
        self._has_ended.set()

    def _take_back(self, accounts: Collection[bytes]) -> None:
        """Give back waiting jobs of these accounts, because they do not pay."""
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
        except Exception:  # A fault of this service must not leave the job without an end.
            logger.exception("webhooks: a delivery failed in an unexpected way")
            return Attempt(now_ms, 0, None, "internal error")

    async def finish_once(self) -> bool:
        """Charge for delivered jobs, and store the result of each attempt."""
        await self._has_ended.wait()
        if self._given_back or not all(attempt.is_success for _, attempt in self._ended):
            await self._store.confirm()  # Settling releases holds, and another dispatcher's holds have the same names.
        self._drop_lost()
        ended, self._ended = self._ended[:_RESULTS_AT_ONCE_MAX], self._ended[_RESULTS_AT_ONCE_MAX:]
        given_back, self._given_back = self._given_back, []
        if not self._ended:
            self._has_ended.clear()
        try:
            delivered = [job for job, attempt in ended if attempt.is_success]
            failed = [job for job, attempt in ended if not attempt.is_success]
            # Holds end before their leases: the next dispatcher that leases a job makes a new hold.
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
        self._was_kept.set()
        for _, attempt in ended:
            self._metrics.webhook_attempts.add((attempt.result,))
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
        if not self._held.serves(SOURCES_SLICE):
            return False
        taken = await self._store.take_account_events(_EVENTS_AT_ONCE_MAX, self._clock.now_ms())
        return taken == _EVENTS_AT_ONCE_MAX

    async def collect_debts_once(self) -> bool:
        """Charge deliveries that could not be charged before. A paying account gets its deliveries again."""
        now_ms, price_of = self._clock.now_ms(), self._payments.price_of
        accounts = await self._store.debts(now_ms, now_ms + int(_DEBT_SECONDS * 1_000), _DEBTS_AT_ONCE_MAX)
        standings = await self._standings.of(accounts)
        for pubkey in accounts:
            standing = standings.get(pubkey)
            if standing is None or not standing.is_active or standing.balance < price_of(pubkey):
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
        """End jobs that waited too long, remove jobs that ended long ago, and pause accounts that hold places of
        wallets without paying. True: there may be more."""
        now_ms, price_of = self._clock.now_ms(), self._payments.price_of
        named = [one for one in await self._store.wallet_accounts() if self._held.serves(slice_of(one))]
        standings = await self._standings.of(named)
        found = standings.values()
        idle = [each.pubkey for each in found if not each.is_active or each.balance < price_of(each.pubkey)]
        if idle:
            await self._store.pause(idle, now_ms, now_ms + int(_DEBT_SECONDS * 1_000))
        if not self._held.serves(SOURCES_SLICE):
            return False
        expired = await self._store.expire(now_ms - core.KEPT_MS_MAX, now_ms)
        return bool(expired + await self._store.forget(now_ms - self._kept_ms))


def _at_once_max(job: Job) -> int:
    """Return 1 for lifecycle events, which have an order, and for a failing webhook."""
    return 1 if job.filter_type == "lifecycle" or job.failing_since_ms is not None else AT_ONCE_MAX
