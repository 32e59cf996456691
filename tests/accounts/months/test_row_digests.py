"""Two sources of rows are compared part by part."""

from typing import Any

import pytest

from actors.accounts.months import row_digests
from actors.accounts.months.row_digests import RowDigests


def digests(rows: list[tuple[Any, ...]]) -> RowDigests:
    made = RowDigests()
    for row in rows:
        made.add(row)
    return made


def test_a_difference_is_placed_by_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one row too many or too few at the end, and values that only look alike."""
    monkeypatch.setattr(row_digests, "PART_ROWS", 10)
    rows: list[tuple[Any, ...]] = [(number, b"a", "b") for number in range(35)]
    assert digests(rows).first_difference(digests(rows)) is None
    assert digests(rows).first_difference(digests([*rows[:24], (24, "a", b"b"), *rows[25:]])) == 20
    assert digests(rows).first_difference(digests(rows[:-1])) == 30
    assert digests(rows[:30]).first_difference(digests(rows[:20])) == 20
    assert digests([]).first_difference(digests(rows[:1])) == 0
    assert digests([(12, 3)]).first_difference(digests([(1, 23)])) == 0
