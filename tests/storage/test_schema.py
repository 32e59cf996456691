"""Tables, functions and rights of the contexts, brought to a real database."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from actors.launch.assembly.migrations import CONTEXTS
from actors.storage import connections, schema
from actors.storage.connections import StoreUnreachable
from actors.storage.schema import Layout, SchemaMismatch, check_schema, migrate, read_layout

DUCKS = Layout(
    "ducks",
    "CREATE TABLE ducks (name text PRIMARY KEY);",
    "CREATE OR REPLACE FUNCTION quack() RETURNS text LANGUAGE sql AS 'SELECT ''quack''';",
    "",
)


def test_a_layout_is_read_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files with fixed names; nothing else in the folder counts, and one that is missing is empty."""
    package = tmp_path / "pond"
    package.mkdir()
    for name in ("schema.sql", "functions.sql", "queries.sql"):
        (package / name).write_text(f"-- {name}")
    monkeypatch.syspath_prepend(tmp_path)
    assert read_layout("pond") == Layout("pond", "-- schema.sql", "-- functions.sql", "")


@pytest.mark.parametrize("context", CONTEXTS)
def test_each_function_stands_in_one_place(context: str) -> None:
    """A second text of a function in the same files would silently win or lose by its place."""
    layout = read_layout(context)
    names = re.findall(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)", layout.schema + layout.functions)
    assert len(set(names)) == len(names)
    assert "ALTER TABLE" not in layout.schema, "a table is made whole where it is made"


async def test_tables_are_made_once_and_functions_at_every_start(pool: asyncpg.Pool) -> None:
    """A function may change with any version; tables may not, and what is in them stays."""
    assert await migrate(pool, [DUCKS]) == ("ducks",)
    await pool.execute("INSERT INTO ducks VALUES ('donald')")
    await pool.execute("CREATE OR REPLACE FUNCTION quack() RETURNS text LANGUAGE sql AS 'SELECT ''moo'''")
    assert await migrate(pool, [DUCKS]) == ()
    assert await pool.fetchval("SELECT quack()") == "quack"
    newer = replace(DUCKS, functions=DUCKS.functions.replace("'quack'", "'QUACK'"))
    assert await migrate(pool, [newer]) == ()
    assert await pool.fetchval("SELECT quack() || name FROM ducks") == "QUACKdonald"


async def test_many_processes_may_migrate_at_once(pool: asyncpg.Pool) -> None:
    """One of them makes the tables, the others wait and find them."""
    results = await asyncio.gather(*(migrate(pool, [DUCKS]) for _ in range(8)))
    assert sorted(results) == [()] * 7 + [("ducks",)]


async def test_a_lock_that_is_never_let_go_is_told(pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that waits says for which lock; and the connection goes back as it was."""
    monkeypatch.setattr(schema, "_LOCK_WAIT_SECONDS", 0.05)
    async with pool.acquire() as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", schema._LOCK)
        with pytest.raises(StoreUnreachable, match="another process has held the schema lock"):
            await migrate(pool, [DUCKS])
        await holder.execute("SELECT pg_advisory_unlock($1)", schema._LOCK)
    assert await migrate(pool, [DUCKS]) == ("ducks",)


async def test_migrating_leaves_the_connections_as_they_were(pool: asyncpg.Pool, owner_url: str) -> None:
    """The time limit of statements, which is off while files are applied, is on again."""
    single = await connections.connect_postgres(owner_url, connections_max=1, application="tests")
    before = await single.fetchval("SHOW statement_timeout")
    await migrate(single, [DUCKS])
    assert await single.fetchval("SHOW statement_timeout") == before != "0"
    await single.close()


async def test_a_context_that_fails_leaves_nothing(pool: asyncpg.Pool) -> None:
    """A context is brought over whole or not at all, is not recorded, and the lock is let go."""
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(pool, [replace(DUCKS, functions="SELECT 1/0;")])
    assert await pool.fetchval("SELECT to_regclass('ducks')") is None
    assert await migrate(pool, [DUCKS]) == ("ducks",)


async def test_tables_of_another_version_are_refused(pool: asyncpg.Pool) -> None:
    """The database would silently differ from the file. A comment changes no table."""
    await migrate(pool, [DUCKS])
    assert await migrate(pool, [replace(DUCKS, schema=f"-- Birds.\n{DUCKS.schema}\n")]) == ()
    other = replace(DUCKS, schema="CREATE TABLE ducks (name text PRIMARY KEY, weight_grams integer);")
    with pytest.raises(SchemaMismatch, match=r"another version .*--fresh"):
        await migrate(pool, [other])
    with pytest.raises(SchemaMismatch, match="another version"):
        await check_schema(pool, [other])
    await check_schema(pool, [DUCKS])


async def test_a_database_of_an_older_layout_is_refused(pool: asyncpg.Pool) -> None:
    """Earlier versions kept a list of applied files; the text says what to do."""
    await pool.execute("CREATE TABLE schema_files (name text)")
    with pytest.raises(SchemaMismatch, match=r"another version .*--fresh"):
        await migrate(pool, [DUCKS])


async def test_a_database_without_tables_is_told(pool: asyncpg.Pool) -> None:
    """The product's role cannot make them; the text says which role can."""
    with pytest.raises(SchemaMismatch, match="POSTGRES_MIGRATIONS_URL"):
        await check_schema(pool, [DUCKS])
    await migrate(pool, [DUCKS])
    with pytest.raises(SchemaMismatch, match="functions of ducks"):
        await check_schema(pool, [replace(DUCKS, functions="")])
