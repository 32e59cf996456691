"""The store of webhooks in PostgreSQL; store.py says what each method does.

Implements: design, "What must survive what"; threats 26 to 29 (what is kept). Decides nothing. Every failure of the
database raises WebhooksUnavailable. Jobs are leased by skip-locked claims (functions.sql), and what a dispatcher writes
carries the epochs of its slices.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from actors.accounts.outbox import take_events
from actors.ownership.api import FENCED_SQLSTATE
from actors.ownership.held import HeldSlices
from actors.storage.connections import away_as
from actors.webhooks.core import ATTEMPTS_MAX, REST_MS_MAX, REST_MS_MIN
from actors.webhooks.payloads import QueuedEvent, lifecycle_event
from actors.webhooks.registrations import WEBHOOKS_MAX, Change, Webhook, WebhookFilter
from actors.webhooks.slices import KIND, SLICES, SOURCES_SLICE, slice_of
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
    SliceTaken,
    SourceCursor,
    WebhooksUnavailable,
)

_WEBHOOK = (
    "id, pubkey, url, filter_type, filter_value, subject, kinds, wallets, mint, programs, min_lamports, status,"
    " disabled_reason, created_ms, last_job, last_status, last_http_status, last_at_ms"
)
_OWN = "pubkey = $1 AND status <> 'deleted'"
_EMPTY_PLACES_MAX = 5_000  # Rows that one statement removes.
# newer_bytes: of the answers to newer jobs. Of a log of many megabytes no more leaves the database than is shown.
_TRIED = """
SELECT job, at_ms, latency_ms, http_status, error, answer FROM (
    SELECT *, coalesce(sum(length(answer)) OVER newer, 0) AS newer_bytes FROM webhook_attempts WHERE job = ANY ($1)
    WINDOW newer AS (ORDER BY job DESC GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS tried WHERE newer_bytes <= greatest($2::bigint, 0) ORDER BY at_ms
"""


class PostgresWebhookStore:
    """held: the slices of the dispatcher that uses it; those whose epoch is refused are lost."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        held: HeldSlices,
        jobs_waiting_max: int = JOBS_WAITING_MAX,
        paused_jobs_max: int = PAUSED_JOBS_MAX,
    ) -> None:
        self._pool, self._held = pool, held
        self._jobs_waiting_max, self._paused_jobs_max = jobs_waiting_max, paused_jobs_max

    # --- registrations

    async def create(self, webhook: Webhook, sealed: bytes) -> bool:
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                # Two concurrent creations of one account must not both find the last place.
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
                await connection.execute("SELECT webhooks_registered($1)", webhook.id)
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
                f"SELECT {_WEBHOOK} FROM webhooks_change($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",  # noqa: S608
                *(pubkey, webhook_id, change.enable, found is not None),
                *((None, None, None, None, 0) if found is None else found.narrowed),
                now_ms,
            )
        return None if row is None else _webhook(row)

    async def log(self, webhook_id: str, before: int | None, limit: int, bytes_max: int = ANY_BYTES) -> list[LoggedJob]:
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection:
                jobs = await connection.fetch(
                    "SELECT id, state, attempts, created_ms, due_ms FROM webhook_jobs"
                    " WHERE webhook_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
                    *(webhook_id, (1 << 62) if before is None else before, limit),
                )
                tried = await connection.fetch(_TRIED, [job["id"] for job in jobs], bytes_max)
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
        async with self._owning(SOURCES_SLICE) as connection:
            return await self._queue(connection, events, now_ms, cursor)

    async def take_account_events(self, limit: int, now_ms: int) -> int:
        async with self._owning(SOURCES_SLICE) as connection:
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
                "SELECT * FROM webhooks_claim_owned($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                *_columns(self._held.serving()),
                *(now_ms, until_ms, claimer, room.jobs, room.each, room.failing),
                *(room.at_once, room.share, room.holders, room.held),
            )
        return [Job(*row) for row in rows]

    async def finish(self, results: Sequence[JobResult], now_ms: int) -> None:
        call = "webhooks_finish_owned($1, $2, $3, $4, $5, $6)"
        await self._write(call, list(results), now_ms, REST_MS_MIN, REST_MS_MAX)

    async def release(self, jobs: Sequence[int], now_ms: int) -> None:
        await self.put_off(jobs, 0, now_ms)

    async def confirm(self) -> None:
        await self._write(f"ownership_still('{KIND}', $1, $2)")

    async def recover(self, slices: Collection[int], now_ms: int) -> int:
        mine = {number: epoch for number, epoch in self._epochs().items() if number in slices}
        with away_as(WebhooksUnavailable):
            count: int = await self._pool.fetchval("SELECT webhooks_recover($1, $2, $3)", *_columns(mine), now_ms)
        return count

    async def put_off(self, jobs: Sequence[int], until_ms: int, now_ms: int) -> None:
        await self._write("webhooks_release_owned($1, $2, $3, $4, $5)", list(jobs), now_ms, until_ms)

    def _epochs(self) -> dict[int, int]:
        """Return the epoch of each slice that this dispatcher may write, also of those that it has given."""
        found = ((number, self._held.epoch(number)) for number in range(SLICES))
        return {number: epoch for number, epoch in found if epoch is not None}

    async def _write(self, call: str, *arguments: Any) -> None:
        """Call a function about whatever this dispatcher holds. Slices that another one has are lost."""
        mine = self._epochs()
        with away_as(WebhooksUnavailable):
            still = await self._pool.fetchval(f"SELECT {call}", *_columns(mine), *arguments)
        for number in mine.keys() - set(still):
            self._held.lose(number, mine[number])

    @asynccontextmanager
    async def _owning(self, number: int) -> AsyncIterator[Any]:
        """Open a transaction of a slice's owner. Raises SliceTaken, also where the database refuses the epoch."""
        epoch = self._held.epoch(number)
        if epoch is None:
            raise SliceTaken(f"slice {number} is not held")
        with away_as(WebhooksUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                try:
                    await connection.execute("SELECT ownership_check($1, $2, $3)", KIND, number, epoch)
                except asyncpg.PostgresError as error:
                    if error.sqlstate != FENCED_SQLSTATE:
                        raise
                    self._held.lose(number, epoch)
                    raise SliceTaken(f"slice {number} has another owner") from error
                yield connection

    # --- accounts without credits

    async def pause(self, accounts: Sequence[bytes], now_ms: int, look_ms: int) -> None:
        await self._write("webhooks_pause($1, $2, $3, $4, $5)", list(accounts), now_ms, look_ms)

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
                "SELECT webhooks_debts($1, $2, $3, $4, $5)", *_columns(self._held.serving()), now_ms, look_ms, limit
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
        async with self._owning(slice_of(pubkey)) as connection:
            await connection.execute("UPDATE webhook_jobs SET state = 2 WHERE id = ANY ($1) AND state = 5", list(jobs))
            done = await connection.execute(
                "DELETE FROM webhook_debts d WHERE d.pubkey = $1 AND NOT EXISTS (SELECT FROM webhooks w"
                " JOIN webhook_jobs j ON j.webhook_id = w.id AND j.state = 5 WHERE w.pubkey = $1)",
                pubkey,
            )
        return bool(done == "DELETE 1")

    # --- keeping order

    async def expire(self, before_ms: int, now_ms: int) -> int:
        async with self._owning(SOURCES_SLICE) as connection:
            done = await connection.execute(
                "UPDATE webhook_jobs SET state = 4, due_ms = $2 WHERE id IN (SELECT j.id FROM webhook_jobs j"
                " JOIN webhooks w ON w.id = j.webhook_id WHERE j.state = 0 AND j.created_ms < $1"
                " AND (w.status <> 'active' OR w.filter_type <> 'lifecycle'"
                " AND EXISTS (SELECT FROM webhook_debts d WHERE d.pubkey = w.pubkey))"
                " LIMIT $3) AND state = 0",
                *(before_ms, now_ms, _EMPTY_PLACES_MAX),
            )
        async with self._owning(SOURCES_SLICE) as connection:
            await connection.execute("SELECT webhooks_bury(NULL, $1)", now_ms)
        return _number(done)

    async def forget(self, before_ms: int) -> int:
        removed = 0
        for statement in (
            "DELETE FROM webhook_jobs WHERE id IN (SELECT id FROM webhook_jobs"
            " WHERE state IN (2, 3, 4) AND due_ms < $1 LIMIT $2) AND state IN (2, 3, 4)",
            "DELETE FROM webhook_events WHERE id IN (SELECT e.id FROM webhook_events e WHERE e.at_ms < $1"
            " AND NOT EXISTS (SELECT FROM webhook_jobs j WHERE j.event = e.id) LIMIT $2)",
        ):
            with suppress(asyncpg.ForeignKeyViolationError):  # A job was made in the meantime.
                async with self._owning(SOURCES_SLICE) as connection:
                    removed += _number(await connection.execute(statement, before_ms, _EMPTY_PLACES_MAX))
        return removed

    async def figures(self) -> QueueFigures:
        with away_as(WebhooksUnavailable):
            row = await self._pool.fetchrow(
                "SELECT count(*), min(j.created_ms) FILTER (WHERE w.status = 'active'),"
                " (SELECT count(*) FROM webhook_debts d WHERE webhooks_slice(d.pubkey) = ANY ($1))"
                " FROM webhook_jobs j JOIN webhooks w ON w.id = j.webhook_id"
                " WHERE j.state <= 1 AND webhooks_slice(w.pubkey) = ANY ($1)",
                list(self._held.serving()),
            )
        assert row is not None
        return QueueFigures(*row)


def _columns(epochs: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Give slices and epochs as the functions of a dispatcher take them."""
    return list(epochs), list(epochs.values())


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
