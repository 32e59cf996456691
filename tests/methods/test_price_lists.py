"""The prices of a list: whole credits, rounded up, and never free where the public price is not.

Rule: decisions, "Price lists"; money rule 7.
"""

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from actors.methods.catalog import METHODS
from actors.methods.entries import price_of
from actors.methods.price_lists import PUBLIC, PriceList, price_lists
from actors.pricing_config import PERCENT_MAX, PriceListConfig, PricingConfig

PERCENTS, PRICES = st.integers(1, PERCENT_MAX), st.integers(0, 10**9)


@given(percent=PERCENTS, public=PRICES)
def test_a_percentage_is_rounded_up_and_what_costs_something_stays_no_gift(percent: int, public: int) -> None:
    found = PriceList("a", percent).credits("getBlock", public)
    assert found == ceil(Fraction(public * percent, 100))
    assert (found > 0) == (public > 0)
    assert percent > 100 or found <= public


@given(percent=PERCENTS, public=st.integers(1, 10**6), own=st.integers(1, 10**6))
def test_a_price_of_its_own_counts_whatever_the_percentage_is(percent: int, public: int, own: int) -> None:
    prices = PriceList("a", percent, {"getBlock": own})
    assert prices.credits("getBlock", public) == own
    assert prices.credits("getSlot", public) == ceil(Fraction(public * percent, 100))
    assert prices.credits("getBlock", 0) == 0


@given(
    percent=PERCENTS, landing=st.integers(1, 1_000), base=st.integers(1, 1_000), own=st.none() | st.integers(1, 1_000)
)
def test_a_send_that_does_not_land_never_costs_more_than_one_that_does(
    percent: int, landing: int, base: int, own: int | None
) -> None:
    """The hold is of the landing price, so nothing above it could be charged."""
    prices = PriceList("a", percent, {} if own is None else {"sendAndConfirm": own})
    dearer, cheaper = prices.landing("sendAndConfirm", landing, base)
    assert 1 <= cheaper <= dearer and dearer == (own or ceil(Fraction(landing * percent, 100)))


@given(percent=PERCENTS, fixed=st.integers(1, 1_000), more=st.integers(0, 10**6), own=st.none() | st.integers(1, 1_000))
def test_a_built_trade_costs_its_fixed_part_and_the_percentage_of_the_rest(
    percent: int, fixed: int, more: int, own: int | None
) -> None:
    prices = PriceList("a", percent, {} if own is None else {"executeSell": own})
    found = prices.built("executeSell", fixed, fixed + more)
    part = Fraction(more * percent, 100)
    exact = part + (Fraction(fixed * percent, 100) if own is None else own)
    assert found == ceil(exact) and found >= prices.credits("executeSell", fixed)


def test_the_settings_lists_and_the_public_one() -> None:
    pricing = PricingConfig(lists={"wholesale": PriceListConfig(percent=80, methods={"getBlock": 15})})
    lists = price_lists(pricing)
    assert set(lists) == {"", "wholesale"} and lists[""] is PUBLIC
    assert lists["wholesale"] == PriceList("wholesale", 80, {"getBlock": 15})


def test_words_of_a_price_are_of_the_list() -> None:
    """As a person is asked for a confirmation."""
    prices = PriceList("wholesale", 80, {"executeSell": 7})
    words = {name: price_of(METHODS[name], PricingConfig(), prices) for name in ("getBlock", "sendAndConfirm")}
    assert words == {"getBlock": ("20 credits", 20), "sendAndConfirm": ("40 credits if it lands, else 2", 40)}
    sell, _ = price_of(METHODS["executeSell"], PricingConfig(), prices)
    assert sell == "7 credits and 80 % of 50 basis points of the trade's SOL"
