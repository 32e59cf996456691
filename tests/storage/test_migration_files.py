"""Files of migrations: their form, their order, and the forms that are refused."""

import pytest

from actors.launch.assembly.migrations import CONTEXTS
from actors.storage.migration_files import MigrationKind, checksum, in_order, parse
from actors.storage.schema import read_layout

_INDEX = "CREATE INDEX CONCURRENTLY ducks_by_name ON ducks (name) WHERE name <> '';"


def test_the_first_line_says_what_a_migration_does() -> None:
    first = parse("0001_first.sql", "-- First: ducks.\nCREATE TABLE ducks (name text);")
    assert (first.number, first.name, first.kind, first.contract_from) == (1, "0001_first", MigrationKind.FIRST, None)
    more = parse("0002_weight.sql", "-- Expand: weights.\nALTER TABLE ducks ADD weight_grams integer;")
    assert (more.kind, more.contract_from, more.index) == (MigrationKind.EXPAND, None, None)
    less = parse("0003_no_weight.sql", "-- Contract from 0.3.0: none.\nALTER TABLE ducks DROP weight_grams;")
    assert (less.kind, less.contract_from) == (MigrationKind.CONTRACT, "0.3.0")
    index = parse("0004_by_name.sql", f"-- Outside a transaction: large.\n{_INDEX}")
    assert (index.kind, index.index) == (MigrationKind.INDEX, "ducks_by_name")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2_weight.sql", "-- Expand: x\nSELECT 1;"),
        ("0002_Weight.sql", "-- Expand: x\nSELECT 1;"),
        ("0002_weight.sql", "SELECT 1;"),
        ("0002_weight.sql", "-- Expand:\nSELECT 1;"),
        ("0002_weight.sql", "-- Contract: from which release?\nSELECT 1;"),
        ("0002_weight.sql", "-- First: but it is the second\nSELECT 1;"),
        ("0001_first.sql", "-- Expand: but it is the first\nSELECT 1;"),
        ("0002_index.sql", f"-- Expand: in a transaction\n{_INDEX}"),
        ("0002_index.sql", f"-- Outside a transaction: with more\n{_INDEX} SELECT 1;"),
        ("0002_index.sql", "-- Outside a transaction: without a name\nCREATE INDEX CONCURRENTLY ON ducks (name);"),
        ("0002_weight.sql", "-- Outside a transaction: no index\nALTER TABLE ducks ADD weight_grams integer;"),
    ],
)
def test_a_file_in_another_form_is_a_mistake(name: str, text: str) -> None:
    with pytest.raises(AssertionError, match=name):
        parse(name, text)


def test_numbers_have_no_gap_and_no_double() -> None:
    """Two branches that both made number 2 are found when they meet."""
    first, second, third = (
        parse(f"000{number}_x.sql", f"-- {kind}: x\nSELECT 1;")
        for number, kind in ((1, "First"), (2, "Expand"), (3, "Expand"))
    )
    assert in_order([third, first, second]) == (first, second, third)
    for wrong in ([first, third], [first, second, second], [second]):
        with pytest.raises(AssertionError):
            in_order(wrong)


def test_comments_and_spaces_change_no_checksum() -> None:
    assert checksum("-- Ducks.\nSELECT  1;\n") == checksum("SELECT 1;") != checksum("SELECT 2;")


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_projects_own_files_are_in_this_form(context: str) -> None:
    """And a context whose tables have changed has what they were first, so that databases of then are known."""
    layout = read_layout(context)
    assert max(layout.checksums) == len(layout.checksums)
