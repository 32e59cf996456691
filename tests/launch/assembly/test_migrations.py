"""Every context that keeps something finds its tables."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from pydantic import SecretStr

from actors.config import Config, StorageConfig
from actors.launch.assembly.migrations import CONTEXTS, excess_rights, migrate_all
from actors.local_servers import postgres_roles
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.storage.connections import connect_postgres
from actors.storage.schema_plan import SchemaMismatch
from tests.conftest import a_server_of_its_own
from tests.databases import as_role
from tests.tidy.sources import ROOT


def test_every_schema_file_is_applied_by_somebody():
    """A context with a schema that nobody applies would fail at its first write."""
    found = [path for name in ("schema*", "functions*", "grants*") for path in ROOT.glob(f"actors/*/{name}.sql")]
    assert {f"actors.{path.parent.name}" for path in found} == set(CONTEXTS)
    assert {path.name for path in found} == {"schema.sql", "functions.sql", "grants.sql"}, "a file that nobody applies"


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


def settings_of(postgres_url: str, owner_url: str | None) -> Config:
    owner = None if owner_url is None else SecretStr(owner_url)
    return Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url), postgres_migrations_url=owner))


async def test_every_start_gives_the_product_its_rights_and_no_others(
    postgres_url: str, owner_url: str, caplog: pytest.LogCaptureFixture
):
    """A right that somebody gave in between is gone after the next start; nothing is warned about."""
    await as_role(owner_url, "GRANT ALL ON ledger, accounts TO ledger_gateway")
    config = await migrate_all(settings_of(postgres_url, owner_url))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await as_role(postgres_url, "UPDATE ledger SET amount = 0")
    assert "too strong" not in caplog.text
    assert config.storage.postgres_migrations_url is None, "no other process needs it"
    assert config.storage.postgres_url == SecretStr(postgres_url)


async def test_one_role_for_both_works_and_is_told(owner_url: str, caplog: pytest.LogCaptureFixture):
    """Rule: with DATABASE_URL alone the product starts, and says once which role to make and where to put it."""
    await migrate_all(settings_of(owner_url, None))
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    text = record.getMessage()
    assert "role ledger_owner, which is too strong: it owns the tables" in text
    assert "roles.sql" in text and "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL" in text
    assert urlsplit(owner_url).password not in text


async def test_the_products_role_alone_suffices_once_the_tables_are_there(
    postgres_url: str, owner_url: str, caplog: pytest.LogCaptureFixture
):
    """After `migrate` a cluster is given DATABASE_URL alone. On a database without tables the text says what to do."""
    await migrate_all(settings_of(postgres_url, None))
    assert caplog.text == ""
    await as_role(
        owner_url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO PUBLIC"
    )
    with pytest.raises(SchemaMismatch, match="POSTGRES_MIGRATIONS_URL"):
        await migrate_all(settings_of(postgres_url, None))
    await migrate_all(settings_of(postgres_url, owner_url))


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL with an administrator and without the product's roles."""
    monkeypatch.setattr(postgres_roles, "ACCESS_RULES", "local all all trust\n")
    monkeypatch.setattr(postgres_roles, "statements", lambda *_: "SELECT 1\n")
    with a_server_of_its_own() as (server, _):
        yield server


async def test_roles_sql_makes_two_roles_that_work(own_server: EmbeddedPostgres):
    """The file is run as it stands by an administrator; with both URLs the product's role is then not too strong."""
    server = own_server
    sql = (ROOT / "actors/launch/roles.sql").read_text(encoding="utf-8")
    admin = server.url.replace("ledger_gateway:", "postgres:")
    await as_role(admin, sql.replace(":'product_password'", "'p'").replace(":'owner_password'", "'o'"))
    await migrate_all(settings_of(server.url, server.migrations_url))
    pool = await connect_postgres(server.url, connections_max=1, application="tests")
    assert await excess_rights(pool) == []
    await pool.close()
