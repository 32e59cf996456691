"""Token accounts and mints of a node, parsed and unparsed."""

import base64

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.lookups.holdings import MINT_SLICE, Holding, Mint, read_holdings, read_lamports, read_mints

from .scene import TOKEN_PROGRAM_ID, Scene

NAMES = [
    "context",
    "slot",
    "value",
    "pubkey",
    "account",
    "data",
    "owner",
    "lamports",
    "parsed",
    "info",
    "mint",
    "amount",
]


def result(scene: Scene, method: str, *params: object) -> bytes:
    return orjson.dumps(scene.local.call(method, *params))


def test_a_token_account_reads_the_same_parsed_and_as_bytes(scene: Scene):
    """A node that lacks the mint gives the raw bytes; then only the decimals are missing."""
    mint = scene.mint(3)
    scene.holds(scene.bert, mint, 1_500)
    owner, wanted = str(scene.bert.pubkey()), {"mint": str(mint)}
    slot, (parsed,) = read_holdings(result(scene, "getTokenAccountsByOwner", owner, wanted, {"encoding": "jsonParsed"}))
    account = str(scene.account_of(scene.bert, mint))
    assert parsed == Holding(str(mint), account, str(TOKEN_PROGRAM_ID), 1_500, 3, "1.5", False, None)
    assert slot > 0
    _, (raw,) = read_holdings(result(scene, "getTokenAccountsByOwner", owner, wanted, {"encoding": "base64"}))
    assert raw == Holding(str(mint), account, str(TOKEN_PROGRAM_ID), 1_500, None, None, False, None)


def test_a_delegate_and_a_freeze_are_read_from_bytes():
    """Supply and decimals are read from the layout that both token programs share."""
    key = Pubkey.from_bytes(bytes([7]) * 32)
    data = bytes(key) * 2 + (9).to_bytes(8, "little") + b"\1\0\0\0" + bytes(key) + b"\2" + bytes(56)
    assert len(data) == 165
    account = {"data": [base64.b64encode(data).decode(), "base64"], "owner": "p", "lamports": 1}
    body = {"context": {"slot": 4}, "value": [{"pubkey": "a", "account": account}]}
    assert read_holdings(orjson.dumps(body)) == (4, [Holding(str(key), "a", "p", 9, None, None, True, str(key))])


def test_a_mint_is_read_from_its_first_bytes(scene: Scene):
    """None for an account that is no mint, and for one that does not exist."""
    mint = scene.mint(4)
    scene.holds(scene.anna, mint, 77)
    keys = [str(mint), str(scene.anna.pubkey()), str(Pubkey.new_unique()), str(scene.account_of(scene.anna, mint))]
    body = result(scene, "getMultipleAccounts", keys[:3], {"encoding": "base64", "dataSlice": MINT_SLICE})
    assert read_mints(body) == [Mint(77, 4), None, None]


def test_lamports_of_an_account_that_is_not_there_are_none(scene: Scene):
    """Decisions: account absent is 0 lamports."""
    keys = [str(scene.bert.pubkey()), str(Pubkey.new_unique())]
    assert read_lamports(result(scene, "getMultipleAccounts", keys, {"encoding": "base64"}))[1] == [10**10, 0]


@pytest.mark.parametrize("body", [b"null", b"{}", b'{"value":[]}', b'{"context":{"slot":1},"value":[{"pubkey":1}]}'])
def test_what_is_not_of_the_form_is_told_from_what_is(body):
    """Callers treat it as garbage, which costs nothing."""
    with pytest.raises(msgspec.DecodeError):
        read_holdings(body)


def test_bytes_that_are_too_short_are_no_token_account():
    """A program could own the account and hold anything."""
    account = {"data": ["AAAA", "base64"], "owner": "p"}
    body = {"context": {"slot": 4}, "value": [{"pubkey": "a", "account": account}]}
    with pytest.raises(ValueError, match="too short"):
        read_holdings(orjson.dumps(body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=30,
)


@given(value=JSON)
def test_no_answer_of_a_node_raises_anything_else(value):
    """Threat 33: any answer gives values or one of the two errors that callers expect."""
    body = orjson.dumps(value)
    for read in (read_holdings, read_mints, read_lamports):
        try:
            orjson.dumps(read(body))
        except (msgspec.DecodeError, ValueError):
            continue


@pytest.mark.parametrize("figures", [{"decimals": 256}, {"decimals": -1}, {"amount": "x"}])
def test_figures_that_no_chain_has_are_refused(figures):
    """A mint with a billion decimals would make this service write a billion digits."""
    held = {"amount": "1", "decimals": 0, "uiAmountString": "1"} | figures
    info = {"mint": "m", "tokenAmount": held}
    row = {"pubkey": "a", "account": {"data": {"parsed": {"info": info}}, "owner": "p"}}
    with pytest.raises((msgspec.DecodeError, ValueError)):
        read_holdings(orjson.dumps({"context": {"slot": 1}, "value": [row]}))
