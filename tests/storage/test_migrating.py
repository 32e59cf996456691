"""Tables, functions and rights, brought to a real database step by step."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest

from actors.storage import connections, migrating
from actors.storage.connections import StoreUnreachable
from actors.storage.migrating import migrate
from actors.storage.migration_files import parse
from actors.storage.schema import check_schema, read_records
from actors.storage.schema_plan import MigrationStep, SchemaChange, SchemaMismatch
from tests.storage.catalog import broken_by, catalog, differences
from tests.storage.ducks import DUCKS, WITH_INDEX, at


def names(steps: tuple[MigrationStep, ...]) -> list[str]:
    return [step.name for step in steps]


async def test_tables_are_made_once_and_functions_at_every_start(pool: asyncpg.Pool) -> None:
    """Whoever changed a function in between, it is this release's after a start; and what is in the tables stays."""
    assert await migrate(pool, [DUCKS]) == (MigrationStep("ducks", SchemaChange.TABLES),)
    await pool.execute("INSERT INTO ducks VALUES ('donald')")
    await pool.execute("CREATE OR REPLACE FUNCTION quack() RETURNS text LANGUAGE sql AS 'SELECT ''moo'''")
    assert await migrate(pool, [DUCKS]) == ()
    assert await pool.fetchval("SELECT quack()") == "quack"
    newer = replace(DUCKS, functions=DUCKS.functions.replace("'quack'", "'QUACK'"))
    assert names(await migrate(pool, [newer])) == ["functions"]
    assert await pool.fetchval("SELECT quack() || name FROM ducks") == "QUACKdonald"


async def test_a_database_of_before_is_brought_on_with_what_is_in_it(pool: asyncpg.Pool) -> None:
    """Each migration once, in order; and then it is the same as a new database, to every statement."""
    await migrate(pool, [at(1)], release="0.1.0")
    await pool.execute("INSERT INTO ducks VALUES ('donald')")
    assert names(await migrate(pool, [at(1, 2)], release="0.2.0")) == ["0002_weight"]
    assert await migrate(pool, [at(1, 2)], release="0.2.0") == ()
    assert await pool.fetchrow("SELECT * FROM ducks") == ("donald", None)
    assert names(await migrate(pool, [at(1, 2, 3)], release="0.2.0")) == ["0003_no_name"]
    async with pool.acquire() as connection:
        brought = await catalog(connection)
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await migrate(pool, [at(1, 2, 3)], release="0.2.0")
        assert differences(brought, await catalog(connection)) == []


async def test_a_process_of_before_changes_nothing_on_a_newer_database(pool: asyncpg.Pool) -> None:
    """It would put its own functions and rights in place of those that newer processes use."""
    await migrate(pool, [at(1)], release="0.1.0")
    newer = replace(at(1, 2), functions=DUCKS.functions.replace("quack'''", "QUACK'''"))
    await migrate(pool, [newer], release="0.2.0")
    assert await migrate(pool, [at(1)], release="0.1.0") == ()
    assert await pool.fetchval("SELECT quack()") == "QUACK"
    async with pool.acquire() as connection:
        assert (await read_records(connection)).records["ducks"].release == "0.2.0"


async def test_a_contract_waits_until_no_process_of_before_is_there(pool: asyncpg.Pool, owner_url: str) -> None:
    """Refused before anything is changed; afterwards, processes of before are refused, those of 0.1.0 by the only
    record that they read."""
    await migrate(pool, [at(1)], release="0.1.0")
    old = await asyncpg.connect(owner_url, server_settings={"application_name": "gateway"})
    with pytest.raises(SchemaMismatch, match=r"before 0\.2\.0 still use"):
        await migrate(pool, [at(1, 2, 3)], release="0.3.0")
    assert await pool.fetchval("SELECT count(*) FROM pg_attribute WHERE attname = 'weight_grams'") == 0
    await old.close()
    while await pool.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gateway'"):
        pass
    assert names(await migrate(pool, [at(1, 2, 3)], release="0.3.0")) == ["0002_weight", "0003_no_name"]
    with pytest.raises(SchemaMismatch, match=r"run 0\.2\.0 or a newer one"):
        await check_schema(pool, [at(1)], "0.1.0")
    assert await pool.fetchval("SELECT tables FROM schema_version") == "for 0.2.0 and newer"


async def test_an_index_is_made_while_others_write_and_wait(pool: asyncpg.Pool) -> None:
    """Processes that wait for their turn hold no snapshot, for whose end the index would wait in turn."""
    await migrate(pool, [at(1, 2)])
    results = await asyncio.gather(*(migrate(pool, [WITH_INDEX]) for _ in range(4)))
    assert sorted(map(names, results)) == [[], [], [], ["0003_by_weight"]]
    async with pool.acquire() as connection:
        brought = await catalog(connection)
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await migrate(pool, [WITH_INDEX])
        assert differences(brought, await catalog(connection)) == []


