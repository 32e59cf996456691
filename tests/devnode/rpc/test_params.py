import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from devnode.records.commitment import Commitment
from devnode.rpc import params as read
from devnode.rpc.errors import RpcError

anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


@given(anything)
def test_any_value_is_read_or_refused(value: object) -> None:
    """For any JSON value, a reader returns or raises an RpcError."""
    readers = [
        lambda: read.pubkey_of(value),
        lambda: read.signature_of(value),
        lambda: read.unsigned(value),
        lambda: read.optional_unsigned(value, bits=8),
        lambda: read.listed(value),
        lambda: read.config([value], 0, "Config"),
        lambda: read.commitment({"commitment": value}),
        lambda: read.boolean({"flag": value}, "flag"),
        lambda: read.variant(value, ("a", "b")),
        lambda: read.text([value], 0),
    ]
    for reader in readers:
        try:
            reader()
        except RpcError as error:
            assert error.code == -32602 and error.message.startswith("Invalid param")


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=30, max_size=90))
def test_text_that_is_no_base58_is_refused(value: str) -> None:
    for reader in (read.pubkey_of, read.signature_of):
        with pytest.raises(RpcError):
            reader(value + "0")


def test_bad_keys_have_the_error_texts_of_a_node() -> None:
    good = str(Pubkey.from_bytes(b"\x01" * 32))
    assert str(read.pubkey_of(good)) == good
    for bad, text in (("abc", "WrongSize"), ("0" * 40, "Invalid"), (good + "1" * 20, "WrongSize")):
        with pytest.raises(RpcError) as caught:
            read.pubkey_of(bad)
        assert caught.value.message == f"Invalid param: {text}"


def test_errors_name_the_wrong_type() -> None:
    with pytest.raises(RpcError) as caught:
        read.text([5], 0)
    assert caught.value.message == "Invalid params: invalid type: integer `5`, expected a string."
    with pytest.raises(RpcError) as caught:
        read.config(["x"], 0, "RpcContextConfig")
    assert caught.value.message == 'Invalid params: invalid type: string "x", expected struct RpcContextConfig.'


def test_numbers_stay_in_their_range() -> None:
    assert read.unsigned(2**64 - 1) == 2**64 - 1
    for bad in (-1, 2**64, True, 1.0, "1", None):
        with pytest.raises(RpcError):
            read.unsigned(bad)
    with pytest.raises(RpcError):
        read.unsigned(256, bits=8)


def test_commitment_defaults_to_finalized() -> None:
    assert read.commitment({}) is Commitment.FINALIZED
    assert read.commitment({"commitment": "processed"}) is Commitment.PROCESSED
    with pytest.raises(RpcError, match="unknown variant `max`"):
        read.commitment({"commitment": "max"})
    with pytest.raises(RpcError, match="Method does not support commitment below `confirmed`"):
        read.confirmed_or_higher({"commitment": "processed"})
