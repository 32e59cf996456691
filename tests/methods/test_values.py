"""Single values: each check lets exactly its form pass."""

import pytest

from actors.methods import values
from actors.methods.values import InvalidError

KEY = "So11111111111111111111111111111111111111112"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (values.pubkey, [KEY, "1" * 32], ["", "1" * 33, KEY + "1", None, 5]),
        (values.signature, ["1" * 64], ["1" * 65, KEY, None]),
        (values.blockhash, [KEY], ["l" * 43, b"x"]),
        (values.u64, [0, (1 << 64) - 1], [-1, 1 << 64, 1.0, True, "1"]),
        (values.up_to(5, 1), [1, 5], [0, 6]),
        (values.boolean, [True, False], [0, 1, "true", None]),
        (values.one_of("a", "b"), ["a", "b"], ["c", "A", None, ["a"]]),
        (values.commitment, ["processed", "confirmed", "finalized", "max"], ["Confirmed", "", 1, None]),
        (values.commitment_from_confirmed, ["confirmed", "finalized"], ["processed", "x"]),
        (values.list_of(values.u64, 2), [[], [1, 2]], [[1, 2, 3], ["1"], {}, None]),
        (values.an_object({"a": values.u64}), [{}, {"a": 1}, {"a": None}, {"b": "x"}], [{"a": "1"}, [], None]),
        (values.an_object({}, required=("a",)), [{"a": 0}], [{}, {"a": None}]),
    ],
)
def test_a_check_takes_its_form_and_nothing_else(check, good, bad):
    """bool is no number, null is no value, and no text is guessed at."""
    for value in good:
        check(value, "it")
    for value in bad:
        with pytest.raises(InvalidError, match=r"it|a"):
            check(value, "it")


def test_a_list_has_a_shortest_length_too():
    """A bundle of nothing is refused."""
    with pytest.raises(InvalidError, match="at least 1"):
        values.items([], "it", values.u64, 5, 1)


def test_what_is_shown_of_a_value_is_short_and_printable():
    """Nothing a stranger wrote is echoed at length (threat 13)."""
    assert values.shown("a\nb" + "x" * 100) == "a?b" + "x" * 45 + "..."
    assert values.shown({"secret": 1}) == "dict"


@pytest.mark.parametrize("value", ["A-_A", "A", "AA A", 5, "A" * 12])
def test_base64_is_strict_and_short(value):
    """No other alphabet, no white space, no more than asked for."""
    with pytest.raises(InvalidError):
        values.decoded_base64(value, "it", 8)
    assert values.decoded_base64("AAAA", "it", 8) == bytes(3)
