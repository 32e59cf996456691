from collections.abc import AsyncIterator

import pytest

from .outside import Receiver, receiver
from .world import WebhookWorld, a_webhook_world


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
