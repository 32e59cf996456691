"""Fee rates of a trade on a curve, in basis points.

Implements: the schedule by quote mint and market cap; the coin's own creator rate; no creator fee for a coin without a
creator. The present schedule has one tier, but earlier ones had several, so tiers are supported.
Pure. Not here: amounts (curve_math.py).
"""

from dataclasses import dataclass

from actors.launch_programs.addresses import NATIVE_MINT_2022, USDC_MINT, WSOL_MINT, ZERO_KEY
from actors.launch_programs.configs import FeeConfig, Fees, FeeTier, Global
from actors.launch_programs.curve_account import BondingCurve

SOL_LIKE = frozenset({ZERO_KEY, WSOL_MINT, NATIVE_MINT_2022})
STABLE = frozenset({USDC_MINT})  # A constant of the fee program, without devnet's USDC.
SUPPLY_OF_TIERS = 10**15  # The supply of every coin except mayhem coins, whose supply is larger.


@dataclass(frozen=True, slots=True)
class Rates:
    protocol_bps: int
    creator_bps: int


def rates(config: Global, schedule: FeeConfig | None, curve: BondingCurve, mint_supply: int) -> Rates:
    """The rates of a trade. mint_supply: from the live mint; only the tier of a mayhem coin depends on it. The curve
    must not be migrated."""
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
    """The market cap, in base units of the quote."""
    supply = mint_supply if curve.is_mayhem_mode else SUPPLY_OF_TIERS
    return curve.virtual_quote_reserves * supply // curve.virtual_token_reserves


def tier_of(tiers: tuple[FeeTier, ...], cap: int) -> Fees:
    """The fees of the highest tier that the cap reaches; below the first tier, those of the first."""
    assert tiers
    reached = [tier for tier in tiers if tier.market_cap_min <= cap]
    return reached[-1].fees if reached else tiers[0].fees
