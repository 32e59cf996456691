"""Which transactions and assets are asked for."""

import pytest

from actors.methods.history import AssetsQuestion, HistoryQuestion
from tests.methods.asking import KEY, OTHER, SIGNATURE, asked, refused

# --- getAssetsByOwner


@pytest.mark.parametrize(
    "given", [KEY, {"ownerAddress": KEY}, {"owner_address": KEY}, {"owner": KEY}, {"owner": KEY, "ownerAddress": None}]
)
def test_an_owner_is_named_in_any_of_its_forms(given):
    """Interface, rule 5."""
    assert asked("getAssetsByOwner", given) == AssetsQuestion(KEY, 1, 1_000)


def test_assets_come_in_pages():
    """Of 1,000 at most."""
    assert asked("getAssetsByOwner", {"owner": KEY, "page": 2, "limit": 5}) == AssetsQuestion(KEY, 2, 5)
    recent = asked("getAssetsByOwner", {"owner": KEY, "commitment": "confirmed"})
    assert recent == AssetsQuestion(KEY, 1, 1_000, "confirmed")
    refused("getAssetsByOwner", {"owner": KEY, "commitment": "soon"})


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [None],
        [5],
        [[KEY]],
        [{}],
        ["x"],
        [{"owner": "x"}],
        [{"address": KEY}],
        [{"owner": KEY, "limit": 1_001}],
        [{"owner": KEY, "page": 0}],
        [{"owner": KEY, "ownerAddress": OTHER}],
        [KEY, {}],
    ],
)
def test_an_owner_that_cannot_be_told_is_refused(arguments):
    """Two names for two owners leave it open whose assets were wanted."""
    refused("getAssetsByOwner", *arguments)


# --- getTransactionHistory


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
