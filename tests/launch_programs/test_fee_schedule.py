from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import NATIVE_MINT_2022, USDC_MINT, WITHDRAW_AUTHORITY, WSOL_MINT, ZERO_KEY
from actors.launch_programs.configs import FeeConfig, Fees, FeeTier
from actors.launch_programs.curve_account import BondingCurve
from actors.launch_programs.fee_schedule import Rates, market_cap, rates, tier_of

from .test_configs import GLOBAL

CURVE = BondingCurve(1_073 * 10**12, 30 * 10**9, 793_100 * 10**9, 0, 10**15, creator=WITHDRAW_AUTHORITY)
SCHEDULE = FeeConfig(
    bump=0,
    admin=ZERO_KEY,
    flat=Fees(0, 11, 12),
    tiers=(FeeTier(10, Fees(0, 95, 30)), FeeTier(85 * 10**9, Fees(0, 70, 60))),
    stable_tiers=(FeeTier(0, Fees(0, 50, 40)),),
    exotic=Fees(0, 21, 22),
)


@pytest.mark.parametrize(
    ("quote", "wanted"),
    [
        *((ZERO_KEY, Rates(95, 30)), (WSOL_MINT, Rates(95, 30)), (NATIVE_MINT_2022, Rates(95, 30))),
        *((USDC_MINT, Rates(50, 40)), (WITHDRAW_AUTHORITY, Rates(21, 22))),
    ],
)
def test_the_quote_chooses_the_schedule(quote: Pubkey, wanted: Rates) -> None:
    """There are rates for SOL-like quotes, for the listed stable coin, and for all other quotes."""
    assert rates(GLOBAL, SCHEDULE, replace(CURVE, quote_mint=quote), 10**15) == wanted


def test_older_schedules_have_fallbacks() -> None:
    """Without stable tiers the SOL tiers apply, without exotic fees the flat fees, without a schedule Global's."""
    usdc, other = (replace(CURVE, quote_mint=mint) for mint in (USDC_MINT, WITHDRAW_AUTHORITY))
    assert rates(GLOBAL, replace(SCHEDULE, stable_tiers=()), usdc, 10**15) == Rates(95, 30)
    assert rates(GLOBAL, replace(SCHEDULE, exotic=Fees(0, 0, 0)), other, 10**15) == Rates(11, 12)
    assert rates(GLOBAL, None, CURVE, 10**15) == Rates(95, 5)


def test_a_coin_may_have_its_own_rate_or_no_creator() -> None:
    own = replace(CURVE, creator_fee_bps=250)
    assert rates(GLOBAL, SCHEDULE, own, 10**15) == Rates(95, 250)
    assert rates(replace(GLOBAL, creator_fee_configurable=False), SCHEDULE, own, 10**15) == Rates(95, 30)
    assert rates(GLOBAL, SCHEDULE, replace(own, creator=ZERO_KEY), 10**15) == Rates(95, 0)


def test_only_the_tier_of_a_mayhem_coin_depends_on_the_live_supply() -> None:
    """The mint of a mayhem coin has a larger supply, which makes its market cap and tier higher."""
    dear = replace(CURVE, virtual_quote_reserves=60 * 10**9)
    assert rates(GLOBAL, SCHEDULE, dear, 2 * 10**15) == Rates(95, 30)
    assert rates(GLOBAL, SCHEDULE, replace(dear, is_mayhem_mode=True), 2 * 10**15) == Rates(70, 60)
    assert market_cap(CURVE, 5) == 27_958_993_476


@given(
    thresholds=st.lists(st.integers(0, 10**6), min_size=1, max_size=6, unique=True).map(sorted),
    cap=st.integers(0, 10**6),
)
def test_the_highest_reached_tier_applies(thresholds: list[int], cap: int) -> None:
    tiers = tuple(FeeTier(threshold, Fees(0, index, 0)) for index, threshold in enumerate(thresholds))
    reached = [threshold for threshold in thresholds if threshold <= cap]
    assert tier_of(tiers, cap).protocol_bps == (len(reached) - 1 if reached else 0)
