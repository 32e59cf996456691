from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Any

import pytest

from actors.ownership.held import HeldSlices
from actors.ownership.store import PostgresOwnership
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.slices import KIND
from actors.webhooks.store import WebhookStore
from tests.databases import emptied
from tests.ownership.memory_store import MemoryOwnership

from .memory_store import ALL, MemoryWebhookStore
from .outside import Receiver, receiver
from .owned_webhooks import OwnedMemory, holding_all
from .world import NO_WEBHOOKS, WebhookWorld, a_webhook_world

JOBS_MAX = 40  # Of one webhook, in `store`.
PAUSED_JOBS = 6  # The same of an account that is paused.


@pytest.fixture
async def world(postgres_url: str, owner_url: str) -> AsyncIterator[WebhookWorld]:
    async with a_webhook_world(postgres_url, owner_url) as found:
        yield found


@pytest.fixture
async def target() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.fixture
async def other() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[WebhookStore]:
    if request.param == "memory":
        owned: Any = OwnedMemory(MemoryWebhookStore(JOBS_MAX, PAUSED_JOBS))
        yield owned
        return
    urls = (request.getfixturevalue(name) for name in ("postgres_url", "owner_url"))
    async with emptied(*urls, NO_WEBHOOKS) as pool:
        yield PostgresWebhookStore(pool, await holding_all(pool), JOBS_MAX, PAUSED_JOBS)


@pytest.fixture(params=["memory", "postgres"])
async def two(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Two dispatchers' stores of one queue, of which the first holds all slices; and what moves some to the second."""
    mine, others = HeldSlices(), HeldSlices()
    if request.param == "memory":
        kept, ownership = MemoryWebhookStore(JOBS_MAX, PAUSED_JOBS), MemoryOwnership()
        stores: Any = OwnedMemory(kept, ownership, mine), OwnedMemory(kept, ownership, others)
        mine.took(ALL, await ownership.claim(KIND, sorted(ALL), "one"))
        yield *stores, partial(_claimed, ownership, others)
        return
    urls = (request.getfixturevalue(name) for name in ("postgres_url", "owner_url"))
    async with emptied(*urls, NO_WEBHOOKS) as pool:
        stored = PostgresOwnership(pool)
        mine.took(ALL, await stored.claim(KIND, sorted(ALL), "one"))
        yield PostgresWebhookStore(pool, mine), PostgresWebhookStore(pool, others), partial(_claimed, stored, others)


async def _claimed(ownership: Any, held: HeldSlices, slices: Collection[int]) -> None:
    held.took(slices, await ownership.claim(KIND, sorted(slices), "two"))
