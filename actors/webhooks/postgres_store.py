"""The store of webhooks in PostgreSQL; store.py says what each method does.

Implements: design, "What must survive what"; threats 26 to 29 (what is kept). Decides nothing. Every failure of the
database raises WebhooksUnavailable. Jobs are leased by skip-locked claims (functions.sql), so several dispatchers may
work.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from actors.accounts.outbox import take_events
from actors.storage.connections import away_as
from actors.webhooks.core import ATTEMPTS_MAX, REST_MS_MAX, REST_MS_MIN
from actors.webhooks.payloads import QueuedEvent, lifecycle_event
from actors.webhooks.registrations import WEBHOOKS_MAX, Change, Webhook, WebhookFilter
from actors.webhooks.store import (
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
    WebhooksUnavailable,
)

_WEBHOOK = (
    "id, pubkey, url, filter_type, filter_value, subject, kinds, wallets, mint, programs, min_lamports, status,"
    " disabled_reason, created_ms, last_job, last_status, last_http_status, last_at_ms"
)
_OWN = "pubkey = $1 AND status <> 'deleted'"
_EMPTY_PLACES_MAX = 5_000  # Rows that one statement removes.


class PostgresWebhookStore:
    def __init__(
        self, pool: asyncpg.Pool, jobs_waiting_max: int = JOBS_WAITING_MAX, paused_jobs_max: int = PAUSED_JOBS_MAX
    ) -> None:
        self._pool, self._jobs_waiting_max, self._paused_jobs_max = pool, jobs_waiting_max, paused_jobs_max

    # --- registrations

    async def create(self, webhook: Webhook, sealed: bytes) -> bool:
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                # Two creations of one account at once must not both find the last place.
                await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 15))", webhook.pubkey.hex())
                count = await connection.fetchval(
                    "SELECT count(*) FROM webhooks WHERE pubkey = $1 AND status <> 'deleted'", webhook.pubkey
                )
                if count >= WEBHOOKS_MAX:
                    return False
                found = webhook.filter
                await connection.execute(
                    "INSERT INTO webhooks (id, pubkey, url, filter_type, filter_value, subject, kinds, wallets, mint,"
                    " programs, min_lamports, secret, created_ms)"
                    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
                    *(webhook.id, webhook.pubkey, webhook.url, found.filter_type, found.filter_value, found.subject),
                    *(found.kinds, found.wallets, found.mint, found.programs, found.min_lamports),
                    *(sealed, webhook.created_ms),
                )
        return True

    async def registered(self, pubkey: bytes) -> tuple[int, int]:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "SELECT count(*) FILTER (WHERE pubkey = $1), count(*) FROM webhooks WHERE status <> 'deleted'", pubkey
            )
        assert row is not None
        return row[0], row[1]

    async def of_account(self, pubkey: bytes) -> list[Webhook]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                f"SELECT {_WEBHOOK} FROM webhooks WHERE {_OWN} ORDER BY created_ms, id",  # noqa: S608
                pubkey,
            )
        return list(map(_webhook, rows))

    async def find(self, pubkey: bytes, webhook_id: str) -> Webhook | None:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                f"SELECT {_WEBHOOK} FROM webhooks WHERE {_OWN} AND id = $2",  # noqa: S608
                pubkey,
                webhook_id,
            )
        return None if row is None else _webhook(row)

    async def delete(self, pubkey: bytes, webhook_id: str, now_ms: int) -> bool:
        with away_as(WebhooksUnavailable):
            done = await self._pool.fetchval("SELECT webhooks_delete($1, $2, $3)", pubkey, webhook_id, now_ms)
        return bool(done)

    async def secrets(self, webhook_id: str) -> SealedSecrets | None:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "SELECT secret, previous_secrets, previous_until_ms FROM webhooks WHERE id = $1", webhook_id
            )
        return None if row is None else SealedSecrets(*row)

    async def rotate(
        self, pubkey: bytes, webhook_id: str, sealed: bytes, now_ms: int, until_ms: int, previous_max: int
    ) -> int | None:
        with away_as(WebhooksUnavailable):
            after_ms: int | None = await self._pool.fetchval(
                "SELECT webhooks_rotate($1, $2, $3, $4, $5, $6)",
                *(pubkey, webhook_id, sealed, now_ms, until_ms, previous_max),
            )
        return after_ms

    async def change(self, pubkey: bytes, webhook_id: str, change: Change, now_ms: int) -> Webhook | None:
        found = change.filter
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "UPDATE webhooks SET kinds = CASE WHEN $4 THEN $5::text[] ELSE kinds END,"  # noqa: S608
                " wallets = CASE WHEN $4 THEN $6::text[] ELSE wallets END, mint = CASE WHEN $4 THEN $7 ELSE mint END,"
                " programs = CASE WHEN $4 THEN $8::text[] ELSE programs END,"
                " min_lamports = CASE WHEN $4 THEN $9::numeric ELSE min_lamports END,"
                " status = CASE $3::boolean WHEN true THEN 'active' WHEN false THEN 'disabled' ELSE status END,"
                " disabled_reason = CASE $3::boolean WHEN true THEN NULL WHEN false THEN 'by its owner'"
                " ELSE disabled_reason END,"
                " failing_since_ms = CASE WHEN $3::boolean THEN NULL ELSE failing_since_ms END,"
                " rest_until_ms = CASE WHEN $3::boolean THEN 0 ELSE rest_until_ms END,"
                " look_ms = CASE WHEN $3::boolean AND EXISTS (SELECT FROM webhook_jobs j"
                " WHERE j.webhook_id = webhooks.id AND j.state <= 1) THEN $10 ELSE look_ms END"
                f" WHERE {_OWN} AND id = $2 RETURNING {_WEBHOOK}",
                *(pubkey, webhook_id, change.enable, found is not None),
                *((None, None, None, None, 0) if found is None else found.narrowed),
                now_ms,
            )
        return None if row is None else _webhook(row)

    async def log(self, webhook_id: str, before: int | None, limit: int) -> list[LoggedJob]:
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

    async def dropped(self, webhook_id: str) -> Dropped:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "SELECT dropped_events, dropped_at_ms FROM webhooks WHERE id = $1", webhook_id
            )
        return Dropped(0, None) if row is None else Dropped(*row)

    async def replay(
        self, webhook_id: str, jobs: Sequence[int] | None, from_ms: int, to_ms: int, now_ms: int, jobs_max: int
    ) -> int:
        with away_as(WebhooksUnavailable):
            sent: int = await self._pool.fetchval(
                "SELECT webhooks_replay($1, $2, $3, $4, $5, $6, $7)",
                *(webhook_id, None if jobs is None else list(jobs), from_ms, to_ms, now_ms, jobs_max, ATTEMPTS_MAX),
            )
        return sent

    # --- events

    async def queue(self, events: Sequence[QueuedEvent], now_ms: int, cursor: SourceCursor | None = None) -> int:
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                return await self._queue(connection, events, now_ms, cursor)

    async def take_account_events(self, limit: int, now_ms: int) -> int:
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                taken = await take_events(connection, limit)
                await self._queue(connection, [lifecycle_event(*each) for each in taken], now_ms, None)
        return len(taken)

    async def _queue(
        self, connection: Any, events: Sequence[QueuedEvent], now_ms: int, cursor: SourceCursor | None
    ) -> int:
        made: int = 0
        if events:
            made = await connection.fetchval(
                "SELECT webhooks_fan_out($1, $2, $3, $4)",
                *(list(events), now_ms, self._jobs_waiting_max, self._paused_jobs_max),
            )
        if cursor is not None:
            await connection.execute(
                "INSERT INTO webhook_cursor (name, slot, log_cursor) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE"
                " SET slot = greatest(webhook_cursor.slot, EXCLUDED.slot), log_cursor = EXCLUDED.log_cursor",
                *("chain" if cursor.log_cursor is None else "signals", *cursor),
            )
        return made

    async def cursor(self) -> SourceCursor:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow("SELECT max(slot), max(log_cursor) FROM webhook_cursor")
        assert row is not None
        return SourceCursor(*row)

    async def watched(self) -> frozenset[str]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT DISTINCT subject FROM webhooks WHERE status = 'active'"
                " AND filter_type IN ('account', 'program', 'my_account')"
            )
        return frozenset(row[0] for row in rows)

    async def named_wallets(self, paused_before_ms: int) -> dict[bytes, frozenset[str]]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT pubkey, array_agg(DISTINCT wallet) FROM webhooks w, unnest(w.wallets) AS wallet"
                " WHERE NOT EXISTS (SELECT FROM webhook_debts d WHERE d.pubkey = w.pubkey AND d.since_ms < $1)"
                " GROUP BY pubkey",
                paused_before_ms,
            )
        return {row[0]: frozenset(row[1]) for row in rows}

    # --- deliveries

    async def claim(self, claimer: str, now_ms: int, until_ms: int, room: Room) -> list[Job]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT * FROM webhooks_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                *(now_ms, until_ms, claimer, room.jobs, room.each, room.failing),
                *(room.at_once, room.share, room.holders, room.held),
            )
        return [Job(*row) for row in rows]

    async def finish(self, results: Sequence[JobResult], now_ms: int) -> None:
        with away_as(WebhooksUnavailable):
            await self._pool.execute(
                "SELECT webhooks_finish($1, $2, $3, $4)", list(results), now_ms, REST_MS_MIN, REST_MS_MAX
            )

    async def release(self, jobs: Sequence[int], now_ms: int) -> None:
        with away_as(WebhooksUnavailable):
            await self._pool.execute("SELECT webhooks_release($1, $2)", list(jobs), now_ms)

    async def release_of(self, claimer: str, now_ms: int) -> int:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch("SELECT id FROM webhook_jobs WHERE state = 1 AND leased_by = $1", claimer)
            await self.release([row[0] for row in rows], now_ms)
        return len(rows)

    async def put_off(self, jobs: Sequence[int], until_ms: int, now_ms: int) -> None:
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT webhooks_release($1, $2)", list(jobs), now_ms)
                await connection.execute(  # Their rows are locked by the function before, in order.
                    "UPDATE webhooks SET rest_until_ms = greatest(rest_until_ms, $2)"
                    " WHERE id IN (SELECT webhook_id FROM webhook_jobs WHERE id = ANY ($1))",
                    *(list(jobs), until_ms),
                )

    # --- accounts without credits

    async def pause(self, accounts: Sequence[bytes], now_ms: int, look_ms: int) -> None:
        with away_as(WebhooksUnavailable):
            await self._pool.execute(
                "INSERT INTO webhook_debts (pubkey, since_ms, look_ms) SELECT unnest($1::bytea[]), $2, $3"
                " ON CONFLICT (pubkey) DO NOTHING",
                *(list(accounts), now_ms, look_ms),
            )

    async def wallet_accounts(self) -> list[bytes]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT DISTINCT pubkey FROM webhooks w WHERE wallets IS NOT NULL"
                " AND NOT EXISTS (SELECT FROM webhook_debts d WHERE d.pubkey = w.pubkey)"
            )
        return [row[0] for row in rows]

    async def debts(self, now_ms: int, look_ms: int, limit: int) -> list[bytes]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "UPDATE webhook_debts SET look_ms = $2 WHERE pubkey IN (SELECT pubkey FROM webhook_debts"
                " WHERE look_ms <= $1 ORDER BY look_ms LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING pubkey",
                *(now_ms, look_ms, limit),
            )
        return [row[0] for row in rows]

    async def unpaid(self, pubkey: bytes, limit: int) -> list[tuple[int, str]]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT j.id, j.webhook_id FROM webhooks w JOIN webhook_jobs j ON j.webhook_id = w.id AND j.state = 5"
                " WHERE w.pubkey = $1 ORDER BY j.id LIMIT $2",
                *(pubkey, limit),
            )
        return [(row[0], row[1]) for row in rows]

    async def paid(self, pubkey: bytes, jobs: Sequence[int]) -> bool:
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
        with away_as(WebhooksUnavailable):
            done = await self._pool.execute(
                "UPDATE webhook_jobs SET state = 4, due_ms = $2 WHERE id IN (SELECT j.id FROM webhook_jobs j"
                " JOIN webhooks w ON w.id = j.webhook_id WHERE j.state = 0 AND j.created_ms < $1"
                " AND (w.status <> 'active' OR w.filter_type <> 'lifecycle'"
                " AND EXISTS (SELECT FROM webhook_debts d WHERE d.pubkey = w.pubkey))"
                " LIMIT $3)",
                *(before_ms, now_ms, _EMPTY_PLACES_MAX),
            )
            await self._pool.execute("SELECT webhooks_bury(NULL, $1)", now_ms)
        return _number(done)

    async def forget(self, before_ms: int) -> int:
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


def _webhook(row: Any) -> Webhook:
    kinds, wallets, programs = (
        None if row[name] is None else tuple(row[name]) for name in ("kinds", "wallets", "programs")
    )
    found = WebhookFilter(
        *(row["filter_type"], row["filter_value"], row["subject"], kinds, wallets),
        *(row["mint"], programs, int(row["min_lamports"])),
    )
    return Webhook(row["id"], row["pubkey"], row["url"], found, *tuple(row)[11:])


def _number(done: str) -> int:
    return int(done.rpartition(" ")[2])
