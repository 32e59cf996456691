"""Which transactions are asked for."""

import pytest

from actors.methods.history import HistoryQuestion
from tests.methods.asking import KEY, SIGNATURE, asked, refused


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ([KEY], HistoryQuestion(KEY, 10, "confirmed")),
        ([KEY, None], HistoryQuestion(KEY, 10, "confirmed")),
        ([KEY, {"limit": 100}], HistoryQuestion(KEY, 100, "confirmed")),
        ([KEY, {"limit": 1, "before": SIGNATURE}], HistoryQuestion(KEY, 1, "confirmed", SIGNATURE)),
        (
            [KEY, {"until": SIGNATURE, "commitment": "finalized"}],
            HistoryQuestion(KEY, 10, "finalized", None, SIGNATURE),
        ),
    ],
)
def test_history_is_ten_entries_unless_told_otherwise(arguments, question):
    """Interface: limit 10 by default, 100 at most."""
    assert asked("getTransactionHistory", *arguments) == question


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x"],
        [KEY, {"limit": 101}],
        [KEY, {"limit": 0}],
        [KEY, {"limit": "5"}],
        [KEY, 10],
        [KEY, {"before": "x"}],
        [KEY, {"commitment": "processed"}],
        [KEY, {}, {}],
    ],
)
def test_a_history_out_of_bounds_is_refused(arguments):
    """Before it costs 25 credits."""
    refused("getTransactionHistory", *arguments)
