from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actors.launch_programs import curve_math
from actors.launch_programs.addresses import USDC_MINT, WITHDRAW_AUTHORITY, WSOL_MINT, ZERO_KEY
from actors.launch_programs.configs import FeeConfig, Fees, FeeTier
from actors.launch_programs.curve_account import BondingCurve
from actors.launch_programs.fee_schedule import Rates, market_cap, rates

from .samples import sample
from .test_configs import GLOBAL

VECTORS: list[dict[str, Any]] = sample("quote_vectors")["expected"]["quotes"]
FRESH = BondingCurve(1_073 * 10**12, 30 * 10**9, 793_100 * 10**9, 0, 10**15, creator=WITHDRAW_AUTHORITY)
RATES = Rates(95, 30)
curves = st.builds(
    lambda vt, vq, share, rq: BondingCurve(vt, vq, vt * share // 1_000, rq, 10**15, creator=WITHDRAW_AUTHORITY),
    st.integers(10**6, 2 * 10**15),
    st.integers(10**3, 10**13),
    st.integers(1, 900),
    st.integers(0, 10**12),
)
some_rates = st.builds(Rates, st.integers(0, 500), st.integers(0, 500))


def curve_of(vector: dict[str, Any]) -> BondingCurve:
    mint = {"SOL": ZERO_KEY, "WSOL": WSOL_MINT, "USDC": USDC_MINT}[vector["quote"]]
    vt, vq, rt, rq = (int(vector[name]) for name in ("vt", "vq", "rt", "rq"))
    creator = WITHDRAW_AUTHORITY if vector["creator"] else ZERO_KEY
    return BondingCurve(vt, vq, rt, rq, 10**15, creator=creator, is_mayhem_mode=vector["mayhem"], quote_mint=mint)


def rates_of(vector: dict[str, Any], curve: BondingCurve) -> Rates:
    if vector["tiers"] is None:
        protocol, creator = vector["global_bps"]
        config = replace(GLOBAL, fee_basis_points=protocol, creator_fee_basis_points=creator)
        return rates(config, None, curve, int(vector["mint_supply"]))
    tiers = tuple(FeeTier(threshold, Fees(0, protocol, creator)) for threshold, protocol, creator in vector["tiers"])
    schedule = FeeConfig(0, ZERO_KEY, tiers[0].fees, tiers, tiers, tiers[0].fees)
    return rates(GLOBAL, schedule, curve, int(vector["mint_supply"]))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_quotes_are_those_of_the_platforms_own_sdk(vector: dict[str, Any]) -> None:
    """Caps, rates, tokens, costs, proceeds and slippage limits equal the SDK's test vectors exactly."""
    curve = curve_of(vector)
    charged = rates_of(vector, curve)
    assert [charged.protocol_bps, charged.creator_bps] == vector["bps"]
    assert market_cap(curve, int(vector["mint_supply"])) == int(vector["market_cap"])
    if vector["op"] == "sell":
        check_sale(vector, curve, charged)
        return
    budget = int(vector["budget"])
    tokens = curve_math.tokens_for_budget(curve, budget, charged)
    cost = curve_math.buy_exact_out(curve, tokens, charged)
    exact_in = curve_math.buy_exact_in(curve, budget, charged)
    assert tokens == int(vector["tokens_out"])
    assert cost is not None and cost.total_cost == int(vector["cost"])
    assert exact_in is not None and exact_in.tokens == int(vector["exact_in"])
    assert curve_math.cost_max(budget, 500) == int(vector["max_cost_on_budget"])
    assert curve_math.cost_max(cost.total_cost, 500) == int(vector["max_cost_on_cost"])


def check_sale(vector: dict[str, Any], curve: BondingCurve, charged: Rates) -> None:
    # The vectors quote very small sales on a new curve, which has no real reserves yet: only the price is compared.
    sold = curve_math.sell(replace(curve, real_quote_reserves=10**12), int(vector["tokens"]), charged)
    assert sold is not None
    assert (sold.net_quote, sold.proceeds) == (int(vector["gross"]), int(vector["net"]))
    if "min_sol_output" in vector:
        assert curve_math.proceeds_min(sold.proceeds, 500) == int(vector["min_sol_output"])
    else:
        assert curve_math.gross_for_positive_proceeds(charged) == int(vector["smallest_gross"])


@pytest.mark.parametrize(
    ("tokens", "net", "protocol", "creator"),
    [(3_520_371_073_923, 98_750_018, 938_126, 296_251), (357_666_547, 10_000, 95, 30)],
)
def test_amounts_that_landed_on_the_chain(tokens: int, net: int, protocol: int, creator: int) -> None:
    """These are exact-out buys from a new curve."""
    assert curve_math.buy_exact_out(FRESH, tokens, RATES) == curve_math.Amounts(tokens, net, protocol, creator)


def test_an_exact_in_buy_that_landed() -> None:
    bought = curve_math.buy_exact_in(FRESH, 3_000_000_000, RATES)
    assert bought == curve_math.Amounts(96_449_438_144_093, 2_962_962_962, 28_148_149, 8_888_889)
    assert bought.total_cost == 3_000_000_000


@given(curve=curves, charged=some_rates, budget=st.integers(1, 10**12))
def test_a_budget_is_never_exceeded(curve: BondingCurve, charged: Rates, budget: int) -> None:
    """The exact-in buy and the SDK's quote stay within the budget, and the SDK's quote is never smaller."""
    tokens = curve_math.tokens_for_budget(curve, budget, charged)
    exact_in = curve_math.buy_exact_in(curve, budget, charged)
    if tokens:
        cost = curve_math.buy_exact_out(curve, tokens, charged)
        assert cost is not None and cost.total_cost <= budget
    if exact_in is not None:
        assert exact_in.total_cost <= budget and exact_in.tokens <= tokens


@given(curve=curves, charged=some_rates, tokens=st.integers(1, 10**15))
def test_a_round_trip_never_gains(curve: BondingCurve, charged: Rates, tokens: int) -> None:
    """A buyer who sells at once gets back at most the price paid, and the curve's reserves do not shrink."""
    assume(tokens <= curve.real_token_reserves)
    bought = curve_math.buy_exact_out(curve, tokens, charged)
    assert bought is not None
    between = curve_math.after_buy(curve, bought)
    sold = curve_math.sell(between, tokens, charged)
    assert sold is not None and sold.proceeds < bought.total_cost
    after = curve_math.after_sell(between, sold)
    assert after.virtual_token_reserves == curve.virtual_token_reserves
    assert after.real_token_reserves == curve.real_token_reserves
    assert after.virtual_quote_reserves >= curve.virtual_quote_reserves
    product = between.virtual_token_reserves * between.virtual_quote_reserves
    assert product >= curve.virtual_token_reserves * curve.virtual_quote_reserves


@given(curve=curves, charged=some_rates, tokens=st.integers(1, 2**70))
def test_results_that_do_not_fit_are_none(curve: BondingCurve, charged: Rates, tokens: int) -> None:
    """No result is wrapped or above the reserves."""
    sold = curve_math.sell(curve, tokens, charged)
    assert sold is None or sold.net_quote <= curve.real_quote_reserves
    bought = curve_math.buy_exact_out(curve, tokens, charged)
    assert bought is None or (tokens < curve.virtual_token_reserves and bought.total_cost <= curve_math.U64_MAX)


def test_the_last_token_completes_the_curve() -> None:
    bought = curve_math.buy_exact_out(FRESH, FRESH.real_token_reserves, RATES)
    assert bought is not None
    after = curve_math.after_buy(FRESH, bought)
    assert after.complete and after.real_token_reserves == 0 and not after.is_tradable
    assert curve_math.tokens_for_budget(replace(after, virtual_token_reserves=0), 5, RATES) == 0
    assert curve_math.buy_exact_in(FRESH, 2, RATES) is None


def test_fees_of_100_percent_are_refused() -> None:
    with pytest.raises(ValueError, match="no sale has proceeds"):
        curve_math.gross_for_positive_proceeds(Rates(10_000, 0))
    assert curve_math.gross_for_positive_proceeds(Rates(95, 0)) == 2


@given(curves, st.integers(1, 10**10))
def test_the_smallest_sale_for_wanted_proceeds_is_the_smallest(curve: BondingCurve, gross: int) -> None:
    tokens = curve_math.tokens_for_gross(curve, gross)
    if tokens is None:
        assert gross >= curve.virtual_quote_reserves
        return
    proceeds = [
        amount * curve.virtual_quote_reserves // (curve.virtual_token_reserves + amount)
        for amount in (tokens, tokens - 1)
    ]
    assert proceeds[0] >= gross > proceeds[1]
