"""Guards how work on refused requests turns into units of one refused call."""

from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.calls.refused_work import cost_of, cost_of_call

amounts = st.fixed_dictionaries(
    {name: st.integers(0, 300_000) for name in ("body_bytes", "brackets", "transactions", "filters")}
)


def test_an_ordinary_call_has_no_cost_of_its_own():
    """Rule: a refused call of a few hundred bytes counts as one refusal, not as more."""
    assert cost_of(body_bytes=600, brackets=4) == 0


def test_a_large_refused_body_costs_many_units():
    """Threat 61: 256 kB of brackets are worth more than the 500 refusals of a second."""
    assert cost_of(body_bytes=262_144) == 64
    assert cost_of(body_bytes=262_144, brackets=87_000) > 500
    assert cost_of(transactions=100) == 1_000
    assert cost_of(filters=7_000) == 3_500


def test_calls_with_transactions_cost_their_decoding_and_verifying():
    """Threat 61: 100 refused transactions held the loop for 36 ms, with 11 signatures each for longer."""
    assert cost_of_call("sendTransaction", b"x" * 1_640) == 10
    assert cost_of_call("sendBundle", b"x" * 5 * 1_690) == 60 + 2
    assert cost_of_call("getBalance", b"x" * 60) == 0


@given(amounts, amounts)
def test_work_in_two_requests_never_costs_more_than_in_one(one, other):
    """Rule: joining requests saves nothing, and splitting them is counted by the number of refusals instead."""
    both = {name: one[name] + other[name] for name in one}
    assert cost_of(**one) + cost_of(**other) <= cost_of(**both)
