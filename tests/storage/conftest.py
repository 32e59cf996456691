from collections.abc import AsyncIterator

import asyncpg
import pytest

from actors.storage import connections


@pytest.fixture
async def pool(owner_url: str) -> AsyncIterator[asyncpg.Pool]:
    opened = await connections.connect_postgres(owner_url, connections_max=4, application="tests")
    await opened.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield opened
    await opened.close()
