"""Computes the amounts of executeSnipe and executeSell, or why the trade cannot work.

Implements: interface, "executeSnipe" and "executeSell"; threat 34.
Pure: integers only, by the platform's own formulas (launch_programs/curve_math.py). Each refusal here is free.
"""

from dataclasses import dataclass

from actors import addresses as chain
from actors.errors import Err, Refusal
from actors.launch_programs import addresses, curve_math, fee_schedule, pdas
from actors.launch_programs.fee_schedule import Rates
from actors.methods.trades import SellQuestion, SnipeQuestion
from actors.trades.snapshot import CoinState, UnreadableAccountsError, WalletState

_QUOTE_NAMES = {
    chain.USDC_MAINNET_MINT: "USDC",
    chain.USDC_DEVNET_MINT: "USDC",
    str(addresses.NATIVE_MINT_2022): "the native mint of Token-2022",
}
_QUOTES = (addresses.ZERO_KEY, addresses.WSOL_MINT)


@dataclass(frozen=True, slots=True)
class Purchase:
    """tokens: base units that arrive. cost_max: with slippage. notional: lamports that the price is a part of."""

    tokens: int
    cost_max: int
    notional: int
    completes: bool  # True: it buys the last tokens of the curve.


@dataclass(frozen=True, slots=True)
class Disposal:
    """proceeds: lamports after fees, which are the notional too. proceeds_min: with slippage."""

    tokens: int
    proceeds: int
    proceeds_min: int

    @property
    def notional(self) -> int:
        return self.proceeds


def quote_snipe(coin: CoinState, asked: SnipeQuestion) -> Purchase | Refusal:
    """Quote the SDK's number of tokens for a budget, at a cost of at most the budget."""
    refusal = not_tradable(coin)
    if refusal is not None:
        return refusal
    curve, rates = coin.curve, _rates(coin)
    tokens = curve_math.tokens_for_budget(curve, asked.budget_lamports, rates)
    amounts = curve_math.buy_exact_out(curve, tokens, rates) if tokens else None
    if amounts is not None and amounts.total_cost > asked.budget_lamports:
        # The SDK's number can cost two lamports too much if its division has no remainder; the program's own number
        # cannot.
        amounts = curve_math.buy_exact_in(curve, asked.budget_lamports, rates)
    if amounts is None or amounts.tokens == 0 or amounts.total_cost > asked.budget_lamports:
        return _refused("amount_sol: the amount buys no token on this curve")
    completes = amounts.tokens == curve.real_token_reserves
    # Where the curve has fewer tokens left than the budget buys, slippage on the whole budget would let the price of
    # the few be driven up to it.
    base = amounts.total_cost if completes else asked.budget_lamports
    return Purchase(amounts.tokens, curve_math.cost_max(base, asked.slippage_bps), base, completes)


def quote_sell(coin: CoinState, wallet: WalletState, asked: SellQuestion) -> Disposal | Refusal:
    refusal = not_tradable(coin)
    if refusal is not None:
        return refusal
    if wallet.is_frozen:
        return _refused("token_amount: the wallet's token account is frozen")
    if wallet.tokens < asked.tokens:
        return _refused(
            f"token_amount: the wallet {wallet.user} holds {wallet.tokens} base units of this coin in its associated "
            f"token account, fewer than {asked.tokens}"
        )
    curve, rates = coin.curve, _rates(coin)
    amounts = curve_math.sell(curve, asked.tokens, rates)
    if amounts is None:
        return _refused(f"token_amount: the curve has only {curve.real_quote_reserves} lamports to pay out")
    if amounts.proceeds <= 0:
        threshold = curve_math.gross_for_positive_proceeds(rates)
        tokens = curve_math.tokens_for_gross(curve, threshold)
        advice = "" if tokens is None else f" (at present {tokens} base units)"
        return _refused(
            f"token_amount: the sale's gross proceeds are {amounts.net_quote} lamports, and the fees leave nothing of "
            f"them; sell for at least {threshold} lamports{advice}"
        )
    least = curve_math.proceeds_min(amounts.proceeds, asked.slippage_bps)
    return Disposal(asked.tokens, amounts.proceeds, least)


def not_tradable(coin: CoinState) -> Refusal | None:
    curve = coin.curve
    if curve.quote_mint not in _QUOTES:
        mint = curve.quote_asset
        name = f"{_QUOTE_NAMES[mint]} ({mint})" if mint in _QUOTE_NAMES else mint
        return _refused(f"mint: this curve is quoted in {name}; trades are built for SOL and wrapped SOL")
    if not curve.is_tradable:
        pool = pdas.canonical_pool(coin.mint, curve.trade_quote_mint)
        where = f"the coin now trades in PumpSwap pool {pool}"
        if not coin.pool_exists:
            where = f"the coin will trade in PumpSwap pool {pool}, which does not exist yet"
        return _refused(f"mint: this curve is complete; {where}")
    if not (curve.virtual_token_reserves and curve.virtual_quote_reserves):
        raise UnreadableAccountsError("a curve that is neither complete nor has reserves")
    return None


def _rates(coin: CoinState) -> Rates:
    found = fee_schedule.rates(coin.config, coin.schedule, coin.curve, coin.supply)
    if found.protocol_bps + found.creator_bps >= curve_math.BPS:
        raise UnreadableAccountsError("fees of 100 % or more")
    return found


def _refused(detail: str) -> Refusal:
    return Refusal(Err.INVALID_PARAMS, detail)
