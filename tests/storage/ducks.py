"""A context that grew over three releases, for tests of migrations."""

from actors.storage.migration_files import parse
from actors.storage.schema_plan import Layout

QUACK = "CREATE OR REPLACE FUNCTION quack() RETURNS text LANGUAGE sql AS 'SELECT ''quack''';"
DUCKS = Layout("ducks", "CREATE TABLE ducks (name text PRIMARY KEY);", QUACK, "")
FIRST = parse("0001_first.sql", f"-- First: ducks.\n{DUCKS.schema}")
WEIGHT = parse("0002_weight.sql", "-- Expand: weights.\nALTER TABLE ducks ADD COLUMN weight_grams integer;")
NO_NAME = parse("0003_no_name.sql", "-- Contract from 0.2.0: names are not used.\nALTER TABLE ducks DROP COLUMN name;")
BY_WEIGHT = parse(
    "0003_by_weight.sql",
    "-- Outside a transaction: many ducks.\nCREATE INDEX CONCURRENTLY by_weight ON ducks (weight_grams);",
)
_SCHEMAS = {
    1: DUCKS.schema,
    2: "CREATE TABLE ducks (name text PRIMARY KEY, weight_grams integer);",
    3: "CREATE TABLE ducks (weight_grams integer);",
}
_MIGRATIONS = {1: FIRST, 2: WEIGHT, 3: NO_NAME}


def at(*numbers: int) -> Layout:
    """The context at the last of these numbers."""
    return Layout("ducks", _SCHEMAS[numbers[-1]], QUACK, "", tuple(_MIGRATIONS[number] for number in numbers))


WITH_INDEX = Layout(
    "ducks", f"{_SCHEMAS[2]} CREATE INDEX by_weight ON ducks (weight_grams);", QUACK, "", (FIRST, WEIGHT, BY_WEIGHT)
)
