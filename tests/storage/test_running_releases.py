"""Who uses a database: connections say their release, and an old one cannot open a new connection."""

import asyncpg
import pytest

from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.release import RELEASE
from actors.storage import running_releases
from actors.storage.connections import checked_postgres, connect_postgres
from actors.storage.running_releases import (
    ReleaseTooOld,
    application_name,
    release_of,
    require_none_before,
    too_old,
)
from actors.storage.schema_plan import SchemaMismatch


def test_a_connections_name_ends_with_its_release() -> None:
    """Also where the name is too long for PostgreSQL: the end must not be what is cut off."""
    assert application_name("send-racer", "0.2.0") == "send-racer @0.2.0"
    assert release_of(application_name("x" * 100, "0.10.0")) == "0.10.0"
    assert len(application_name("x" * 100)) == 63


def test_connections_of_the_first_release_are_known_by_their_names() -> None:
    """Those of other programs are nobody's business: a person with psql holds nothing up."""
    for name in ("gateway", "account-shard-12", "send-racer", "ledger-gateway signals", "signal-classifier-0"):
        assert release_of(name) == "0.1.0"
    for name in ("psql", "", "pgAdmin 4 - DB:ledger", "tests", "ledger-gateway start"):
        assert release_of(name) is None
    assert too_old(["gateway", "psql", "a @0.2.0", "b @0.3.0", "gateway"], "0.3.0") == ["a @0.2.0", "gateway"]


async def test_old_connections_to_the_same_database_are_found(pool: asyncpg.Pool, postgres_url: str) -> None:
    """With the product's role, while the role that owns the tables asks; and not any more once they have ended."""
    old = await asyncpg.connect(postgres_url, server_settings={"application_name": "account-shard-0"})
    async with pool.acquire() as connection:
        with pytest.raises(SchemaMismatch, match=r"before 0\.2\.0 still use .*account-shard-0.*deploy release 0\.2\.0"):
            await require_none_before(connection, "0.2.0")
        await require_none_before(connection, "0.1.0")
        await old.close()
        while await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'account-shard-0'"
        ):
            pass
        await require_none_before(connection, "0.2.0")


async def test_a_connection_to_an_empty_database_causes_no_error(
    pool: asyncpg.Pool, owner_url: str, postgres_server: EmbeddedPostgres
) -> None:
    """At the very first start the tables are not there yet, and the server's log has no error that an operator would
    look into."""
    assert await pool.fetchval("SELECT to_regclass('schema_contexts')") is None
    before = postgres_server.child.log_path.stat().st_size
    for application in ("first", "second"):
        opened = await connect_postgres(owner_url, connections_max=1, application=application)
        # The same connection causes an error that is logged, so the log is read after everything before it.
        with pytest.raises(asyncpg.DivisionByZeroError):
            await opened.fetchval("SELECT 1 / 0")
        await opened.close()
    with postgres_server.child.log_path.open(encoding="utf-8") as log:
        log.seek(before)
        errors = [line for line in log if " ERROR: " in line]
    assert len(errors) == 2
    assert all("division by zero" in line for line in errors)


async def test_a_release_without_room_opens_no_connection(
    pool: asyncpg.Pool, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was idle when a contract migration looked is stopped here; at its start, and at work."""
    at_work = await connect_postgres(owner_url, connections_max=1, application="tests")
    await at_work.expire_connections()
    await pool.execute("CREATE TABLE schema_contexts (compatible_from text)")
    await pool.execute("INSERT INTO schema_contexts VALUES ('0.1.0'), ($1)", RELEASE)
    assert await at_work.fetchval("SELECT 1") == 1
    await at_work.expire_connections()
    await pool.execute("INSERT INTO schema_contexts VALUES ('99.0.0')")
    with pytest.raises(ReleaseTooOld, match=r"for release 99\.0\.0 and newer"):
        await at_work.fetchval("SELECT 1")
    at_work.terminate()
    for connect in (connect_postgres, checked_postgres):
        with pytest.raises(ReleaseTooOld):
            await connect(owner_url, connections_max=1, application="tests")
    monkeypatch.setattr(running_releases, "RELEASE", "99.0.0")
    newer = await connect_postgres(owner_url, connections_max=1, application="tests")
    await newer.close()
