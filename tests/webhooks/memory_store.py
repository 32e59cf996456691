"""A store of webhooks in memory; it passes the tests of the one in PostgreSQL (test_store.py)."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from actors.accounts.outbox import Announcement
from actors.webhooks.core import ATTEMPTS_MAX, REST_MS_MAX, REST_MS_MIN, JobState
from actors.webhooks.payloads import QueuedEvent, lifecycle_event
from actors.webhooks.registrations import WEBHOOKS_MAX, Change, Webhook
from actors.webhooks.slices import SLICES, slice_of
from actors.webhooks.store import (
    ANY_BYTES,
    JOBS_WAITING_MAX,
    PAUSED_JOBS_MAX,
    Dropped,
    Job,
    JobResult,
    LoggedJob,
    QueueFigures,
    Room,
    SealedSecrets,
    SourceCursor,
)

from .kept_webhooks import KeptHook, KeptJob, fails, matches

ALL = frozenset(range(SLICES))
_LOOKED_AT_MAX = 256  # Webhooks of one claim.
_OPEN = (JobState.WAITING, JobState.LEASED)
_WORKED = (JobState.DELIVERED, JobState.UNPAID)
_REPLAYABLE = (JobState.DELIVERED, JobState.FAILED, JobState.EXPIRED)


class MemoryWebhookStore:
    def __init__(self, jobs_waiting_max: int = JOBS_WAITING_MAX, paused_jobs_max: int = PAUSED_JOBS_MAX) -> None:
        self.hooks: dict[str, KeptHook] = {}
        self.events: dict[int, QueuedEvent] = {}
        self.jobs: dict[int, KeptJob] = {}
        self.outbox: list[Announcement] = []
        self.owing: dict[bytes, int] = {}  # Account to its next look.
        self.paused_ms: dict[bytes, int] = {}  # And since when.
        self._cursor = SourceCursor()
        self._jobs_waiting_max, self._paused_jobs_max = jobs_waiting_max, paused_jobs_max
        self._numbers = 0

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _of(self, hook: str, *states: int) -> list[KeptJob]:
        return [job for job in self.jobs.values() if job.hook == hook and (not states or job.state in states)]

    # --- registrations

    async def create(self, webhook: Webhook, sealed: bytes) -> bool:
        if len(await self.of_account(webhook.pubkey)) >= WEBHOOKS_MAX:
            return False
        self.hooks[webhook.id] = KeptHook(webhook, SealedSecrets(sealed, [], []))
        return True

    async def registered(self, pubkey: bytes) -> tuple[int, int]:
        accounts = [hook.record.pubkey for hook in self.hooks.values() if hook.record.status != "deleted"]
        return accounts.count(pubkey), len(accounts)

    async def of_account(self, pubkey: bytes) -> list[Webhook]:
        found = [hook.record for name, hook in self.hooks.items() if self._own(pubkey, name)]
        return sorted(found, key=lambda record: (record.created_ms, record.id))

    def _own(self, pubkey: bytes, webhook_id: str) -> KeptHook | None:
        hook = self.hooks.get(webhook_id)
        is_own = hook is not None and hook.record.pubkey == pubkey and hook.record.status != "deleted"
        return hook if is_own else None

    async def find(self, pubkey: bytes, webhook_id: str) -> Webhook | None:
        hook = self._own(pubkey, webhook_id)
        return None if hook is None else hook.record

    async def delete(self, pubkey: bytes, webhook_id: str, now_ms: int) -> bool:
        hook = self._own(pubkey, webhook_id)
        if hook is None:
            return False
        hook.record = replace(hook.record, status="deleted", filter=replace(hook.record.filter, wallets=None))
        hook.secrets, hook.look_ms = SealedSecrets(b"", [], []), None
        kept = (JobState.LEASED, JobState.UNPAID)
        self.jobs = {number: job for number, job in self.jobs.items() if job.hook != webhook_id or job.state in kept}
        self._bury(now_ms)
        return True

    def _bury(self, now_ms: int) -> None:
        """Remove deleted webhooks that owe nothing any more."""
        for name in [name for name, hook in self.hooks.items() if hook.record.status == "deleted"]:
            under_way = [job for job in self._of(name, JobState.LEASED) if job.due_ms > now_ms]
            if not under_way and not self._of(name, JobState.UNPAID):
                del self.hooks[name]
                self.jobs = {number: job for number, job in self.jobs.items() if job.hook != name}

    async def secrets(self, webhook_id: str) -> SealedSecrets | None:
        hook = self.hooks.get(webhook_id)
        return None if hook is None else hook.secrets

    async def rotate(
        self, pubkey: bytes, webhook_id: str, sealed: bytes, now_ms: int, until_ms: int, previous_max: int
    ) -> int | None:
        hook = self._own(pubkey, webhook_id)
        if hook is None:
            return None
        pairs = zip(hook.secrets.previous, hook.secrets.previous_until_ms, strict=True)
        valid = [(secret, until) for secret, until in pairs if until > now_ms]
        if len(valid) >= previous_max:
            return valid[-1][1]
        valid.insert(0, (hook.secrets.secret, until_ms))
        hook.secrets = SealedSecrets(sealed, [pair[0] for pair in valid], [pair[1] for pair in valid])
        return 0

    async def change(self, pubkey: bytes, webhook_id: str, change: Change, now_ms: int) -> Webhook | None:
        hook = self._own(pubkey, webhook_id)
        if hook is None:
            return None
        if change.filter is not None:
            hook.record = replace(hook.record, filter=change.filter)
        if change.enable is False:
            hook.record = replace(hook.record, status="disabled", disabled_reason="by its owner")
        elif change.enable:
            hook.record = replace(hook.record, status="active", disabled_reason=None)
            hook.failing_since_ms, hook.rest_until_ms = None, 0
            if self._of(webhook_id, *_OPEN):
                hook.look_ms = now_ms
        return hook.record

    async def log(self, webhook_id: str, before: int | None, limit: int, bytes_max: int = ANY_BYTES) -> list[LoggedJob]:
        found = [job for job in self._of(webhook_id) if before is None or job.id < before]
        newest = sorted(found, key=lambda job: -job.id)[:limit]
        newer = accumulate((sum(len(answer) for *_, answer in job.tried) for job in newest), initial=0)
        return [job.logged(size <= max(bytes_max, 0)) for job, size in zip(newest, newer, strict=False)]

    async def dropped(self, webhook_id: str) -> Dropped:
        hook = self.hooks.get(webhook_id)
        return Dropped(0, None) if hook is None else hook.dropped

    async def replay(
        self, webhook_id: str, jobs: Sequence[int] | None, from_ms: int, to_ms: int, now_ms: int, jobs_max: int
    ) -> int:
        room = max(0, jobs_max - len(self._of(webhook_id, *_OPEN)))
        again = [
            job
            for job in self._of(webhook_id, *_REPLAYABLE)
            if (from_ms <= job.created_ms <= to_ms if jobs is None else job.id in jobs)
        ][:room]
        for job in again:
            job.state, job.attempts, job.due_ms = JobState.WAITING, 0, now_ms
            job.tried = sorted(job.tried)[-ATTEMPTS_MAX:]
        if again:
            self._look(webhook_id, now_ms)
        return len(again)

    def _look(self, hook: str, now_ms: int) -> None:
        before = self.hooks[hook].look_ms
        self.hooks[hook].look_ms = now_ms if before is None else min(before, now_ms)

    # --- events

    async def queue(self, events: Sequence[QueuedEvent], now_ms: int, cursor: SourceCursor | None = None) -> int:
        return self._queue(events, now_ms, cursor)

    def _queue(self, events: Sequence[QueuedEvent], now_ms: int, cursor: SourceCursor | None) -> int:
        made = 0
        causes = {event.cause for event in self.events.values()}
        for event in events:
            hooks = [hook for hook in self.hooks.values() if matches(hook.record, event)]
            if event.cause in causes or not hooks:
                continue
            causes.add(event.cause)
            number = self._number()
            self.events[number] = event
            for hook in hooks:
                is_paused = hook.record.pubkey in self.owing
                most = min(self._jobs_waiting_max, self._paused_jobs_max) if is_paused else self._jobs_waiting_max
                if len(self._of(hook.record.id, *_OPEN)) >= most:
                    hook.dropped = Dropped(hook.dropped.events + 1, now_ms)
                    continue
                job = KeptJob(self._number(), hook.record.id, number, now_ms, now_ms)
                self.jobs[job.id] = job
                made += 1
            for hook in hooks:
                self._look(hook.record.id, now_ms)
        if cursor is not None and cursor.log_cursor is not None:
            self._cursor = self._cursor._replace(log_cursor=cursor.log_cursor)
        elif cursor is not None and cursor.slot is not None:
            self._cursor = self._cursor._replace(slot=max(self._cursor.slot or 0, cursor.slot))
        return made

    async def take_account_events(self, limit: int, now_ms: int) -> int:
        taken, self.outbox = self.outbox[:limit], self.outbox[limit:]
        self._queue([lifecycle_event(*each) for each in taken], now_ms, None)
        return len(taken)

    async def cursor(self) -> SourceCursor:
        return self._cursor

    async def watched(self) -> frozenset[str]:
        on_chain = ("account", "program", "my_account")
        records = [hook.record for hook in self.hooks.values() if hook.record.status == "active"]
        return frozenset(each.filter.subject for each in records if each.filter.filter_type in on_chain)

    async def named_wallets(self, paused_before_ms: int) -> dict[bytes, frozenset[str]]:
        gone = {account for account, since_ms in self.paused_ms.items() if since_ms < paused_before_ms}
        named: dict[bytes, frozenset[str]] = {}
        for record in (hook.record for hook in self.hooks.values()):
            if record.filter.wallets and record.pubkey not in gone:
                named[record.pubkey] = named.get(record.pubkey, frozenset()) | frozenset(record.filter.wallets)
        return named

    # --- deliveries

    async def claim(self, claimer: str, now_ms: int, until_ms: int, room: Room, slices: Any = ALL) -> list[Job]:
        free, failing_free = room.jobs, room.failing
        before = dict(zip(room.holders, room.held, strict=True))
        places = Counter(before)
        ready = [
            hook
            for hook in self.hooks.values()
            if hook.look_ms is not None
            and hook.look_ms <= now_ms
            and hook.rest_until_ms <= now_ms
            and hook.record.status == "active"
            and slice_of(hook.record.pubkey) in slices
            and (failing_free > 0 or not fails(hook))
            and (hook.record.filter.filter_type == "lifecycle" or hook.record.pubkey not in self.owing)
        ]
        claimed: list[Job] = []
        turns = sorted(ready, key=lambda each: (fails(each), before.get(each.record.pubkey, 0), each.look_ms))
        for hook in turns[:_LOOKED_AT_MAX]:
            failing, account = fails(hook), hook.record.pubkey
            if free <= 0 or (failing and failing_free <= 0):
                break
            leased = [job for job in self._of(hook.record.id, JobState.LEASED) if job.due_ms > now_ms]
            may_lease_ahead = places[account] < min(room.share, free)
            of_one = 1 if failing else room.each if may_lease_ahead else min(room.each, room.at_once)
            own_room = of_one - len(leased)
            if hook.record.filter.filter_type == "lifecycle" and leased:
                own_room = min(0, own_room)
            due = sorted(
                (job for job in self._of(hook.record.id, *_OPEN) if job.due_ms <= now_ms),
                key=lambda job: (job.due_ms, job.id),
            )[: max(0, min(free, own_room))]
            for job in sorted(due, key=lambda job: job.id):
                job.state, job.due_ms, job.lease, job.leased_by = JobState.LEASED, until_ms, job.lease + 1, claimer
                claimed.append(self._leased(job, hook, now_ms))
            free, places[account] = free - len(due), places[account] + len(due)
            if failing:
                failing_free -= len(due)
            later = [job.due_ms for job in self._of(hook.record.id, *_OPEN) if job.due_ms > now_ms]
            is_cut = len(due) < own_room and free <= 0
            hook.look_ms = now_ms if is_cut else min(later, default=None)
        return claimed

    def _leased(self, job: KeptJob, hook: KeptHook, now_ms: int) -> Job:
        since_ms = now_ms if hook.failing_since_ms is None and fails(hook) else hook.failing_since_ms
        event, record = self.events[job.event], hook.record
        return Job(
            *(job.id, job.lease, job.attempts, record.id, record.pubkey, record.url, record.filter.filter_type),
            *(*hook.secrets, since_ms, event.body, event.is_free),
        )

    async def finish(self, results: Sequence[JobResult], now_ms: int) -> None:
        done: dict[str, list[JobResult]] = {}
        touched = {self.jobs[result.job].hook for result in results if result.job in self.jobs}
        for result in results:
            job = self.jobs.get(result.job)
            if job is None or job.state != JobState.LEASED or job.lease != result.lease:
                continue
            job.state, job.due_ms, job.attempts = result.state, result.due_ms, result.attempts
            job.tried.append((result.at_ms, result.latency_ms, result.http_status, result.error, result.answer))
            if result.state == JobState.UNPAID:
                self._pause(self.hooks[job.hook].record.pubkey, now_ms, now_ms)
            done.setdefault(job.hook, []).append(result)
        for name, kept in done.items():
            self._after(self.hooks[name], kept, now_ms)
        for name in touched:
            self.hooks[name].look_ms = min((job.due_ms for job in self._of(name, *_OPEN)), default=None)

    def _after(self, hook: KeptHook, kept: Sequence[JobResult], now_ms: int) -> None:
        newest = max(kept, key=lambda result: (result.at_ms + result.latency_ms, result.job))
        status = "delivered" if newest.state in _WORKED else "retrying" if newest.state == 0 else "failed"
        since_ms = hook.failing_since_ms or min(result.at_ms for result in kept)
        worked = any(result.state in _WORKED for result in kept)
        hook.failing_since_ms = None if worked else since_ms
        hook.rest_until_ms = 0 if worked else now_ms + max(REST_MS_MIN, min(REST_MS_MAX, (now_ms - since_ms) // 4))
        changes: dict[str, Any] = {}
        disable = min((result.disable for result in kept if result.disable is not None), default=None)
        if disable is not None and hook.record.status != "deleted":
            changes = {"status": "disabled", "disabled_reason": disable}
        hook.record = replace(
            hook.record,
            last_job=newest.job,
            last_status=status,
            last_http_status=newest.http_status,
            last_at_ms=newest.at_ms,
            **changes,
        )

    async def release(self, jobs: Sequence[int], now_ms: int) -> None:
        for number in jobs:
            job = self.jobs.get(number)
            if job is None:
                continue
            if job.state == JobState.LEASED:
                job.state, job.due_ms = JobState.WAITING, now_ms if job.attempts else min(job.created_ms, now_ms)
            self._look(job.hook, now_ms)

    async def recover(self, slices: Collection[int], now_ms: int) -> int:
        names = [name for name, hook in self.hooks.items() if slice_of(hook.record.pubkey) in slices]
        mine = [job.id for name in names for job in self._of(name, JobState.LEASED)]
        await self.release(mine, now_ms)
        return len(mine)

    def account_of(self, job: int) -> bytes | None:
        return self.hooks[self.jobs[job].hook].record.pubkey if job in self.jobs else None

    async def put_off(self, jobs: Sequence[int], until_ms: int, now_ms: int) -> None:
        await self.release(jobs, now_ms)
        for number in jobs:
            if number in self.jobs:
                hook = self.hooks[self.jobs[number].hook]
                hook.rest_until_ms = max(hook.rest_until_ms, until_ms)

    # --- accounts without credits

    async def pause(self, accounts: Sequence[bytes], now_ms: int, look_ms: int) -> None:
        for account in accounts:
            self._pause(account, now_ms, look_ms)

    def _pause(self, account: bytes, now_ms: int, look_ms: int) -> None:
        if account not in self.owing:
            self.owing[account], self.paused_ms[account] = look_ms, now_ms

    async def wallet_accounts(self) -> list[bytes]:
        records = [hook.record for hook in self.hooks.values() if hook.record.filter.wallets is not None]
        return list({record.pubkey for record in records} - self.owing.keys())

    async def debts(self, now_ms: int, look_ms: int, limit: int, slices: Collection[int] = ALL) -> list[bytes]:
        own = [(at, pubkey) for pubkey, at in self.owing.items() if slice_of(pubkey) in slices]
        due = sorted(each for each in own if each[0] <= now_ms)[:limit]
        for _, pubkey in due:
            self.owing[pubkey] = look_ms
        return [pubkey for _, pubkey in due]

    async def unpaid(self, pubkey: bytes, limit: int) -> list[tuple[int, str]]:
        found = [
            (job.id, job.hook)
            for job in self.jobs.values()
            if job.state == JobState.UNPAID and self.hooks[job.hook].record.pubkey == pubkey
        ]
        return sorted(found)[:limit]

    async def paid(self, pubkey: bytes, jobs: Sequence[int]) -> bool:
        for number in jobs:
            if number in self.jobs and self.jobs[number].state == JobState.UNPAID:
                self.jobs[number].state = JobState.DELIVERED
        if await self.unpaid(pubkey, 1):
            return False
        self.paused_ms.pop(pubkey, None)
        return self.owing.pop(pubkey, None) is not None

    # --- keeping order

    async def expire(self, before_ms: int, now_ms: int) -> int:
        old = [
            job
            for job in self.jobs.values()
            if job.state == JobState.WAITING and job.created_ms < before_ms and self._is_held(self.hooks[job.hook])
        ]
        for job in old:
            job.state, job.due_ms = JobState.EXPIRED, now_ms
        self._bury(now_ms)
        return len(old)

    def _is_held(self, hook: KeptHook) -> bool:
        is_paused = hook.record.filter.filter_type != "lifecycle" and hook.record.pubkey in self.owing
        return hook.record.status != "active" or is_paused

    async def forget(self, before_ms: int) -> int:
        old = [job.id for job in self.jobs.values() if job.state in _REPLAYABLE and job.due_ms < before_ms]
        for number in old:
            del self.jobs[number]
        needed = {job.event for job in self.jobs.values()}
        alone = [number for number, event in self.events.items() if event.at_ms < before_ms and number not in needed]
        for number in alone:
            del self.events[number]
        return len(old) + len(alone)

    async def figures(self, slices: Collection[int] = ALL) -> QueueFigures:
        names = [name for name, hook in self.hooks.items() if slice_of(hook.record.pubkey) in slices]
        waiting = [job for name in names for job in self._of(name, *_OPEN)]
        active = [job.created_ms for job in waiting if self.hooks[job.hook].record.status == "active"]
        paused = sum(slice_of(account) in slices for account in self.owing)
        return QueueFigures(len(waiting), min(active, default=None), paused)
