"""Every context that keeps something finds its tables."""

import asyncpg
from pydantic import SecretStr

from actors.config import Config, StorageConfig
from actors.launch.migrations import CONTEXTS, migrate_all
from tests.tidy.sources import ROOT


def test_every_schema_file_is_applied_by_somebody():
    """A context with a schema that nobody applies would fail at its first write."""
    found = {f"actors.{path.parent.name}" for path in ROOT.glob("actors/*/schema*.sql")}
    assert found == set(CONTEXTS)


async def test_the_tables_are_there_and_again_changes_nothing(postgres_url: str):
    """Every start does it, and so may many processes at once. No function is there twice."""
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)))
    await migrate_all(config)
    await migrate_all(config)
    connection = await asyncpg.connect(postgres_url)
    try:
        made = await connection.fetch("SELECT context FROM schema_version")
        assert {f"actors.{row['context']}" for row in made} == set(CONTEXTS)
        assert await connection.fetchval("SELECT count(*) FROM x402_payments") == 0
        twice = await connection.fetch(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace GROUP BY 1 HAVING count(*) > 1"
        )
        assert twice == []
    finally:
        await connection.close()
