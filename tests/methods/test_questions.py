"""What the doors ask is what the contexts read."""

import msgspec
import pytest

from actors.methods.questions import (
    AssetsQuestion,
    BulkQuestion,
    EstimateQuestion,
    FeeQuestion,
    HistoryQuestion,
    Question,
    SellQuestion,
    SnipeQuestion,
    encoded,
)


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
