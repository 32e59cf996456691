"""Kinds of assets, pages, and assets as DAS clients know them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from actors.lookups.assets import KnownMint, das_asset, former_account, former_fields, kind_of, page_of, ui_amount
from actors.lookups.metadata import Creator, Metadata, MintAccount
from actors.lookups.token_accounts import TokenAccount

MINT, OWNER = Pubkey(bytes([7]) * 32), Pubkey(bytes([8]) * 32)


def held(amount: int, address: str = "a", delegate: str | None = None, frozen: bool = False) -> TokenAccount:
    return TokenAccount(address, TOKEN_PROGRAM, bytes(MINT), bytes(OWNER), amount, delegate, 0, frozen)


def a_mint(decimals: int = 0, supply: int = 1, program: str = TOKEN_PROGRAM, **more: object) -> MintAccount:
    fields = {"mint_authority": None, "freeze_authority": None, "extensions": {}, "metadata": None, "is_scaled": False}
    return MintAccount(program, supply, decimals, **(fields | more))


@pytest.mark.parametrize(
    ("decimals", "supply", "kind"),
    [
        (0, 1, "non_fungible"),
        (0, 2, "fungible"),
        (6, 1, "fungible"),
        (6, None, "fungible"),
        (0, None, None),
        (None, 1, None),
    ],
)
def test_one_indivisible_token_is_one_of_a_kind(decimals, supply, kind):
    """An unknown kind is null."""
    assert kind_of(decimals, supply) == kind


@pytest.mark.parametrize(
    ("decimals", "supply", "standard", "interface"),
    [
        (0, 1, None, "V1_NFT"),
        (0, 1, "NonFungible", "V1_NFT"),
        (0, 1, "ProgrammableNonFungible", "ProgrammableNFT"),
        (0, 1, "NonFungibleEdition", "V1_PRINT"),
        (0, 1, "Fungible", "V1_NFT"),
        (0, 5, "NonFungible", "FungibleAsset"),
        (6, 1, "ProgrammableNonFungible", "FungibleToken"),
    ],
)
def test_the_mint_says_what_a_token_is(decimals, supply, standard, interface):
    """Metadata may say anything, so a token of a million pieces is no NFT by its word."""
    known = KnownMint(a_mint(decimals, supply), Metadata(standard=standard))
    asset = das_asset(str(MINT), known, [held(1)], str(OWNER), False)
    assert asset["interface"] == interface
    assert asset["ownership"]["ownership_model"] == ("single" if supply == 1 and not decimals else "token")
    assert das_asset(str(MINT), KnownMint(None, None), [held(1)], str(OWNER), False)["interface"] == "Custom"


def test_an_asset_has_what_its_accounts_say():
    """Field by field as DAS has them; what takes an index or a look outside the chain is null or empty."""
    collection = str(Pubkey(bytes([5]) * 32))
    metadata = Metadata(
        "Name", "SYM", "https://x/1.json", "authority", 500, (Creator("c", True, 100),), True, True, "NonFungible"
    )
    accounts = [held(2, "small"), held(3, "large", delegate="d", frozen=True)]
    known = KnownMint(a_mint(mint_authority="m"), metadata)
    asset = das_asset(str(MINT), known, accounts, str(OWNER), False)
    assert asset["content"]["metadata"] == {"name": "Name", "symbol": "SYM", "token_standard": "NonFungible"}
    assert asset["content"]["json_uri"] == "https://x/1.json"
    assert (asset["content"]["files"], asset["content"]["links"], asset["supply"]) == ([], {}, None)
    assert asset["authorities"] == [{"address": "authority", "scopes": ["full"]}]
    assert asset["creators"] == [{"address": "c", "share": 100, "verified": True}]
    assert (asset["royalty"]["basis_points"], asset["royalty"]["percent"]) == (500, 0.05)
    assert (asset["mutable"], asset["burnt"], asset["grouping"]) == (True, False, [])
    assert asset["ownership"] == {
        "frozen": True,
        "delegated": True,
        "delegate": "d",
        "ownership_model": "single",
        "owner": str(OWNER),
    }
    assert asset["token_info"] == {
        "symbol": "SYM",
        "balance": 5,
        "supply": 1,
        "decimals": 0,
        "token_program": TOKEN_PROGRAM,
        "associated_token_address": "large",
        "mint_authority": "m",
        "price_info": None,
    }
    alone = das_asset(str(MINT), known, (), None, False)
    assert alone["ownership"]["owner"] is None and "balance" not in alone["token_info"]
    unverified = KnownMint(a_mint(), Metadata(collection=collection))
    assert das_asset(str(MINT), unverified, (), None, False)["grouping"] == []
    (group,) = das_asset(str(MINT), unverified, (), None, True)["grouping"]
    assert group == {"group_key": "collection", "group_value": collection, "verified": False}


def test_the_pointer_of_a_mint_says_which_metadata_counts():
    """A mint can carry metadata of its own and point to another account."""
    own, other = Metadata(name="own"), Metadata(name="other")
    for address, name in ((str(MINT), "own"), (None, "own"), ("elsewhere", "other")):
        pointer = {"metadata_pointer": {"authority": None, "metadata_address": address}}
        known = KnownMint(a_mint(program=TOKEN_2022_PROGRAM, metadata=own, extensions=pointer), other)
        asset = das_asset(str(MINT), known, (), None, False)
        assert asset["content"]["metadata"]["name"] == name
        assert asset["mint_extensions"] == pointer


def test_by_position_an_asset_has_its_former_fields():
    """Without its mint an asset says less: supply and decimals are null, and so is the kind."""
    rows = [
        former_account(held(15, "a"), KnownMint(a_mint(1, 9), None), {}),
        former_account(held(1), KNOWN_LESS, {"a": "7"}),
    ]
    assert [row["ui_amount_string"] for row in rows] == ["1.5", "7"]
    listed = orjson.Fragment(orjson.dumps(rows))
    row = former_fields(str(MINT), KnownMint(a_mint(1, 9), None), [held(15), held(1, "b")], listed)
    assert (row["amount"], row["supply"], row["kind"], row["token_program"]) == ("16", "9", "fungible", TOKEN_PROGRAM)
    less = former_fields(str(MINT), KNOWN_LESS, [held(1)], listed)
    assert (less["supply"], less["kind"], less["decimals"]) == (None, None, None)
    assert former_account(held(1), KNOWN_LESS, {})["ui_amount_string"] is None


KNOWN_LESS = KnownMint(None, None)


@pytest.mark.parametrize(
    ("amount", "decimals", "text"),
    [(0, 6, "0"), (1, 6, "0.000001"), (1_500_000, 6, "1.5"), (10**7, 6, "10"), (100, 0, "100"), (7, None, None)],
)
def test_an_amount_is_written_as_a_node_writes_it(amount, decimals, text):
    """Without zeros at the end."""
    assert ui_amount(amount, decimals) == text


def test_pages_are_stable_cuts_of_all_mints():
    """Each mint is on one page."""
    keys = [bytes([number]) for number in range(1, 6)]
    assert page_of(keys, 1, 2) == keys[:2]
    assert page_of(keys, 3, 2) == keys[4:]
    assert page_of(keys, 4, 2) == []


@given(
    keys=st.sets(st.binary(min_size=2, max_size=2), max_size=20).map(sorted),
    after=st.binary(min_size=2, max_size=2) | st.just(b""),
    before=st.binary(min_size=2, max_size=2) | st.just(b""),
    limit=st.integers(1, 5),
    descending=st.booleans(),
)
def test_bounds_are_exclusive_in_either_order(keys, after, before, limit, descending):
    """What lies between them and no other key; before alone gives the nearest."""
    ordered = sorted(keys, reverse=descending)

    def precedes(one: bytes, other: bytes) -> bool:
        return one > other if descending else one < other

    within = [k for k in ordered if (not after or precedes(after, k)) and (not before or precedes(k, before))]
    wanted = within[-limit:] if before and not after else within[:limit]
    assert page_of(ordered, 0, limit, after, before, descending) == wanted


@given(
    keys=st.sets(st.binary(min_size=2, max_size=2), max_size=30).map(sorted),
    limit=st.integers(1, 7),
    descending=st.booleans(),
)
def test_a_cursor_walks_over_every_key_once(keys, limit, descending):
    """Each page continues behind the last key of the one before, until a page is empty."""
    ordered, walked, cursor = sorted(keys, reverse=descending), [], b""
    while page := page_of(ordered, 0, limit, cursor, b"", descending):
        walked += page
        cursor = page[-1]
    assert walked == ordered
