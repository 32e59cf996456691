"""The catalog against the specification's own table, which is kept beside this file as it was written."""

import re
from pathlib import Path

from actors.methods.catalog import METHODS
from actors.methods.prices import CLASSES, MethodClass

TEXT = (Path(__file__).parent / "spec_table.md").read_text(encoding="utf-8")
TABLE, _, OUTSIDE = TEXT.partition("## Methods that")
NO_PRICE = {"none", "outcome-priced", "percentage-priced"}


def rows(text: str) -> list[list[str]]:
    """Cells of the tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def price(cell: str) -> int | None:
    return None if cell in NO_PRICE else int(cell)


def test_every_method_has_the_class_of_the_table() -> None:
    """No method more, none less, none in another class."""
    wanted = {}
    for name, _, methods in rows(TABLE):
        for method in methods.partition(":")[0].split(","):
            wanted[method.strip()] = name
    wanted |= {method: name for method, name, _, _ in rows(OUTSIDE)}
    assert len(wanted) == 72
    assert {row.name: row.method_class.value for row in METHODS.values()} == wanted


def test_every_class_has_the_price_of_the_table() -> None:
    """Clients budget by it."""
    wanted = {name: price(credits) for name, credits, _ in rows(TABLE)}
    wanted |= {name: price(credits) for _, name, credits, _ in rows(OUTSIDE)}
    assert {name.value: row.credits for name, row in CLASSES.items()} == wanted


def test_every_class_has_the_timeout_of_the_table() -> None:
    """The line names the classes; ours beyond it are bounded by its longest."""
    (line,) = re.findall(r"^Timeouts: (.*?)\. On timeout", TABLE, re.MULTILINE)
    stated = {}
    for part in line.split(";"):
        names, seconds = re.fullmatch(r"\s*(.+) (\d+) s", part).groups()  # type: ignore[union-attr]
        for name in names.split(" and "):
            stated["ARCHIVE_HISTORY" if name == "archive" else name] = int(seconds) * 1000
    assert len(stated) == 6
    for name, timeout_ms in stated.items():
        assert CLASSES[MethodClass[name]].timeout_ms == timeout_ms, name
    assert all(0 < row.timeout_ms <= 30_000 for row in CLASSES.values())
    for row in METHODS.values():
        assert row.timeout_ms == CLASSES[row.method_class].timeout_ms
