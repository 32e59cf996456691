from collections.abc import AsyncIterator

import pytest

from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.store import WebhookStore
from tests.databases import emptied

from .memory_store import MemoryWebhookStore
from .outside import Receiver, receiver
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
        yield MemoryWebhookStore(JOBS_MAX, PAUSED_JOBS)
        return
    urls = (request.getfixturevalue(name) for name in ("postgres_url", "owner_url"))
    async with emptied(*urls, NO_WEBHOOKS) as pool:
        yield PostgresWebhookStore(pool, JOBS_MAX, PAUSED_JOBS)
