"""Imitation of buying and selling on a curve, in all three families of instructions.

Implements: the checks of a trade in the program's order, the amounts, the transfers, the curve afterwards, and the
events (TradeEvent, and CompleteEvent in the last buy).
Not imitated: cashback coins (refused); v3's migration inside a buy (a v3 buy of more tokens than the curve has is
refused, or filled in part with partial_fill); volume incentives (accumulators stay at zero).
"""

from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, curve_math
from actors.launch_programs.accounts import SLOTS, Keys, Trader, trade_keys
from actors.launch_programs.configs import Global
from actors.launch_programs.curve_account import CURVE_BYTES, CURVE_BYTES_WITH_QUOTE, BondingCurve, encode_curve
from actors.launch_programs.curve_math import Amounts
from actors.launch_programs.events import CompleteEvent, TradeEvent
from actors.launch_programs.fee_schedule import Rates, market_cap, rates
from actors.launch_programs.instructions import (
    EXACT_IN,
    LEGACY_TRADES,
    SELLS,
    V2_TRADES,
    V3_TRADES,
    Kind,
    TradeArguments,
    trade_arguments,
)
from devnode.launchpad import calls
from devnode.launchpad.creating import grow, make_volume_accumulator
from devnode.launchpad.faults import Fault
from devnode.launchpad.payments import Bill, pay_buy, pay_sale
from devnode.launchpad.reading import (
    Coin,
    Passed,
    coin_of,
    fee_config_of,
    global_of,
    quote_mint_of,
    require_addresses,
)
from devnode.launchpad.stage import Stage

# Compute units of the program itself: totals of samples (legacy buy 72 k, sell 35 k, buy_v2 94 k) without their calls.
_OWN_UNITS = {Kind.BUY: 63_100, Kind.BUY_EXACT_SOL_IN: 63_400, Kind.SELL: 28_000}
_OWN_UNITS_V2_BUY, _OWN_UNITS_V2_SELL, _OWN_UNITS_V3 = 85_500, 55_000, 40_000
_GET_FEES = bytes.fromhex("e7257e55cf5b3f34")
_GET_FEES_UNITS = 3_302


@dataclass(frozen=True, slots=True)
class _Trade:
    """A trade with checked accounts."""

    kind: Kind
    arguments: TradeArguments
    config: Global
    coin: Coin
    keys: Keys
    rates: Rates
    quote_decimals: int

    @property
    def is_buy(self) -> bool:
        return self.kind not in SELLS

    @property
    def in_sol(self) -> bool:
        return self.coin.curve.curve_type == "classic"


def trade(stage: Stage, kind: Kind) -> None:
    arguments = trade_arguments(stage.data)
    if arguments is None:
        raise Fault.number(102)
    passed = Passed.of(stage, SLOTS[kind])
    stage.spend(_own_units(kind))
    checked = _checked(stage, kind, arguments, passed)
    if "user_volume" in passed.keys and stage.account(checked.keys["user_volume"]) is None:
        make_volume_accumulator(stage, checked.keys["user"], checked.keys["user"])
    if kind not in LEGACY_TRADES:
        least = CURVE_BYTES if kind in V3_TRADES else CURVE_BYTES_WITH_QUOTE
        grow(stage, checked.keys["user"], checked.keys["bonding_curve"], least)
    amounts = _bought(checked) if checked.is_buy else _sold(stage, checked)
    _ask_for_fees(stage, checked, amounts.net_quote)
    bill = _bill(checked, amounts)
    _move_tokens(stage, checked, amounts.tokens)
    if checked.is_buy:
        pay_buy(stage, bill)
    else:
        pay_sale(stage, bill)
    after = (curve_math.after_buy if checked.is_buy else curve_math.after_sell)(checked.coin.curve, amounts)
    after = bill.with_buckets(after)
    curve_account = stage.account(checked.keys["bonding_curve"])
    assert curve_account is not None
    stage.write(checked.keys["bonding_curve"], encode_curve(after, len(curve_account.data)))
    stage.emit(_event(stage, checked, amounts, bill, after))
    if after.complete:
        user, mint, curve = (checked.keys[name] for name in ("user", "mint", "bonding_curve"))
        stage.emit(CompleteEvent(user, mint, curve, stage.timestamp, after.quote_mint))


