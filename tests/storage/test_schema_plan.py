"""The plan: what is missing is done in order, what is newer is left alone, what cannot be is refused with a remedy."""

from dataclasses import replace

import pytest

from actors.storage.migration_files import Migration, parse
from actors.storage.schema_plan import (
    ContextRecord,
    DatabaseRecords,
    Layout,
    SchemaChange,
    SchemaMismatch,
    contract_from,
    plan,
    require_usable,
)

FIRST = parse("0001_first.sql", "-- First: x\nCREATE TABLE ducks (name text);")
EXPAND = parse("0002_weight.sql", "-- Expand: x\nALTER TABLE ducks ADD weight_grams integer;")
CONTRACT = parse("0003_no_name.sql", "-- Contract from 0.3.0: x\nALTER TABLE ducks DROP name;")
_RELEASES = ("0.1.0", "0.2.0", "0.3.0")


def layout_of(*migrations: Migration) -> Layout:
    return Layout("ducks", "CREATE TABLE ducks (name text);", "SELECT 1;", "", migrations)


def record_of(layout: Layout, release: str, compatible_from: str = "0.1.0") -> DatabaseRecords:
    return DatabaseRecords(
        {"ducks": ContextRecord(layout.checksums, layout.functions_checksum, release, compatible_from)}
    )


AT_1, AT_2, AT_3 = layout_of(FIRST), layout_of(FIRST, EXPAND), layout_of(FIRST, EXPAND, CONTRACT)


def test_an_empty_database_gets_the_tables_of_today() -> None:
    """Not the first ones and every migration after them; but it may say that it has no room for old releases."""
    made = plan(AT_3, DatabaseRecords({}), "0.3.0")
    assert [step.change for step in made.steps] == [SchemaChange.TABLES]
    assert made.compatible_from == "0.3.0" and contract_from([made]) is None


def test_what_is_missing_is_done_in_order() -> None:
    made = plan(AT_3, record_of(AT_1, "0.1.0"), "0.3.0")
    assert [step.name for step in made.steps] == ["0002_weight", "0003_no_name"]
    assert (made.compatible_from, contract_from([made])) == ("0.3.0", "0.3.0")
    made = plan(AT_3, record_of(AT_2, "0.2.0"), "0.3.0")
    assert [step.name for step in made.steps] == ["0003_no_name"]
    assert plan(AT_3, record_of(AT_3, "0.3.0", "0.3.0"), "0.3.0").steps == ()


def test_other_functions_are_a_step_of_their_own() -> None:
    """A release that only changes functions needs no number."""
    newer = replace(AT_2, functions="SELECT 2;")
    made = plan(newer, record_of(AT_2, "0.2.0"), "0.2.1")
    assert [(step.name, step.what) for step in made.steps] == [("functions", "replace the functions")]
    with pytest.raises(SchemaMismatch, match=r"functions of ducks .* earlier release: run `ledger-gateway migrate`"):
        require_usable(newer, record_of(AT_2, "0.2.0"), "0.2.1")


def test_a_process_of_before_goes_on_where_there_is_room_for_it() -> None:
    """It restarts on a database that was brought on meanwhile: it finds functions and numbers that it does not know,
    and would change neither."""
    expanded = record_of(replace(AT_2, functions="SELECT 2;"), "0.2.0")
    require_usable(AT_1, expanded, "0.1.0")
    made = plan(AT_1, expanded, "0.1.0")
    assert made.is_newer and made.steps == ()
    only_functions = record_of(replace(AT_1, functions="SELECT 2;"), "0.2.0")
    assert plan(AT_1, only_functions, "0.1.0").is_newer


def test_a_process_of_before_is_refused_where_there_is_none() -> None:
    contracted = record_of(AT_3, "0.3.0", "0.3.0")
    with pytest.raises(SchemaMismatch, match=r"brought to release 0\.3\.0.*this is 0\.2\.0: run 0\.3\.0 or a newer"):
        require_usable(AT_2, contracted, "0.2.0")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (DatabaseRecords({}), "no tables of ducks yet: run `ledger-gateway migrate`"),
        (record_of(AT_1, "0.1.0"), "0002_weight and what comes after it is missing: run `ledger-gateway migrate`"),
        (DatabaseRecords({}, is_ancient=True), r"another version .*--fresh"),
    ],
)
def test_a_process_does_not_start_on_a_database_of_before(found: DatabaseRecords, told: str) -> None:
    with pytest.raises(SchemaMismatch, match=told):
        require_usable(AT_2, found, "0.2.0")


@pytest.mark.parametrize("release", _RELEASES)
def test_a_migration_that_was_changed_afterwards_is_refused(release: str) -> None:
    """Nobody can say what such a database has; whichever release asks."""
    changed = parse("0002_weight.sql", "-- Expand: x\nALTER TABLE ducks ADD weight_grams bigint;")
    found = record_of(layout_of(FIRST, changed), "0.2.0")
    with pytest.raises(SchemaMismatch, match=r"ducks, number 2.* another version"):
        plan(AT_3, found, release)


def test_the_tables_of_a_context_without_migrations_are_its_number_1() -> None:
    """So it may get its first migration later, and until then other tables are refused as they always were."""
    bare = layout_of()
    assert plan(bare, record_of(bare, "0.2.0"), "0.2.0").steps == ()
    assert [step.name for step in plan(AT_2, record_of(bare, "0.1.0"), "0.2.0").steps] == ["0002_weight"]
    other = replace(bare, schema="CREATE TABLE ducks (name text, weight_grams integer);")
    with pytest.raises(SchemaMismatch, match="another version"):
        plan(other, record_of(bare, "0.2.0"), "0.2.0")


def test_every_step_says_what_it_means() -> None:
    """An operator reads the plan before it is carried out."""
    expand, contract = plan(AT_3, record_of(AT_1, "0.1.0"), "0.3.0").steps
    assert expand.what == "expand: the release before may go on running"
    assert contract.what == "contract: releases before 0.3.0 must not run afterwards"
    index = parse("0004_i.sql", "-- Outside a transaction: x\nCREATE INDEX CONCURRENTLY i ON ducks (weight_grams);")
    (step,) = plan(layout_of(FIRST, EXPAND, CONTRACT, index), record_of(AT_3, "0.3.0", "0.3.0"), "0.3.0").steps
    assert "index i outside a transaction" in step.what
