"""The measurement of several classifiers fails on a log that is not whole or not in order."""

from typing import Any

import pytest

from bench.classifiers import Reader
from bench.scenario import Wrong

_NO_LOG: Any = None


def _reader(numbers: list[int], slots: list[int]) -> Reader:
    reader = Reader(_NO_LOG)
    reader.numbers, reader.slots = numbers, slots
    return reader


def test_a_whole_log_in_the_order_of_slots_is_right() -> None:
    """Within a slot, parts have no order."""
    _reader([2, 1, 3], [7, 7, 8]).check(3)


@pytest.mark.parametrize(
    ("numbers", "slots"), [([1, 3], [7, 8]), ([1, 2, 2, 3], [7, 7, 7, 8]), ([1, 2, 3], [7, 8, 7]), ([], [])]
)
def test_lost_doubled_and_late_signals_fail(numbers: list[int], slots: list[int]) -> None:
    with pytest.raises(Wrong):
        _reader(numbers, slots).check(3)
