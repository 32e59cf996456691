"""What must survive of webhooks: registrations, events, deliveries, the log of attempts. PostgreSQL.

Implements: design, section 5; hostile inputs 26 to 29 (what is kept). Decides nothing. Every failure of the database
raises WebhooksUnavailable. Jobs are leased by skip-locked claims (functions.sql), so several dispatchers may work.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg

from actors.accounts.outbox import take_events
from actors.storage.connections import away_as
from actors.webhooks.core import REST_MS_MAX, REST_MS_MIN
from actors.webhooks.payloads import QueuedEvent, lifecycle_event
from actors.webhooks.registrations import WEBHOOKS_MAX, Change, Webhook, WebhookFilter

JOBS_WAITING_MAX = 10_000  # Of one webhook; events beyond make no job for it.
_WEBHOOK = (
    "id, pubkey, url, filter_type, filter_value, subject, kinds, wallets, status, disabled_reason, created_ms,"
    " last_job, last_status, last_http_status, last_at_ms"
)
_EMPTY_PLACES_MAX = 5_000  # Rows that one statement removes.


class WebhooksUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class Job(NamedTuple):
    """A leased delivery. The secrets are sealed."""

    id: int
    lease: int
    attempts: int
    webhook_id: str
    pubkey: bytes
    url: str
    filter_type: str
    secret: bytes
    previous_secret: bytes | None
    previous_until_ms: int
    failing_since_ms: int | None
    body: str


class JobResult(NamedTuple):
    """What came of one attempt, as webhooks_finish() takes it. attempts: made so far."""

    job: int
    lease: int
    state: int
    due_ms: int
    attempts: int
    at_ms: int
    latency_ms: int
    http_status: int | None
    error: str
    answer: bytes
    disable: str | None


class SealedSecrets(NamedTuple):
    secret: bytes
    previous: bytes | None
    previous_until_ms: int


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A delivery with its attempts, oldest first: (at_ms, latency_ms, http_status, error, answer)."""

    id: int
    state: int
    attempts: int
    created_ms: int
    due_ms: int
    tried: tuple[tuple[int, int, int | None, str, bytes], ...]


class QueueFigures(NamedTuple):
    waiting: int
    oldest_ms: int | None  # When the oldest waiting job was made.
    paused_accounts: int


