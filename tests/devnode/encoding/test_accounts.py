import base64

import base58
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.accounts import (
    BASE58_BYTES_MAX,
    DataSlice,
    TooLargeForBase58,
    decimal_text,
    ui_account,
    ui_token_amount,
)

KEY = Pubkey.from_bytes(bytes(32))


def shown(data: bytes, encoding: str, data_slice: DataSlice | None = None) -> object:
    account = Account(5, data, Pubkey.default(), False, 0)
    return ui_account(KEY, account, encoding, data_slice, lambda *_: None)["data"]


@given(st.binary(max_size=BASE58_BYTES_MAX))
def test_every_encoding_holds_the_same_bytes(data: bytes) -> None:
    assert base58.b58decode(str(shown(data, "binary"))) == data
    text, name = shown(data, "base58")  # type: ignore[misc]
    assert (base58.b58decode(text), name) == (data, "base58")
    text, name = shown(data, "base64")  # type: ignore[misc]
    assert (base64.b64decode(text), name) == (data, "base64")
    text, name = shown(data, "base64+zstd")  # type: ignore[misc]
    assert (zstandard.ZstdDecompressor().decompress(base64.b64decode(text)), name) == (data, "base64+zstd")


def test_base58_ends_at_128_bytes() -> None:
    """Longer data is refused, unless the requested slice fits."""
    with pytest.raises(TooLargeForBase58):
        shown(bytes(129), "base58")
    assert shown(bytes(129), "base58", DataSlice(0, 2)) == ["11", "base58"]


def test_unparsed_data_is_shown_as_base64() -> None:
    assert shown(b"\x01", "jsonParsed") == ["AQ==", "base64"]


def test_a_slice_may_reach_past_the_end() -> None:
    assert shown(b"abcdef", "base64", DataSlice(4, 10)) == [base64.b64encode(b"ef").decode(), "base64"]
    assert shown(b"abcdef", "base64", DataSlice(10, 1)) == ["", "base64"]


def test_amounts_as_decimal_text() -> None:
    """Decimal text keeps the zeros before the first digit and drops those after the last, as Agave's does."""
    assert ui_token_amount(1_250_000, 6) == {
        "amount": "1250000",
        "decimals": 6,
        "uiAmount": 1.25,
        "uiAmountString": "1.25",
    }
    assert decimal_text(0, 6) == "0"
    assert decimal_text(1, 9) == "0.000000001"
    assert decimal_text(10, 0) == "10"
    assert decimal_text(1_000_000, 6) == "1"
