"""An emptied database of a real Redis for each test of the store."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis


@pytest.fixture
async def redis_client(redis_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_url, socket_timeout=5)
    await client.flushall()
    yield client
    await client.aclose()
