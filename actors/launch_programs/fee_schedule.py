"""Which fees a trade on a curve pays, in basis points.

Implements: the schedule by quote mint and market cap, the coin's own creator rate, and none for a coin without a
creator. The fee schedule is data and has had several tiers before, so tiers are followed although one exists today.
Pure. Not here: amounts (curve_math.py).
"""

from dataclasses import dataclass

from actors.launch_programs.addresses import NATIVE_MINT_2022, USDC_MINT, WSOL_MINT, ZERO_KEY
from actors.launch_programs.configs import FeeConfig, Fees, FeeTier, Global
from actors.launch_programs.curve_account import BondingCurve

SOL_LIKE = frozenset({ZERO_KEY, WSOL_MINT, NATIVE_MINT_2022})
STABLE = frozenset({USDC_MINT})  # Fixed in the fee program; devnet's USDC is not listed there.
SUPPLY_OF_TIERS = 10**15  # Every coin's supply, except that a mayhem coin's mint holds more.


@dataclass(frozen=True, slots=True)
class Rates:
    protocol_bps: int
    creator_bps: int


def rates(config: Global, schedule: FeeConfig | None, curve: BondingCurve, mint_supply: int) -> Rates:
    """mint_supply: of the live mint; only a mayhem coin's tier goes by it. The curve must not be migrated."""
    assert curve.virtual_token_reserves > 0, curve
    fees = _scheduled(config, schedule, curve, mint_supply)
    creator_bps = fees.creator_bps
    if config.creator_fee_configurable and curve.creator_fee_bps:
        creator_bps = curve.creator_fee_bps
    return Rates(fees.protocol_bps, creator_bps if curve.has_creator else 0)


def _scheduled(config: Global, schedule: FeeConfig | None, curve: BondingCurve, mint_supply: int) -> Fees:
    if schedule is None:
        return Fees(0, config.fee_basis_points, config.creator_fee_basis_points)
    cap = market_cap(curve, mint_supply)
    if curve.quote_mint in SOL_LIKE:
        return tier_of(schedule.tiers, cap)
    if curve.quote_mint in STABLE:
        return tier_of(schedule.stable_tiers or schedule.tiers, cap)
    return schedule.flat if schedule.exotic.is_zero else schedule.exotic


def market_cap(curve: BondingCurve, mint_supply: int) -> int:
    """In base units of the quote."""
    supply = mint_supply if curve.is_mayhem_mode else SUPPLY_OF_TIERS
    return curve.virtual_quote_reserves * supply // curve.virtual_token_reserves


def tier_of(tiers: tuple[FeeTier, ...], cap: int) -> Fees:
    """The highest threshold that is reached; below the first one, the first."""
    assert tiers
    reached = [tier for tier in tiers if tier.market_cap_min <= cap]
    return reached[-1].fees if reached else tiers[0].fees
