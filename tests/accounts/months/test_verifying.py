"""What an export must prove from its files alone, and that no change of a row passes."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.accounts.months.files import COLUMNS, ENTRIES, STATEMENTS, ExportedMonth, ExportError, month_of
from actors.accounts.months.verifying import verify
from actors.receipts.root_keys import ProvenKey
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.making import KEY, Chain, month_made, statement
from tests.accounts.months.world import DECEMBER, NOVEMBER, retold


def two_months(place: Path, calls: int = 3) -> list[ExportedMonth]:
    """ALICE has both, BOB the first one. The statement of the month's last entries has those of the next month too."""
    alice, bob = Chain(ALICE), Chain(BOB)
    for number in range(calls):
        alice.grow(NOVEMBER.first_ms + number)
        bob.grow(NOVEMBER.next_ms - calls + number)
    alice.grow(NOVEMBER.next_ms - 1)
    alice.grow(NOVEMBER.next_ms)
    alice.grow(DECEMBER.first_ms + 5)
    chains, last = [alice, bob], len(alice.entries)
    early = statement(1, NOVEMBER.first_ms + 99, {ALICE: (1, calls)}, chains)
    across = statement(2, DECEMBER.first_ms + 1, {ALICE: (calls + 1, calls + 2), BOB: (1, calls)}, chains)
    late = statement(3, DECEMBER.first_ms + 9, {ALICE: (last, last)}, chains)
    return [
        month_made(place, NOVEMBER, chains, [early, across]),
        month_made(place, DECEMBER, chains, [across, late]),
    ]


def faults(*months: ExportedMonth, keys: dict[str, ProvenKey] | None = None) -> str:
    return " ".join(fault for _, fault in verify(months, keys).faults)


def test_true_exports_pass_together_and_alone(tmp_path: Path) -> None:
    november, december = two_months(tmp_path)
    report = verify([november, december])
    assert (report.faults, report.accounts, report.entries, report.statements) == ([], 2, 9, 4)
    assert report.beginnings == 0
    alone = verify([december])
    assert (alone.faults, alone.beginnings) == ([], 1)
    assert verify([november]).faults == []


def test_months_that_do_not_follow_each_other_are_named(tmp_path: Path) -> None:
    """A month between them that is missing, and one whose chain begins elsewhere."""
    november, december = two_months(tmp_path)
    other = two_months(tmp_path / "other", calls=4)[1]
    assert "do not follow from those before" in faults(november, other)
    later = retold(december, tmp_path / "later")
    assert faults(november, later) == ""
    chain = Chain(ALICE)
    january = month_made(tmp_path, month_of("2024-01"), [chain], [])
    assert "the months between are not given" in faults(november, january)


def test_only_believed_keys_sign(tmp_path: Path) -> None:
    """Those of the manifest, or those that were saved; at a time when they were in use."""
    november, _ = two_months(tmp_path)
    mine = ProvenKey(KEY.id, KEY.public, 0)
    assert faults(november, keys={KEY.id: mine}) == ""
    assert "not known to be this service's" in faults(november, keys={})
    assert "of a time at which its key" in faults(november, keys={KEY.id: mine._replace(retired_ms=1)})


@pytest.mark.threat(56)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_changed_row_passes(data: st.DataObject) -> None:
    """Any value of any row of the entries, the heads or the statements; and any row that is left out or comes twice,
    with digests of the files that fit."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        november, _ = two_months(place / "true")
        kind = data.draw(st.sampled_from(sorted(COLUMNS)))

        def change(rows: list[Any]) -> list[Any]:
            number = data.draw(st.integers(0, len(rows) - 1))
            how = data.draw(st.sampled_from(("value", "gone", "twice")))
            if how != "value":
                return rows[:number] + rows[number + 1 :] if how == "gone" else [*rows[: number + 1], *rows[number:]]
            column = data.draw(st.integers(0, len(COLUMNS[kind]) - 1))
            row = list(rows[number])
            value = row[column]
            row[column] = (
                value + 1 if isinstance(value, int) else value + type(value)(b"x" if type(value) is bytes else "x")
            )
            return [*rows[:number], tuple(row), *rows[number + 1 :]]

        changed = retold(november, place / "changed", kind, change)
        try:
            assert verify([changed]).faults_total > 0
        except ExportError as error:
            assert "another form" in str(error)


def test_entries_without_a_statement_are_named(tmp_path: Path) -> None:
    """And a statement that nobody signed for them."""
    november, _ = two_months(tmp_path)
    less = retold(november, tmp_path / "less", STATEMENTS, lambda rows: rows[1:], statements=1)
    assert "is in no signed statement of the export" in faults(less)
    empty = retold(november, tmp_path / "empty", ENTRIES, lambda _: [])
    assert "do not end with the one that its head names" in faults(empty)
