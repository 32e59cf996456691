"""Which assets and token accounts are asked for, and what is refused by its name before any charge."""

import pytest

from actors.methods.assets import AssetsByIdQuestion, AssetsQuestion, TokenAccountsQuestion
from tests.methods.asking import KEY, OTHER, asked, refused

BY_NAME = {"by_name": True, "fungible": False}


@pytest.mark.parametrize(
    "given", [KEY, {"ownerAddress": KEY}, {"owner_address": KEY}, {"owner": KEY}, {"owner": KEY, "ownerAddress": None}]
)
def test_an_owner_is_named_in_any_of_its_forms(given):
    """Interface, rule 5."""
    assert asked("getAssetsByOwner", given) == AssetsQuestion(KEY, 1, 1_000)
    if isinstance(given, dict):
        assert asked("getAssetsByOwner", **given) == AssetsQuestion(KEY, 1, 1_000, **BY_NAME)


def test_assets_come_in_pages():
    """Of 1,000 at most."""
    assert asked("getAssetsByOwner", {"owner": KEY, "page": 2, "limit": 5}) == AssetsQuestion(KEY, 2, 5)
    recent = asked("getAssetsByOwner", {"owner": KEY, "commitment": "confirmed"})
    assert recent == AssetsQuestion(KEY, 1, 1_000, "confirmed")
    refused("getAssetsByOwner", {"owner": KEY, "commitment": "soon"})


def test_a_cursor_and_bounds_take_the_place_of_a_page():
    """A cursor is the last id of the page before."""
    bounded = asked("getAssetsByOwner", ownerAddress=KEY, after=OTHER, before=KEY, limit=3)
    assert bounded == AssetsQuestion(KEY, 0, 3, after=OTHER, before=KEY, **BY_NAME)
    assert asked("getAssetsByOwner", ownerAddress=KEY, cursor=OTHER).after == OTHER
    for wrong in ({"cursor": OTHER, "after": KEY}, {"cursor": OTHER, "page": 1}, {"page": 1, "before": KEY}):
        assert "not both" in refused("getAssetsByOwner", ownerAddress=KEY, **wrong)
    assert "cursor" in refused("getAssetsByOwner", ownerAddress=KEY, cursor="5")


@pytest.mark.parametrize("name", ["options", "displayOptions"])
def test_options_are_read_under_both_of_their_names(name):
    """Providers and their clients have either."""
    shown = {"showFungible": True, "showNativeBalance": True, "showZeroBalance": None, "showInscription": False}
    question = asked("getAssetsByOwner", ownerAddress=KEY, **{name: shown})
    assert (question.fungible, question.native_balance, question.zero_balance) == (True, True, False)
    assert asked("getAssetsByOwner", {"ownerAddress": KEY, name: {"showFungible": False}}).fungible is False


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("showCollectionMetadata", "outside the chain"),
        ("showInscription", "need an index"),
        ("showRawData", "getAccountInfo"),
        ("requireFullIndex", "no index"),
        ("showSystemMetadata", "no index"),
        ("showClosedAccounts", "need an index"),
        ("showFungibles", "none of"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused_by_its_name(option, why):
    """The caller would pay for another answer than the one that was asked for."""
    for params in ({"options": {option: True}}, {"displayOptions": {option: True}}):
        told = refused("getAssetsByOwner", ownerAddress=KEY, **params)
        assert option in told and why in told
        assert option in refused("getAsset", id=KEY, **params)
        assert option in refused("getTokenAccounts", owner=KEY, **params)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"tokenType": "all"}, "tokenType"),
        ({"options": {"showFungible": 1}}, "showFungible"),
        ({"options": [], "displayOptions": None}, "options"),
        ({"options": {}, "displayOptions": {}}, "not both"),
        ({"sortBy": {"sortBy": "created"}}, "created needs an index"),
        ({"sortBy": {"sortBy": "recent_action"}}, "recent_action needs an index"),
        ({"sortBy": {"sortBy": "recentAction"}}, "recentAction needs an index"),
        ({"sortBy": {"sortBy": "size"}}, "size"),
        ({"sortBy": {"sortBy": "id", "sortDirection": "up"}}, "sortDirection"),
        ({"sortBy": {"by": "id"}}, "by"),
        ({"sortBy": "id"}, "sortBy"),
    ],
)
def test_what_would_be_ignored_is_refused(params, named):
    """Parameters, options and orders; in an array too."""
    assert named in refused("getAssetsByOwner", ownerAddress=KEY, **params)
    assert named in refused("getAssetsByOwner", {"ownerAddress": KEY, **params})


def test_assets_are_sorted_by_id_either_way():
    """None is any order, so it is this one."""
    assert asked("getAssetsByOwner", ownerAddress=KEY, sortBy={"sortBy": "id", "sortDirection": "desc"}).descending
    assert not asked("getAssetsByOwner", ownerAddress=KEY, sortBy={"sortBy": "none"}).descending


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


def test_single_assets_and_batches():
    """By position and by name, as clients of different providers send them."""
    assert asked("getAsset", KEY) == asked("getAsset", {"id": KEY}) == asked("getAsset", id=KEY, options={})
    assert asked("getAsset", KEY, {"showUnverifiedCollections": True}) == AssetsByIdQuestion((KEY,), True, True)
    for method in ("getAssetBatch", "getAssets"):
        assert asked(method, ids=[KEY, OTHER]) == asked(method, [KEY, OTHER]) == AssetsByIdQuestion((KEY, OTHER))
        assert asked(method, {"ids": [KEY], "displayOptions": {"showFungible": True}}) == AssetsByIdQuestion((KEY,))
        for wrong in ([], ["x"], [KEY] * 1_001, KEY, None):
            refused(method, ids=wrong)
    for wrong in ((), (None,), ("x",), ({},), ({"id": KEY}, {}), (KEY, {}, {}), (KEY, 5)):
        refused("getAsset", *wrong)
    assert "lists no wallet" in refused("getAsset", id=KEY, options={"showNativeBalance": True})


def test_token_accounts_are_those_of_an_owner():
    """The holders of a mint need an index."""
    assert asked("getTokenAccounts", owner=KEY) == TokenAccountsQuestion(KEY, "", 1, 1_000)
    wanted = {"owner": KEY, "mint": OTHER, "cursor": KEY, "limit": 2, "options": {"showZeroBalance": True}}
    assert asked("getTokenAccounts", **wanted) == TokenAccountsQuestion(KEY, OTHER, 0, 2, KEY, "", True)
    assert asked("getTokenAccounts", wanted) == asked("getTokenAccounts", **wanted)
    named = {"ownerAddress": KEY, "mintAddress": OTHER}
    assert asked("getTokenAccounts", **named) == TokenAccountsQuestion(KEY, OTHER, 1, 1_000)
    assert "not both" in refused("getTokenAccounts", owner=KEY, ownerAddress=KEY)
    for wrong in ({"owner": "x"}, {"owner": KEY, "mint": 7}, {"ownerAddress": [KEY]}):
        refused("getTokenAccounts", **wrong)
    assert "holders of a mint need an index" in refused("getTokenAccounts", mint=KEY)
    assert "owner is missing" in refused("getTokenAccounts", page=1)
    assert "showFungible" in refused("getTokenAccounts", owner=KEY, options={"showFungible": True})
