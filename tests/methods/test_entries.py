"""What the doors ask is what the contexts read."""

import msgspec
import pytest

from actors.methods.accounts import BulkQuestion
from actors.methods.assets import AssetsQuestion
from actors.methods.entries import Question, encoded
from actors.methods.fees import EstimateQuestion, FeeQuestion
from actors.methods.history import HistoryQuestion
from actors.methods.trades import SellQuestion, SnipeQuestion


@pytest.mark.parametrize(
    "question",
    [
        FeeQuestion("medium", ("a", "b")),
        EstimateQuestion((), 75, True, False, 150),
        AssetsQuestion("owner", 1, 1_000),
        HistoryQuestion("address", 10, "confirmed", before="s"),
        BulkQuestion(("x",)),
        SnipeQuestion("mint", 10**9, 500, 100_000),
        SellQuestion("mint", 2**64 - 1, 0, 2**64 - 1),
    ],
)
def test_a_question_survives_its_way_as_parameters(question: Question) -> None:
    """The bytes that travel in place of the client's parameters lose nothing."""
    assert msgspec.json.decode(encoded(question), type=type(question)) == question
