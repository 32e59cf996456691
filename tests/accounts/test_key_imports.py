"""Guards the turns of imports in PostgreSQL: who comes second sees what the first has made durable."""

import asyncio

from actors.accounts.key_imports import PostgresKeyImports
from actors.accounts.store import WRITE_SECONDS, StoreUnavailable
from actors.storage.connections import borrowed, connect_postgres


async def test_imports_of_one_key_take_turns_and_those_of_others_do_not(postgres_url: str) -> None:
    pool = await connect_postgres(postgres_url, connections_max=3, application="test")
    imports, order = PostgresKeyImports(lambda: borrowed(pool, WRITE_SECONDS, StoreUnavailable)), list[str]()

    async def take(name: str, key: bytes) -> None:
        async with imports.turn(key) as holder:
            assert holder is None
            order.append(f"{name} begins")
            await asyncio.sleep(0.05)
            order.append(f"{name} ends")

    await asyncio.gather(take("one", b"k" * 32), take("two", b"k" * 32))
    assert [line.split()[1] for line in order] == ["begins", "ends"] * 2
    order.clear()
    await asyncio.gather(take("one", b"k" * 32), take("two", b"l" * 32))
    assert [line.split()[1] for line in order] == ["begins", "begins", "ends", "ends"]
    await pool.close()