async def test_an_index_of_a_partitioned_table_is_made_part_by_part(pool: asyncpg.Pool) -> None:
    """Rule: writers are not held up; what a run that was cut off has left is used or made anew; partitions of later get
    theirs; and the database is the same as a new one."""
    ponds = "CREATE TABLE ponds (name text, place integer) PARTITION BY RANGE (place);"
    index = "CREATE INDEX CONCURRENTLY ponds_by_name ON ponds (name) WHERE name <> '';"
    first = parse("0001_first.sql", f"-- First: the tables\n{ponds}")
    second = parse("0002_by_name.sql", f"-- Outside a transaction: large\n{index}")
    before = replace(DUCKS, context="ponds", schema=ponds, functions="", grants="", migrations=(first,))
    after = replace(before, schema=ponds + index.replace(" CONCURRENTLY", ""), migrations=(first, second))
    await migrate(pool, [before], release="0.1.0")
    for place in range(3):
        await pool.execute(f"CREATE TABLE ponds_{place} PARTITION OF ponds FOR VALUES FROM ({place}) TO ({place + 1})")
    await pool.execute("INSERT INTO ponds VALUES ('a', 0), ('a', 0), ('b', 2)")
    # Cut off: the index of the whole is there, one part is attached, and one is invalid.
    await pool.execute("CREATE INDEX ponds_by_name ON ONLY ponds (name) WHERE name <> ''")
    await pool.execute("CREATE INDEX ponds_1_ponds_by_name ON ponds_1 (name) WHERE name <> ''")
    await pool.execute("ALTER INDEX ponds_by_name ATTACH PARTITION ponds_1_ponds_by_name")
    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.execute("CREATE UNIQUE INDEX CONCURRENTLY ponds_0_ponds_by_name ON ponds_0 (name)")
    async with pool.acquire() as writer, writer.transaction():
        await writer.execute("INSERT INTO ponds VALUES ('c', 1)")
        brought = asyncio.create_task(migrate(pool, [after], release="0.2.0"))
        await asyncio.sleep(0.1)  # The migration waits for this writer, and no other writer waits for the migration.
        async with asyncio.timeout(5):
            await pool.execute("INSERT INTO ponds VALUES ('d', 2)")
    assert names(await brought) == ["0002_by_name"]
    parts = await pool.fetch(
        "SELECT i.indrelid::regclass::text AS part, i.indisvalid FROM pg_inherits h JOIN pg_index i"
        " ON i.indexrelid = h.inhrelid WHERE h.inhparent = 'ponds_by_name'::regclass ORDER BY 1"
    )
    assert list(map(tuple, parts)) == [(f"ponds_{place}", True) for place in range(3)]
    await pool.execute("CREATE TABLE ponds_3 PARTITION OF ponds FOR VALUES FROM (3) TO (4)")
    assert await pool.fetchval("SELECT count(*) FROM pg_index WHERE indrelid = 'ponds_3'::regclass") == 1
    async with pool.acquire() as connection:
        old = await catalog(connection)
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await migrate(pool, [after], release="0.2.0")
        assert differences(old, await catalog(connection)) == []


async def test_an_index_that_was_cut_off_is_made_anew(pool: asyncpg.Pool) -> None:
    """PostgreSQL leaves it there, invalid; or the process died before it wrote down that the index is there."""
    await migrate(pool, [at(1, 2)])
    await pool.execute("INSERT INTO ducks VALUES ('a', 1), ('b', 1)")
    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.execute("CREATE UNIQUE INDEX CONCURRENTLY by_weight ON ducks (weight_grams)")
    valid = "SELECT indisvalid AND NOT indisunique FROM pg_index WHERE indexrelid = 'by_weight'::regclass"
    assert not await pool.fetchval(valid)
    await migrate(pool, [WITH_INDEX])
    assert await pool.fetchval(valid)
    await pool.execute("DELETE FROM schema_migrations WHERE number = 3")
    assert names(await migrate(pool, [WITH_INDEX])) == ["0003_by_weight"]


async def test_a_dry_run_does_all_of_it_and_leaves_nothing(pool: asyncpg.Pool) -> None:
    """It fails where the migration would; only what runs outside transactions is left out."""
    await migrate(pool, [at(1)], release="0.1.0")
    async with pool.acquire() as connection:
        before, records = await catalog(connection), await read_records(connection)
        assert names(await migrate(pool, [WITH_INDEX], is_dry_run=True)) == ["0002_weight"]
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(pool, [replace(at(1, 2), functions="SELECT 1/0;")], is_dry_run=True)
        assert differences(before, await catalog(connection)) == []
        assert await read_records(connection) == records


