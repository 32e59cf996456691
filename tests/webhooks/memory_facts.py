"""Webhooks in memory that keep the facts about them until they are told; they pass the tests of PostgreSQL's."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from actors.webhooks.facts_store import WaitingFact
from actors.webhooks.registrations import Change, Webhook
from actors.webhooks.slices import slice_of

from .memory_store import MemoryWebhookStore


class NotingWebhookStore(MemoryWebhookStore):
    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[int, WaitingFact] = {}
        self.changes: dict[str, int] = {}  # Webhook to its change that waits.

    def note(self, pubkey: bytes, body: dict[str, Any]) -> int:
        number = self._number()
        self.facts[number] = WaitingFact(number, pubkey, body)
        return number

    async def create(self, webhook: Webhook, sealed: bytes) -> bool:
        is_made = await super().create(webhook, sealed)
        if is_made:
            self.note(webhook.pubkey, chosen(webhook))
        return is_made

    async def delete(self, pubkey: bytes, webhook_id: str, now_ms: int) -> bool:
        is_deleted = await super().delete(pubkey, webhook_id, now_ms)
        if is_deleted:
            self.note(pubkey, {"id": webhook_id, "deleted": True})
        return is_deleted

    async def rotate(
        self, pubkey: bytes, webhook_id: str, sealed: bytes, now_ms: int, until_ms: int, previous_max: int
    ) -> int | None:
        possible_ms = await super().rotate(pubkey, webhook_id, sealed, now_ms, until_ms, previous_max)
        if possible_ms == 0:
            self.note(pubkey, {"id": webhook_id, "rotated_ms": now_ms})
        return possible_ms

    async def change(self, pubkey: bytes, webhook_id: str, change: Change, now_ms: int) -> Webhook | None:
        was = await self.find(pubkey, webhook_id)
        after = await super().change(pubkey, webhook_id, change, now_ms)
        if was is not None and after is not None and chosen(was) != chosen(after):
            self.facts.pop(self.changes.pop(webhook_id, 0), None)
            self.changes[webhook_id] = self.note(pubkey, chosen(after))
        return after


class MemoryFacts:
    """serving: the slices of the dispatcher that uses it; None: all."""

    def __init__(self, kept: NotingWebhookStore, serving: Callable[[], Collection[int]] | None = None) -> None:
        self._kept, self._serving = kept, serving

    async def waiting(self, after: int, limit: int) -> list[WaitingFact]:
        found = (fact for number, fact in sorted(self._kept.facts.items()) if number > after)
        mine = [fact for fact in found if self._serving is None or slice_of(fact.pubkey) in self._serving()]
        return mine[:limit]

    async def told(self, ids: Sequence[int]) -> None:
        for number in ids:
            self._kept.facts.pop(number, None)


def chosen(webhook: Webhook) -> dict[str, Any]:
    """What a fact tells of a webhook."""
    found = webhook.filter
    kinds, wallets, programs = (
        None if each is None else list(each) for each in (found.kinds, found.wallets, found.programs)
    )
    return {
        "id": webhook.id,
        "url_hash": hashlib.sha256(webhook.url.encode()).hexdigest(),
        "filter_type": found.filter_type,
        "filter_value": found.filter_value,
        "subject": found.subject,
        "kinds": kinds,
        "wallets": wallets,
        "mint": found.mint,
        "programs": programs,
        "min_lamports": found.min_lamports,
    }
