"""Reads the SQL files of each context, and a database's records of them.

Implements: design, "Layout" (storage); launch/README.md, "Upgrades". A context has three files beside its store:
`schema.sql` (tables, for a new database), `functions.sql` (applied at every start, so each function stands in the
project once) and `grants.sql` (rights of the product's role, applied at every start). Its `migrations/` bring the
tables of an earlier release to those in `schema.sql`. The role that owns the tables applies all of them. The product
runs with a role that has only the rights in `grants.sql`.
Not here: connections (connections.py), the plan (schema_plan.py), applying it (migrating.py), the list of contexts and
the roles (launch/assembly/migrations.py).
"""

from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import asyncpg

from actors.release import FIRST_RELEASE, RELEASE
from actors.storage.migration_files import Migration, in_order, parse
from actors.storage.schema_plan import ContextRecord, DatabaseRecords, Layout, require_usable

_MIGRATIONS = "migrations"  # Folder of a context's migrations.


def read_layout(package: str) -> Layout:
    """Read the SQL files of a context. package: such as "actors.accounts". A missing file counts as empty."""
    folder = resources.files(package)

    def text(name: str) -> str:
        file = folder / name
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    context = package.rpartition(".")[2]
    return Layout(context, text("schema.sql"), text("functions.sql"), text("grants.sql"), read_migrations(folder))


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    """Read the migrations of a context in their order. Empty: it has had one form of its tables only."""
    inside = folder / _MIGRATIONS
    if not inside.is_dir():
        return ()
    files = [file for file in inside.iterdir() if file.name.endswith(".sql")]
    return in_order(parse(file.name, file.read_text(encoding="utf-8")) for file in files)


async def check_schema(pool: asyncpg.Pool, layouts: Sequence[Layout], release: str = RELEASE) -> None:
    """Raise SchemaMismatch unless this release may run on the database. Needs only the product's rights."""
    async with pool.acquire() as connection:
        found = await read_records(connection)
    for layout in layouts:
        require_usable(layout, found, release)


async def read_records(connection: Any) -> DatabaseRecords:
    """Read what the database says about each context."""
    ancient, first, now = await connection.fetchrow(
        "SELECT to_regclass('schema_files'), to_regclass('schema_version'), to_regclass('schema_contexts')"
    )
    if ancient is not None:
        return DatabaseRecords({}, is_ancient=True)
    records = {} if first is None else await _of_first_release(connection)
    if now is not None:
        records |= await _of_today(connection)
    return DatabaseRecords(records)


async def _of_first_release(connection: Any) -> dict[str, ContextRecord]:
    """Read the records of 0.1.0, which knew one form of each context's tables and kept its checksum."""
    rows = await connection.fetch("SELECT context, tables, functions FROM schema_version")
    return {
        context: ContextRecord({1: tables}, functions, FIRST_RELEASE, FIRST_RELEASE)
        for context, tables, functions in rows
    }


async def _of_today(connection: Any) -> dict[str, ContextRecord]:
    applied: dict[str, dict[int, str]] = {}
    for context, number, text in await connection.fetch("SELECT context, number, checksum FROM schema_migrations"):
        applied.setdefault(context, {})[number] = text
    rows = await connection.fetch("SELECT context, functions, release, compatible_from FROM schema_contexts")
    return {context: ContextRecord(applied[context], *rest) for context, *rest in rows}
