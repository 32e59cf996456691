"""The price formulas of a bonding curve: costs of buys and proceeds of sales.

Implements: the program's integer formulas for exact-out and exact-in buys and for sells, the SDK's quote for a budget,
and slippage limits. Fees of protocol and creator are rounded up separately and are not part of the reserves.
Pure. Amounts are integers in base units below 2^64; a result that does not fit is None, never a wrapped number.
"""

from dataclasses import dataclass, replace

from actors.launch_programs.curve_account import BondingCurve
from actors.launch_programs.fee_schedule import Rates

BPS = 10_000
U64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Amounts:
    """One trade: tokens moved, quote units in or out of the reserves, and the fees on them."""

    tokens: int
    net_quote: int  # Buy: into the reserves. Sell: gross proceeds, out of the reserves.
    protocol_fee: int
    creator_fee: int

    @property
    def total_cost(self) -> int:
        """The amount that a buyer pays."""
        return self.net_quote + self.protocol_fee + self.creator_fee

    @property
    def proceeds(self) -> int:
        """The amount that a seller gets; -1 is possible for a very small sale, because fees are rounded up."""
        return self.net_quote - self.protocol_fee - self.creator_fee


def fee(amount: int, bps: int) -> int:
    return -(-amount * bps // BPS)


def _with_fees(tokens: int, net: int, rates: Rates) -> Amounts | None:
    amounts = Amounts(tokens, net, fee(net, rates.protocol_bps), fee(net, rates.creator_bps))
    return amounts if amounts.total_cost <= U64_MAX else None


def buy_exact_out(curve: BondingCurve, tokens: int, rates: Rates) -> Amounts | None:
    """The cost of a number of tokens; None if it is not below the virtual reserves. The caller checks real reserves."""
    if tokens >= curve.virtual_token_reserves:
        return None
    net = tokens * curve.virtual_quote_reserves // (curve.virtual_token_reserves - tokens) + 1
    return _with_fees(tokens, net, rates)


def buy_exact_in(curve: BondingCurve, budget: int, rates: Rates) -> Amounts | None:
    """The program's exact-in buy; it buys and charges at most the real reserves. None if the budget buys no token."""
    net = budget * BPS // (BPS + rates.protocol_bps + rates.creator_bps)
    excess = net + fee(net, rates.protocol_bps) + fee(net, rates.creator_bps) - budget
    net -= max(excess, 0)
    if net <= 1 or curve.virtual_token_reserves == 0:
        return None
    tokens = (net - 1) * curve.virtual_token_reserves // (curve.virtual_quote_reserves + net - 1)
    if tokens > curve.real_token_reserves:
        return buy_exact_out(curve, curve.real_token_reserves, rates)
    return _with_fees(tokens, net, rates) if tokens else None


def tokens_for_budget(curve: BondingCurve, budget: int, rates: Rates) -> int:
    """The SDK's quote: at most a few tokens more than the exact-in buy, at a cost within the budget."""
    if budget == 0 or curve.virtual_token_reserves == 0:
        return 0
    net = (budget - 1) * BPS // (BPS + rates.protocol_bps + rates.creator_bps)
    tokens = net * curve.virtual_token_reserves // (curve.virtual_quote_reserves + net)
    return min(tokens, curve.real_token_reserves)


def sell(curve: BondingCurve, tokens: int, rates: Rates) -> Amounts | None:
    """The proceeds of a sale; None if they are above the curve's real reserves."""
    if curve.virtual_token_reserves + tokens > U64_MAX or curve.virtual_token_reserves == 0:
        return None
    gross = tokens * curve.virtual_quote_reserves // (curve.virtual_token_reserves + tokens)
    return _with_fees(tokens, gross, rates) if gross <= curve.real_quote_reserves else None


def gross_for_positive_proceeds(rates: Rates) -> int:
    """The smallest gross proceeds with positive net proceeds; each fee is at least one unit."""
    gross = 1
    while gross - fee(gross, rates.protocol_bps) - fee(gross, rates.creator_bps) < 1:
        gross += 1
        if rates.protocol_bps + rates.creator_bps >= BPS:
            raise ValueError("the fees are 100 % or more, so no sale has proceeds")
    return gross


def tokens_for_gross(curve: BondingCurve, gross: int) -> int | None:
    """The smallest sale with at least these gross proceeds; None if no sale has so much."""
    left = curve.virtual_quote_reserves - gross
    return None if left <= 0 else -(-gross * curve.virtual_token_reserves // left)


def after_buy(curve: BondingCurve, amounts: Amounts) -> BondingCurve:
    """The curve after a buy. It is complete when its last real token is bought."""
    real_tokens = curve.real_token_reserves - amounts.tokens
    assert real_tokens >= 0, (curve, amounts)
    return replace(
        curve,
        virtual_token_reserves=curve.virtual_token_reserves - amounts.tokens,
        virtual_quote_reserves=curve.virtual_quote_reserves + amounts.net_quote,
        real_token_reserves=real_tokens,
        real_quote_reserves=curve.real_quote_reserves + amounts.net_quote,
        complete=real_tokens == 0,
    )


def after_sell(curve: BondingCurve, amounts: Amounts) -> BondingCurve:
    return replace(
        curve,
        virtual_token_reserves=curve.virtual_token_reserves + amounts.tokens,
        virtual_quote_reserves=curve.virtual_quote_reserves - amounts.net_quote,
        real_token_reserves=curve.real_token_reserves + amounts.tokens,
        real_quote_reserves=curve.real_quote_reserves - amounts.net_quote,
    )


def cost_max(base: int, slippage_bps: int) -> int:
    """The largest cost with slippage. base: the budget, or the quoted cost."""
    return base + base * slippage_bps // BPS


def proceeds_min(proceeds: int, slippage_bps: int) -> int:
    return proceeds - proceeds * slippage_bps // BPS
