"""The SQL files of contexts, and what a real database says about them."""

import re
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from actors.launch.assembly.migrations import CONTEXTS
from actors.release import RELEASE
from actors.storage.migrating import migrate
from actors.storage.schema import check_schema, read_layout, read_migrations, read_records
from actors.storage.schema_plan import ContextRecord, DatabaseRecords, Layout, SchemaMismatch
from tests.storage.ducks import DUCKS, WEIGHT, at


def test_a_layout_is_read_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files with fixed names, and migrations; nothing else in the folder counts, and what is missing is empty."""
    package = tmp_path / "pond"
    (package / "migrations").mkdir(parents=True)
    for name in ("schema.sql", "functions.sql", "queries.sql"):
        (package / name).write_text(f"-- {name}")
    (package / "migrations/0001_first.sql").write_text("-- First: x\nSELECT 1;")
    monkeypatch.syspath_prepend(tmp_path)
    found = read_layout("pond")
    assert replace(found, migrations=()) == Layout("pond", "-- schema.sql", "-- functions.sql", "")
    assert [each.name for each in found.migrations] == ["0001_first"]


def test_a_folder_without_migrations_has_none(tmp_path: Path) -> None:
    assert read_migrations(tmp_path) == ()
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations/0001_first.sql").write_text("-- First: x\nSELECT 1;")
    (tmp_path / "migrations/README.md").write_text("not SQL")
    assert [each.name for each in read_migrations(tmp_path)] == ["0001_first"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_each_function_stands_in_one_place(context: str) -> None:
    """A second text of a function in the same files would silently win or lose by its place."""
    layout = read_layout(context)
    names = re.findall(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)", layout.schema + layout.functions)
    assert len(set(names)) == len(names)
    assert "ALTER TABLE" not in layout.schema, "a table is made whole where it is made"


async def test_records_are_those_of_the_migrations(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection:
        assert await read_records(connection) == DatabaseRecords({})
        layout = at(1, 2)
        await migrate(pool, [layout])
        record = ContextRecord(layout.checksums, layout.functions_checksum, RELEASE, "0.1.0")
        assert await read_records(connection) == DatabaseRecords({"ducks": record})


async def test_a_database_of_the_first_release_is_at_number_1(pool: asyncpg.Pool) -> None:
    """0.1.0 kept the checksums of tables and functions, and knew no numbers."""
    await pool.execute("CREATE TABLE schema_version (context text, tables text, functions text)")
    await pool.execute("INSERT INTO schema_version VALUES ('ducks', 't', 'f')")
    async with pool.acquire() as connection:
        assert await read_records(connection) == DatabaseRecords(
            {"ducks": ContextRecord({1: "t"}, "f", "0.1.0", "0.1.0")}
        )


async def test_a_database_of_an_older_layout_is_refused(pool: asyncpg.Pool) -> None:
    """Versions before 0.1.0 kept a list of applied files; the text says what to do."""
    await pool.execute("CREATE TABLE schema_files (name text)")
    with pytest.raises(SchemaMismatch, match=r"another version .*--fresh"):
        await check_schema(pool, [DUCKS])


async def test_a_process_starts_on_what_it_knows_or_what_has_room_for_it(pool: asyncpg.Pool) -> None:
    """A release before, this one, and one after it, on one database that this one has expanded."""
    with pytest.raises(SchemaMismatch, match="no tables of ducks yet"):
        await check_schema(pool, [DUCKS])
    await migrate(pool, [at(1)], release="0.1.0")
    await migrate(pool, [at(1, 2)], release="0.2.0")
    await check_schema(pool, [at(1)], "0.1.0")
    await check_schema(pool, [at(1, 2)], "0.2.0")
    with pytest.raises(SchemaMismatch, match=r"0003_no_name .* missing"):
        await check_schema(pool, [at(1, 2, 3)], "0.3.0")
    with pytest.raises(SchemaMismatch, match="functions of ducks"):
        await check_schema(pool, [replace(at(1, 2), functions="")], "0.2.0")
    assert WEIGHT in at(1, 2).migrations
