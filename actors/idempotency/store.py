"""Stores each Idempotency-Key for 24 hours: its request, the run that has it, and the answer.

Implements: decisions, "Idempotency-Key". The port, and PostgreSQL. Decides nothing: a change names the attempt that it
follows, and is refused after any other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import astuple, fields
from typing import Protocol

import asyncpg

from actors.clock import Clock
from actors.idempotency.core import KeyRecord
from actors.storage.connections import away_as

_COLUMNS = tuple(field.name for field in fields(KeyRecord))
_NAMES = ", ".join(_COLUMNS)
_FORGET_SECONDS = 30.0
_FORGET_AT_ONCE = 5_000  # Of each replica; more than an account may add in that time at 100 requests a second.

logger = logging.getLogger(__name__)


class KeysUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class IdempotencyStore(Protocol):
    """Every method raises KeysUnavailable."""

    async def claim(self, mine: KeyRecord, now_ms: int, keys_max: int) -> KeyRecord | None:
        """Store the record of a new or an expired key. Gives the record that is stored then, mine or another's. None:
        the scope has keys_max keys already."""
        ...

    async def take_over(self, stored: KeyRecord, attempt: bytes, lease_until_ms: int) -> bool:
        """Continue a run under another attempt. False: it has ended, or another attempt has it."""
        ...

    async def leave(self, mine: KeyRecord) -> None:
        """End a run whose outcome is still open: the next request may take it over at once."""
        ...

    async def keep(self, mine: KeyRecord, answer: bytes, charged: int) -> bool:
        """Store the answer of a run. False: another attempt has it."""
        ...

    async def forget(self, mine: KeyRecord) -> None:
        """Remove a key whose call was not carried out, unless another attempt has it: it may be used again."""
        ...

    async def forget_expired(self, now_ms: int, limit: int) -> int:
        """Remove expired keys, so many at most. Returns their number."""
        ...


class PostgresIdempotencyStore:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def claim(self, mine: KeyRecord, now_ms: int, keys_max: int) -> KeyRecord | None:
        given = astuple(mine)
        marks = ", ".join(f"${number}" for number in range(1, len(given) + 1))
        with away_as(KeysUnavailable):
            row = await self._pool.fetchrow(
                f"SELECT {_NAMES} FROM idempotency_claim("  # noqa: S608 - our own names.
                f"ROW ({marks})::idempotency_keys, ${len(given) + 1}, ${len(given) + 2})",
                *given,
                now_ms,
                keys_max,
            )
        return None if row is None else KeyRecord(*row)

    async def take_over(self, stored: KeyRecord, attempt: bytes, lease_until_ms: int) -> bool:
        done = await self._change(
            "UPDATE idempotency_keys SET attempt = $4, lease_until_ms = $5 "
            "WHERE scope = $1 AND key = $2 AND attempt = $3 AND NOT answered",
            stored,
            attempt,
            lease_until_ms,
        )
        return done == "UPDATE 1"

    async def leave(self, mine: KeyRecord) -> None:
        await self._change(
            "UPDATE idempotency_keys SET lease_until_ms = 0 WHERE scope = $1 AND key = $2 AND attempt = $3", mine
        )

    async def keep(self, mine: KeyRecord, answer: bytes, charged: int) -> bool:
        done = await self._change(
            "UPDATE idempotency_keys SET answered = true, answer = $4, charged = $5 "
            "WHERE scope = $1 AND key = $2 AND attempt = $3 AND NOT answered",
            mine,
            answer,
            charged,
        )
        return done == "UPDATE 1"

    async def forget(self, mine: KeyRecord) -> None:
        await self._change("SELECT idempotency_forget($1, $2, $3)", mine)

    async def forget_expired(self, now_ms: int, limit: int) -> int:
        with away_as(KeysUnavailable):
            removed: int = await self._pool.fetchval("SELECT idempotency_forget_expired($1, $2)", now_ms, limit)
        return removed

    async def _change(self, statement: str, record: KeyRecord, *more: object) -> str:
        with away_as(KeysUnavailable):
            done: str = await self._pool.execute(statement, record.scope, record.key, record.attempt, *more)
        return done


async def forget_for_ever(
    store: IdempotencyStore, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Remove expired keys until cancelled. Every replica does so; each takes other keys."""
    while True:
        try:
            await store.forget_expired(clock.now_ms(), _FORGET_AT_ONCE)
        except KeysUnavailable as error:
            logger.warning("expired Idempotency-Keys are not removed: %s", error)
        except Exception:  # A bug must not fill the database.
            logger.exception("removing expired Idempotency-Keys failed")
        await sleep(_FORGET_SECONDS)