def _own_units(kind: Kind) -> int:
    if kind in V3_TRADES:
        return _OWN_UNITS_V3
    return _OWN_UNITS.get(kind, _OWN_UNITS_V2_SELL if kind in SELLS else _OWN_UNITS_V2_BUY)


# Checking.


def _checked(stage: Stage, kind: Kind, arguments: TradeArguments, passed: Passed) -> _Trade:
    config = global_of(stage)
    coin = coin_of(stage, passed["mint"])
    curve = coin.curve
    if kind in LEGACY_TRADES and curve.curve_type != "classic":
        raise Fault.number(6063)
    if curve.curve_type == "classic":
        quote_program, quote_decimals = addresses.TOKEN_PROGRAM, 9
    else:
        quote_program, quote_decimals = quote_mint_of(stage, curve.quote_mint)
    trader = _trader(stage, passed, curve, quote_program)
    keys = trade_keys(coin.mint, coin.program, curve, trader, quote_program)
    require_addresses(passed, keys)
    _check_coin(kind, curve)
    if trader.fee_recipient not in config.fee_recipients_of(curve.is_mayhem_mode) and kind not in V3_TRADES:
        raise Fault.number(6000, "fee_recipient")
    if trader.buyback not in config.buyback_fee_recipients:
        raise Fault.number(6057)
    if arguments.amount == 0:
        raise Fault.number(6022 if kind in SELLS else 6020)
    if stage.account(keys["user_base"]) is None:
        raise Fault.number(3012, "associated_user")
    charged = rates(config, fee_config_of(stage), curve, coin.supply)
    return _Trade(kind, arguments, config, coin, keys, charged, quote_decimals)


def _trader(stage: Stage, passed: Passed, curve: BondingCurve, quote_program: Pubkey) -> Trader:
    """Who trades and who gets fees. v3 passes no fee recipient, and for a token quote the buyback wallet's token
    account in place of the wallet."""
    fee_recipient = passed.get("fee_recipient") or addresses.ZERO_KEY
    buyback = passed.get("buyback")
    if buyback is None:
        buyback = passed["buyback_v3"]
        if curve.curve_type != "classic":
            buyback = _owner_of(stage, buyback)
    return Trader(passed["user"], fee_recipient, buyback)


def _owner_of(stage: Stage, token_account: Pubkey) -> Pubkey:
    account = stage.account(token_account)
    if account is None or account.owner not in addresses.TOKEN_PROGRAMS or len(account.data) < 64:
        raise Fault.number(3012, "buyback_fee_recipient")
    return Pubkey.from_bytes(account.data[32:64])


def _check_coin(kind: Kind, curve: BondingCurve) -> None:
    if not curve.is_tradable:
        raise Fault.number(6005)
    if curve.virtual_token_reserves == 0:
        raise Fault.number(6026)
    if curve.is_cashback_coin:
        if kind in V3_TRADES:
            raise Fault.number(6094)
        refusal = Fault.number(6056)
        raise Fault(refusal.cause, ("Program log: devnode does not imitate cashback coins", *refusal.lines))


# Amounts.


def _bought(trade: _Trade) -> Amounts:
    curve, amount, limit = trade.coin.curve, trade.arguments.amount, trade.arguments.limit
    if trade.kind in EXACT_IN:
        amounts = curve_math.buy_exact_in(curve, amount, trade.rates)
        if amounts is None:
            raise Fault.number(6041)
        if amounts.tokens < limit:
            raise Fault.number(6042)
        return _within(trade, amounts)
    if trade.kind is Kind.BUY_V3 and trade.arguments.flag:
        amount = min(amount, curve.real_token_reserves)
    if amount > curve.real_token_reserves:
        raise Fault.number(6021)
    amounts = curve_math.buy_exact_out(curve, amount, trade.rates)
    if amounts is None:
        raise Fault.number(6024)
    if amounts.total_cost > limit:
        raise Fault.number(6002)
    return _within(trade, amounts)


def _within(trade: _Trade, amounts: Amounts) -> Amounts:
    """Refuse amounts that would not fit the curve's 64-bit fields."""
    if trade.coin.curve.virtual_quote_reserves + amounts.net_quote > curve_math.U64_MAX:
        raise Fault.number(6024)
    return amounts


