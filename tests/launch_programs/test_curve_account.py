import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import USDC_MINT, WSOL_MINT, ZERO_KEY
from actors.launch_programs.curve_account import CURVE_BYTES, BondingCurve, decode_curve, encode_curve

from .samples import sample

keys = st.binary(min_size=32, max_size=32).map(Pubkey.from_bytes)
u64 = st.integers(0, 2**64 - 1)
fields: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("virtual_token_reserves", "virtual_quote_reserves", "real_token_reserves"), u64),
    **dict.fromkeys(("real_quote_reserves", "token_total_supply", "creator_fee_bps", "creator_fee_bucket"), u64),
    **dict.fromkeys(("complete", "is_mayhem_mode", "is_cashback_coin", "is_holder_reward"), st.booleans()),
    **dict.fromkeys(("creator", "quote_mint"), keys),
}
curves = st.builds(BondingCurve, **fields)


def test_an_account_of_151_bytes_as_it_is_on_the_chain() -> None:
    payload = sample("account_bonding_curve_151")["payload"]
    data, wanted = base64.b64decode(payload["account"]["data_base64"]), payload["expected"]
    curve = decode_curve(data)
    assert curve is not None and len(data) == 151
    assert curve.virtual_token_reserves == wanted["virtual_token_reserves"]
    assert curve.virtual_quote_reserves == wanted["virtual_sol_reserves"]
    assert curve.real_token_reserves == wanted["real_token_reserves"]
    assert curve.real_quote_reserves == wanted["real_sol_reserves"]
    assert curve.token_total_supply == wanted["token_total_supply"]
    assert bytes(curve.creator).hex() == wanted["creator_hex"]
    assert (curve.complete, curve.is_mayhem_mode, curve.is_cashback_coin) == (False, False, False)
    assert (curve.quote_asset, curve.curve_type, curve.is_tradable) == ("SOL", "classic", True)
    assert encode_curve(curve, len(data)) == data


def test_the_first_layout_has_no_creator() -> None:
    """A curve of 49 bytes (from 2024) has no creator fee, and its vault is derived from the zero key."""
    data = base64.b64decode(sample("account_bonding_curve_49")["payload"]["result"]["value"]["data"][0])
    curve = decode_curve(data)
    assert curve is not None and len(data) == 49
    assert curve.creator == ZERO_KEY and not curve.has_creator and curve.quote_asset == "SOL"
    assert curve.token_total_supply == 10**15 and not curve.complete
    assert encode_curve(curve, 49) == data


@given(curve=curves, more=st.binary(max_size=9))
def test_curves_decode_to_what_was_encoded(curve: BondingCurve, more: bytes) -> None:
    assert decode_curve(encode_curve(curve) + more) == curve


@given(curve=curves, size=st.sampled_from([49, 81, 82, 83, 115, 124, 125, 150, 151]))
def test_a_shorter_account_keeps_its_length(curve: BondingCurve, size: int) -> None:
    """Every documented length can be decoded, and encoding does not extend an account."""
    data = encode_curve(curve, size)
    read = decode_curve(data)
    assert len(data) == size and read is not None and encode_curve(read, size) == data
    assert read.real_quote_reserves == curve.real_quote_reserves and read.complete == curve.complete
    assert read.creator == (curve.creator if size >= 81 else ZERO_KEY)
    assert read.quote_mint == (curve.quote_mint if size >= 115 else ZERO_KEY)


@given(data=st.binary(max_size=200))
def test_other_bytes_are_no_curve(data: bytes) -> None:
    assert decode_curve(data) is None
    assert decode_curve(encode_curve(BondingCurve(1, 1, 1, 1, 1), 49)[:48]) is None


@pytest.mark.parametrize(
    ("stored", "asset", "kind", "traded"),
    [
        (ZERO_KEY, "SOL", "classic", WSOL_MINT),
        (WSOL_MINT, str(WSOL_MINT), "v2", WSOL_MINT),
        (USDC_MINT, str(USDC_MINT), "v2", USDC_MINT),
    ],
)
def test_the_stored_quote_decides_the_curve_type(stored: Pubkey, asset: str, kind: str, traded: Pubkey) -> None:
    """The zero key means SOL and classic, whichever instruction created the coin."""
    curve = BondingCurve(1, 1, 1, 1, 1, quote_mint=stored)
    assert (curve.quote_asset, curve.curve_type, curve.trade_quote_mint) == (asset, kind, traded)


def test_a_complete_or_migrated_curve_is_not_tradable() -> None:
    assert not BondingCurve(1, 1, 0, 1, 1, complete=True).is_tradable
    migrated = BondingCurve(0, 0, 0, 0, 10**15)
    assert migrated.is_migrated and not migrated.is_tradable
    assert len(encode_curve(migrated)) == CURVE_BYTES
