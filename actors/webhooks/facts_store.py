"""Facts about webhooks that the ledgers of their accounts do not have yet: the port, and its store in PostgreSQL.

Implements: decisions, "One chain of facts". Rows are written by the transaction that registers, changes or deletes a
webhook (functions.sql); a dispatcher reads those of its slices. Decides nothing.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import asyncpg

from actors.ownership.held import HeldSlices
from actors.storage.connections import away_as
from actors.webhooks.store import WebhooksUnavailable


class WaitingFact(NamedTuple):
    """id: a later fact about the same webhook has a higher one. body: as webhooks_chosen() makes it, or what was done
    to the webhook: `deleted`, or `rotated_ms`."""

    id: int
    pubkey: bytes
    body: dict[str, Any]

    @property
    def numbered(self) -> dict[str, Any]:
        """As it is told: of facts about one webhook, the highest number is the newest, in whichever order they come."""
        return self.body | {"number": self.id}


class FactsStore(Protocol):
    """Both methods raise WebhooksUnavailable where the store does not answer."""

    async def waiting(self, after: int, limit: int) -> list[WaitingFact]:
        """Return facts of the served slices with ids above `after`, in the order of ids."""
        ...

    async def told(self, ids: Sequence[int]) -> None:
        """Remove facts that are now in the ledgers."""
        ...


class PostgresFacts:
    """held: the slices of the dispatcher that uses it."""

    def __init__(self, pool: asyncpg.Pool, held: HeldSlices) -> None:
        self._pool, self._held = pool, held

    async def waiting(self, after: int, limit: int) -> list[WaitingFact]:
        with away_as(WebhooksUnavailable):
            rows = await self._pool.fetch(
                "SELECT id, pubkey, body FROM webhook_facts WHERE id > $1 AND webhooks_slice(pubkey) = ANY ($2)"
                " ORDER BY id LIMIT $3",
                *(after, list(self._held.serving()), limit),
            )
        return [WaitingFact(number, pubkey, json.loads(body)) for number, pubkey, body in rows]

    async def told(self, ids: Sequence[int]) -> None:
        with away_as(WebhooksUnavailable):
            await self._pool.execute("DELETE FROM webhook_facts WHERE id = ANY ($1)", list(ids))
