import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs.borsh import Fields, Overflow, decode, encode

FIELDS: Fields = (
    *(("small", "u8"), ("pair", "u16"), ("word", "u32"), ("number", "u64"), ("big", "u128")),
    *(("time", "i64"), ("debt", "i128"), ("yes", "bool"), ("who", "key"), ("text", "string"), ("shares", "shares")),
)
keys = st.binary(min_size=32, max_size=32).map(Pubkey.from_bytes)
records = st.fixed_dictionaries(
    {
        "small": st.integers(0, 2**8 - 1),
        "pair": st.integers(0, 2**16 - 1),
        "word": st.integers(0, 2**32 - 1),
        "number": st.integers(0, 2**64 - 1),
        "big": st.integers(0, 2**128 - 1),
        "time": st.integers(-(2**63), 2**63 - 1),
        "debt": st.integers(-(2**127), 2**127 - 1),
        "yes": st.booleans(),
        "who": keys,
        "text": st.text(max_size=20),
        "shares": st.lists(st.tuples(keys, st.integers(0, 2**16 - 1)), max_size=3).map(tuple),
    }
)


@given(record=records)
def test_records_decode_to_what_was_encoded(record: dict[str, object]) -> None:
    """Every type is equal over its whole range; further bytes at the end (of a newer program) are ignored."""
    assert decode(FIELDS, encode(FIELDS, record) + b"newer") == record


@given(record=records, fields=st.integers(0, len(FIELDS)))
def test_missing_fields_of_an_older_record_are_zero(record: dict[str, object], fields: int) -> None:
    older = FIELDS[:fields]
    read = decode(FIELDS, encode(older, record))
    assert read is not None
    assert {name: read[name] for name, _ in older} == {name: record[name] for name, _ in older}
    assert all(not value or value == Pubkey.default() for name, value in list(read.items())[fields:])


@given(data=st.binary(max_size=300))
def test_hostile_bytes_never_raise(data: bytes) -> None:
    """An account can have any bytes."""
    assert decode(FIELDS, data) is None or isinstance(decode(FIELDS, data), dict)


def test_a_record_that_ends_inside_a_field_is_none() -> None:
    assert decode((("number", "u64"),), b"\x01\x02") is None
    assert decode((("text", "string"),), b"\xff\xff\xff\xff") is None
    assert decode((("text", "string"),), b"\x01\x00\x00\x00\xff") is None
    assert decode((("shares", "shares"),), b"\xff\xff\xff\xff") is None


@pytest.mark.parametrize(("kind", "value"), [("u64", 2**64), ("u64", -1), ("u8", 256), ("i64", 2**63)])
def test_a_number_that_does_not_fit_is_refused(kind: str, value: int) -> None:
    """A number is never wrapped, because amounts are money."""
    with pytest.raises(Overflow):
        encode((("number", kind),), {"number": value})