async def test_a_migration_that_fails_leaves_whole_steps(pool: asyncpg.Pool) -> None:
    """The next start goes on with the one that failed, and a context is made whole or not at all."""
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(pool, [replace(DUCKS, functions="SELECT 1/0;")])
    assert await pool.fetchval("SELECT to_regclass('ducks')") is None
    assert names(await migrate(pool, [at(1)])) == ["tables"]
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(pool, [replace(at(1, 2), functions="SELECT 1/0;")])
    assert names(await migrate(pool, [at(1, 2)])) == []


async def test_calls_pass_while_a_migration_waits_for_a_table(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that reads the table holds it up, and whoever comes later would wait behind it. So it lets them
    pass and tries again, and tells in the end what is in its way."""
    monkeypatch.setattr(migrating, "_TABLE_WAIT_MS", 20)
    monkeypatch.setattr(migrating, "_TABLE_TRIES", 2)
    monkeypatch.setattr(migrating, "_TABLE_PAUSE_SECONDS", 0.0)
    await migrate(pool, [at(1)])
    async with pool.acquire() as reader:
        transaction = reader.transaction()
        await transaction.start()
        await reader.execute("SELECT * FROM ducks")
        with pytest.raises(StoreUnreachable, match="pg_stat_activity"):
            await migrate(pool, [at(1, 2)])
        await transaction.rollback()
    assert names(await migrate(pool, [at(1, 2)])) == ["0002_weight"]


async def test_many_processes_may_migrate_at_once(pool: asyncpg.Pool) -> None:
    """One of them makes the tables, the others wait and find them."""
    results = await asyncio.gather(*(migrate(pool, [DUCKS]) for _ in range(8)))
    assert sorted(map(names, results)) == [[]] * 7 + [["tables"]]


async def test_a_lock_that_is_never_let_go_is_told(pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that waits says for which lock; and the connection goes back as it was."""
    monkeypatch.setattr(migrating, "_LOCK_WAIT_SECONDS", 0.05)
    async with pool.acquire() as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", migrating._LOCK)
        with pytest.raises(StoreUnreachable, match="another process has held the schema lock"):
            await migrate(pool, [DUCKS])
        await holder.execute("SELECT pg_advisory_unlock($1)", migrating._LOCK)
    assert names(await migrate(pool, [DUCKS])) == ["tables"]


async def test_migrating_leaves_the_connections_as_they_were(pool: asyncpg.Pool, owner_url: str) -> None:
    """The time limit of statements, which is off while files are applied, is on again."""
    single = await connections.connect_postgres(owner_url, connections_max=1, application="tests")
    before = await single.fetchval("SHOW statement_timeout")
    await migrate(single, [DUCKS])
    assert await single.fetchval("SHOW statement_timeout") == before != "0"
    await single.close()


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("DROP TABLE ducks", "table ducks "),
        ("ALTER TABLE ducks RENAME name TO word", "column ducks name"),
        ("ALTER TABLE ducks ALTER name TYPE varchar(9)", "column ducks name"),
        ("ALTER TABLE ducks ADD legs integer NOT NULL", "column ducks legs"),
        ("ALTER TABLE ducks ADD CHECK (name <> '')", "constraint ducks ducks_name_check"),
        ("CREATE UNIQUE INDEX odd ON ducks (lower(name))", "unique index ducks odd"),
        ("ALTER TYPE duckling ADD ATTRIBUTE legs integer", "column duckling legs"),
        ("DROP FUNCTION quack()", "function quack "),
        ("DROP FUNCTION quack(); CREATE FUNCTION quack(loud boolean) RETURNS text AS 'SELECT 1' LANGUAGE sql", "quack"),
        ("ALTER TABLE ducks ADD legs integer NOT NULL DEFAULT 2; CREATE INDEX plain ON ducks (legs)", None),
        ("CREATE TABLE geese (name text PRIMARY KEY CHECK (name <> ''))", None),
        ("CREATE OR REPLACE FUNCTION quack() RETURNS text LANGUAGE sql AS 'SELECT ''QUACK'''", None),
    ],
)
async def test_the_check_of_expansions_finds_what_it_is_for(
    pool: asyncpg.Pool, statement: str, broken: str | None
) -> None:
    """A rule that never says no guards nothing."""
    await migrate(pool, [DUCKS])
    async with pool.acquire() as connection:
        await connection.execute("CREATE TYPE duckling AS (name text)")
        before = await catalog(connection)
        await connection.execute(statement)
        found = broken_by(before, await catalog(connection))
    assert (found == []) if broken is None else any(broken in each for each in found), found