class PostgresWebhookStore:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    # --- registrations

    async def create(self, webhook: Webhook, sealed: bytes) -> bool:
        """False: the account has WEBHOOKS_MAX already."""
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                # Two creations of one account at once must not both find the last place.
                await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 15))", webhook.pubkey.hex())
                count = await connection.fetchval("SELECT count(*) FROM webhooks WHERE pubkey = $1", webhook.pubkey)
                if count >= WEBHOOKS_MAX:
                    return False
                found = webhook.filter
                await connection.execute(
                    "INSERT INTO webhooks (id, pubkey, url, filter_type, filter_value, subject, kinds, wallets, secret,"
                    " created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                    *(webhook.id, webhook.pubkey, webhook.url, found.filter_type, found.filter_value, found.subject),
                    *(found.kinds, found.wallets, sealed, webhook.created_ms),
                )
        return True

    async def of_account(self, pubkey: bytes) -> list[Webhook]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                f"SELECT {_WEBHOOK} FROM webhooks WHERE pubkey = $1 ORDER BY created_ms, id",  # noqa: S608
                pubkey,
            )
        return list(map(_webhook, rows))

    async def find(self, pubkey: bytes, webhook_id: str) -> Webhook | None:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                f"SELECT {_WEBHOOK} FROM webhooks WHERE pubkey = $1 AND id = $2",  # noqa: S608
                pubkey,
                webhook_id,
            )
        return None if row is None else _webhook(row)

    async def delete(self, pubkey: bytes, webhook_id: str) -> bool:
        with away_as(WebhooksUnavailable):
            done = await self._pool.execute("DELETE FROM webhooks WHERE pubkey = $1 AND id = $2", pubkey, webhook_id)
        return bool(done == "DELETE 1")

    async def secrets(self, webhook_id: str) -> SealedSecrets | None:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "SELECT secret, previous_secret, previous_until_ms FROM webhooks WHERE id = $1", webhook_id
            )
        return None if row is None else SealedSecrets(*row)

    async def rotate(self, pubkey: bytes, webhook_id: str, sealed: bytes, previous_until_ms: int) -> bool:
        """The present secret becomes the previous one. False: there is no such webhook."""
        with away_as(WebhooksUnavailable):
            done = await self._pool.execute(
                "UPDATE webhooks SET previous_secret = secret, secret = $3, previous_until_ms = $4"
                " WHERE pubkey = $1 AND id = $2",
                *(pubkey, webhook_id, sealed, previous_until_ms),
            )
        return bool(done == "UPDATE 1")

    async def change(self, pubkey: bytes, webhook_id: str, change: Change, now_ms: int) -> Webhook | None:
        """None: there is no such webhook. Enabling one forgets its streak of failures."""
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "UPDATE webhooks SET kinds = coalesce($3::text[], kinds), wallets = coalesce($4::text[], wallets),"  # noqa: S608
                " status = CASE $5::boolean WHEN true THEN 'active' WHEN false THEN 'disabled' ELSE status END,"
                " disabled_reason = CASE $5::boolean WHEN true THEN NULL WHEN false THEN 'by its owner'"
                " ELSE disabled_reason END,"
                " failing_since_ms = CASE WHEN $5::boolean THEN NULL ELSE failing_since_ms END,"
                " rest_until_ms = CASE WHEN $5::boolean THEN 0 ELSE rest_until_ms END,"
                " look_ms = CASE WHEN $5::boolean AND EXISTS (SELECT FROM webhook_jobs j"
                " WHERE j.webhook_id = webhooks.id AND j.state <= 1) THEN $6 ELSE look_ms END"
                f" WHERE pubkey = $1 AND id = $2 RETURNING {_WEBHOOK}",
                *(pubkey, webhook_id, change.kinds, change.wallets, change.enable, now_ms),
            )
        return None if row is None else _webhook(row)

    async def log(self, webhook_id: str, before: int | None, limit: int) -> list[LoggedJob]:
        """The newest first. before: only jobs of a lower number."""
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection:
                jobs = await connection.fetch(
                    "SELECT id, state, attempts, created_ms, due_ms FROM webhook_jobs"
                    " WHERE webhook_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
                    *(webhook_id, (1 << 62) if before is None else before, limit),
                )
                tried = await connection.fetch(
                    "SELECT job, at_ms, latency_ms, http_status, error, answer FROM webhook_attempts"
                    " WHERE job = ANY ($1) ORDER BY at_ms",
                    [job["id"] for job in jobs],
                )
        by_job: dict[int, list[Any]] = {}
        for row in tried:
            by_job.setdefault(row[0], []).append(tuple(row)[1:])
        return [
            LoggedJob(number, state, attempts, created_ms, due_ms, tuple(by_job.get(number, ())))
            for number, state, attempts, created_ms, due_ms in map(tuple, jobs)
        ]

    async def replay(
        self, webhook_id: str, jobs: Sequence[int] | None, from_ms: int, to_ms: int, now_ms: int, jobs_max: int
    ) -> int:
        """Make ended jobs wait again: these, or those of a time, the oldest first; jobs_max may wait then in all. Gives
        their number."""
        with away_as(WebhooksUnavailable):
            sent: int = await self._pool.fetchval(
                "SELECT webhooks_replay($1, $2, $3, $4, $5, $6)",
                *(webhook_id, None if jobs is None else list(jobs), from_ms, to_ms, now_ms, jobs_max),
            )
        return sent

    # --- events

    async def queue(self, events: Sequence[QueuedEvent], now_ms: int, slot: int | None = None) -> int:
        """Keep events and make a job for each webhook that matches, in one transaction with the cursor of the chain.
        An event of a cause that was queued before is ignored. Gives the number of jobs."""
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                return await _queue(connection, events, now_ms, slot)

    async def take_account_events(self, limit: int, now_ms: int) -> int:
        """Move events of accounts from their outbox into the queue, in one transaction: each is queued once, whatever
        is killed. Gives the number of events."""
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                taken = await take_events(connection, limit)
                await _queue(connection, [lifecycle_event(*announcement) for announcement in taken], now_ms, None)
        return len(taken)

    async def cursor(self) -> int | None:
        """The slot after which the chain is to be read; None: it was never read."""
        with away_as(WebhooksUnavailable):
            slot: int | None = await self._pool.fetchval("SELECT slot FROM webhook_cursor WHERE name = 'chain'")
        return slot

    async def watched(self) -> frozenset[str]:
        """Every account and program that an active webhook watches on the chain."""
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT DISTINCT subject FROM webhooks WHERE status = 'active'"
                " AND filter_type IN ('account', 'program', 'my_account')"
            )
        return frozenset(row[0] for row in rows)

    # --- deliveries

    async def claim(
        self, claimer: str, now_ms: int, until_ms: int, jobs_max: int, each_max: int, failing_max: int
    ) -> list[Job]:
        """Lease jobs that are due, each_max of one webhook, and failing_max of all webhooks that fail."""
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT * FROM webhooks_claim($1, $2, $3, $4, $5, $6)",
                *(now_ms, until_ms, claimer, jobs_max, each_max, failing_max),
            )
        return [Job(*row) for row in rows]

    async def finish(self, results: Sequence[JobResult], now_ms: int) -> None:
        with away_as(WebhooksUnavailable):
            await self._pool.execute(
                "SELECT webhooks_finish($1, $2, $3, $4)", list(results), now_ms, REST_MS_MIN, REST_MS_MAX
            )

    async def release(self, jobs: Sequence[int], now_ms: int) -> None:
        """Give leases back unused."""
        with away_as(WebhooksUnavailable):
            await self._pool.execute("SELECT webhooks_release($1, $2)", list(jobs), now_ms)

    async def release_of(self, claimer: str, now_ms: int) -> int:
        """Give back the leases of a dispatcher of this name that has died. Gives their number."""
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch("SELECT id FROM webhook_jobs WHERE state = 1 AND leased_by = $1", claimer)
            await self.release([row[0] for row in rows], now_ms)
        return len(rows)

    # --- accounts without credits

    async def debts(self, now_ms: int, look_ms: int, limit: int) -> list[bytes]:
        """Accounts whose unpaid deliveries should be charged again now; the next look is at look_ms."""
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "UPDATE webhook_debts SET look_ms = $2 WHERE pubkey IN (SELECT pubkey FROM webhook_debts"
                " WHERE look_ms <= $1 ORDER BY look_ms LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING pubkey",
                *(now_ms, look_ms, limit),
            )
        return [row[0] for row in rows]

    async def unpaid(self, pubkey: bytes, limit: int) -> list[tuple[int, str]]:
        """(job, webhook) of deliveries that are not charged yet."""
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT j.id, j.webhook_id FROM webhooks w JOIN webhook_jobs j ON j.webhook_id = w.id AND j.state = 5"
                " WHERE w.pubkey = $1 ORDER BY j.id LIMIT $2",
                *(pubkey, limit),
            )
        return [(row[0], row[1]) for row in rows]

    async def paid(self, pubkey: bytes, jobs: Sequence[int]) -> bool:
        """These are charged now. True: nothing is unpaid any more, and the account's deliveries go on."""
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(
                    "UPDATE webhook_jobs SET state = 2 WHERE id = ANY ($1) AND state = 5", list(jobs)
                )
                done = await connection.execute(
                    "DELETE FROM webhook_debts d WHERE d.pubkey = $1 AND NOT EXISTS (SELECT FROM webhooks w"
                    " JOIN webhook_jobs j ON j.webhook_id = w.id AND j.state = 5 WHERE w.pubkey = $1)",
                    pubkey,
                )
        return bool(done == "DELETE 1")

    # --- keeping order

    async def expire(self, before_ms: int, now_ms: int) -> int:
        """End jobs that wait since before then, of webhooks that are disabled or whose account has no credits."""
        with away_as(WebhooksUnavailable):
            done = await self._pool.execute(
                "UPDATE webhook_jobs SET state = 4, due_ms = $2 WHERE id IN (SELECT j.id FROM webhook_jobs j"
                " JOIN webhooks w ON w.id = j.webhook_id WHERE j.state = 0 AND j.created_ms < $1"
                " AND (w.status <> 'active' OR w.filter_type <> 'lifecycle'"
                " AND EXISTS (SELECT FROM webhook_debts d WHERE d.pubkey = w.pubkey))"
                " LIMIT $3)",
                *(before_ms, now_ms, _EMPTY_PLACES_MAX),
            )
        return _number(done)

    async def forget(self, before_ms: int) -> int:
        """Remove jobs that ended before then, and events without jobs. Gives the number of rows."""
        removed = 0
        with away_as(WebhooksUnavailable):
            for statement in (
                "DELETE FROM webhook_jobs WHERE id IN (SELECT id FROM webhook_jobs"
                " WHERE state IN (2, 3, 4) AND due_ms < $1 LIMIT $2)",
                "DELETE FROM webhook_events WHERE id IN (SELECT e.id FROM webhook_events e WHERE e.at_ms < $1"
                " AND NOT EXISTS (SELECT FROM webhook_jobs j WHERE j.event = e.id) LIMIT $2)",
            ):
                with suppress(asyncpg.ForeignKeyViolationError):  # A job was made meanwhile.
                    removed += _number(await self._pool.execute(statement, before_ms, _EMPTY_PLACES_MAX))
        return removed

    async def figures(self) -> QueueFigures:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "SELECT (SELECT count(*) FROM webhook_jobs WHERE state <= 1),"
                " (SELECT min(j.created_ms) FROM webhook_jobs j JOIN webhooks w ON w.id = j.webhook_id"
                " WHERE j.state <= 1 AND w.status = 'active'), (SELECT count(*) FROM webhook_debts)"
            )
        assert row is not None
        return QueueFigures(*row)


async def _queue(connection: Any, events: Sequence[QueuedEvent], now_ms: int, slot: int | None) -> int:
    made: int = 0
    if events:
        made = await connection.fetchval("SELECT webhooks_fan_out($1, $2, $3)", list(events), now_ms, JOBS_WAITING_MAX)
    if slot is not None:
        await connection.execute(
            "INSERT INTO webhook_cursor (name, slot) VALUES ('chain', $1)"
            " ON CONFLICT (name) DO UPDATE SET slot = greatest(webhook_cursor.slot, EXCLUDED.slot)",
            slot,
        )
    return made


def _webhook(row: Any) -> Webhook:
    kinds, wallets = (None if row[name] is None else tuple(row[name]) for name in ("kinds", "wallets"))
    found = WebhookFilter(row["filter_type"], row["filter_value"], row["subject"], kinds, wallets)
    return Webhook(row["id"], row["pubkey"], row["url"], found, *tuple(row)[8:])


def _number(done: str) -> int:
    return int(done.rpartition(" ")[2])