def _sold(stage: Stage, trade: _Trade) -> Amounts:
    amount = trade.arguments.amount
    account = stage.account(trade.keys["user_base"])
    assert account is not None
    if int.from_bytes(account.data[64:72], "little") < amount:
        raise Fault.number(6023)
    amounts = curve_math.sell(trade.coin.curve, amount, trade.rates)
    if amounts is None or amounts.proceeds < 0 or trade.coin.curve.real_token_reserves + amount > curve_math.U64_MAX:
        raise Fault.number(6024)
    if amounts.proceeds < trade.arguments.limit:
        raise Fault.number(6003)
    return amounts


# Effects.


def _ask_for_fees(stage: Stage, trade: _Trade, size: int) -> None:
    """Imitate the call to the fee program, which returns the rates."""
    if addresses.PUMP_FEES not in stage.whole.positions:
        return  # v3 does not pass the fee program, because it reads the schedule itself.
    cap = market_cap(trade.coin.curve, trade.coin.supply)
    if cap >= 2**128:
        raise Fault.number(6024)
    # Arguments: is a canonical curve, market cap, size of the trade, quote mint is not new.
    data = _GET_FEES + b"\x01" + cap.to_bytes(16, "little") + size.to_bytes(8, "little") + b"\x00"
    accounts = [AccountMeta(key, False, False) for key in (addresses.CURVE_FEE_CONFIG, addresses.PUMP)]
    returned = bytes(8) + trade.rates.protocol_bps.to_bytes(8, "little") + trade.rates.creator_bps.to_bytes(8, "little")
    call = Instruction(addresses.PUMP_FEES, data, accounts)
    stage.pretend(call, ("Instruction: GetFees",), _GET_FEES_UNITS, returned=returned)


def _move_tokens(stage: Stage, trade: _Trade, tokens: int) -> None:
    keys, coin = trade.keys, trade.coin
    names = ("curve_base", "user_base", "bonding_curve") if trade.is_buy else ("user_base", "curve_base", "user")
    source, target, authority = (keys[name] for name in names)
    stage.call(calls.transfer_tokens(coin.program, source, coin.mint, target, authority, tokens, coin.decimals))


def _bill(trade: _Trade, amounts: Amounts) -> Bill:
    buyback = amounts.protocol_fee * trade.config.buyback_basis_points // curve_math.BPS
    return Bill(
        keys=trade.keys,
        curve=trade.coin.curve,
        quote_decimals=trade.quote_decimals,
        to_curve=amounts.net_quote if trade.is_buy else 0,
        to_user=0 if trade.is_buy else amounts.proceeds,
        creator=amounts.creator_fee,
        buyback=buyback,
        protocol=amounts.protocol_fee - buyback,
        keeps_fees=trade.kind in V3_TRADES,
        may_create_accounts=trade.kind in V2_TRADES,
    )


def _event(stage: Stage, trade: _Trade, amounts: Amounts, bill: Bill, after: BondingCurve) -> TradeEvent:
    in_sol = trade.in_sol
    return TradeEvent(
        mint=trade.coin.mint,
        sol_amount=amounts.net_quote if in_sol else 0,
        token_amount=amounts.tokens,
        is_buy=trade.is_buy,
        user=trade.keys["user"],
        timestamp=stage.timestamp,
        virtual_sol_reserves=after.virtual_quote_reserves if in_sol else 0,
        virtual_token_reserves=after.virtual_token_reserves,
        real_sol_reserves=after.real_quote_reserves if in_sol else 0,
        real_token_reserves=after.real_token_reserves,
        fee_recipient=trade.keys["fee_recipient"],
        fee_basis_points=trade.rates.protocol_bps,
        fee=amounts.protocol_fee,
        creator=after.creator,
        creator_fee_basis_points=trade.rates.creator_bps,
        creator_fee=amounts.creator_fee,
        track_volume=trade.is_buy and trade.kind in LEGACY_TRADES and trade.arguments.flag,
        ix_name=_name(trade.kind),
        mayhem_mode=after.is_mayhem_mode,
        buyback_fee_basis_points=trade.config.buyback_basis_points,
        buyback_fee=bill.buyback,
        quote_mint=after.quote_mint,
        quote_amount=amounts.net_quote,
        virtual_quote_reserves=after.virtual_quote_reserves,
        real_quote_reserves=after.real_quote_reserves,
        creator_fee_unclaimed=after.creator_fee_bucket,
    )


def _name(kind: Kind) -> str:
    """The name in the event, which is the same in all families: "buy" also for buy_v2."""
    if kind in SELLS:
        return "sell"
    return "buy_exact_sol_in" if kind in EXACT_IN else "buy"
