import asyncpg

from actors.accounts.audit_queries import ACROSS
from tests.accounts.test_audit import filled


async def test_each_query_gives_an_account_and_what_the_fault_is_about(postgres_pool: asyncpg.Pool) -> None:
    """Money rule 6. The audit shows both. A true ledger has none."""
    await filled(postgres_pool)
    async with postgres_pool.acquire() as connection:
        for what, query in ACROSS.items():
            prepared = await connection.prepare(query)
            account, about = prepared.get_attributes()
            assert account.type.name == "bytea" and about.type.name in ("bytea", "integer", "int4", "int8"), what
            assert await prepared.fetch() == [], what
