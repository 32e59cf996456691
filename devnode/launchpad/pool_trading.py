"""Imitation of trades in pools of the platform's AMM: buy, buy_exact_quote_in and sell.

Implements: the checks of the accounts, the amounts, the transfers of both sides and of all fees, and the event. The
token accounts of fee receivers that do not exist are made at the user's expense.
Not imitated: volume accumulators, cashback and holder rewards (their amounts are zero), boosts, the v2 instructions.
"""

from dataclasses import dataclass
from typing import Any

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.accounts import Keys
from actors.launch_programs.configs import Global, decode_fee_config
from actors.launch_programs.fee_schedule import tier_of
from actors.launch_programs.pool_events import PoolBuyEvent, PoolSellEvent
from actors.launch_programs.pool_trades import (
    BPS,
    POOL_SLOTS,
    PoolAmounts,
    PoolArguments,
    PoolKind,
    PoolRates,
    pool_arguments,
    pool_buy,
    pool_buy_exact_in,
    pool_sell,
    pool_trade_keys,
)
from actors.launch_programs.pools import Pool, decode_pool
from devnode.launchpad import calls
from devnode.launchpad.faults import POOL_NAMES, Fault
from devnode.launchpad.reading import Passed, global_of, quote_mint_of, require_addresses
from devnode.launchpad.stage import Stage
from devnode.parsing.token_accounts import holding, mint_supply

_OWN_UNITS = 60_000


@dataclass(frozen=True, slots=True)
class _Trade:
    """A trade with checked accounts. The reserves are those before the trade."""

    kind: PoolKind
    arguments: PoolArguments
    config: Global
    pool: Pool
    keys: Keys
    base_decimals: int
    quote_decimals: int
    base_supply: int
    base_reserve: int
    quote_reserve: int
    user_base: int
    user_quote: int

    @property
    def is_buy(self) -> bool:
        return self.kind is not PoolKind.SELL


def trade_in_pool(stage: Stage, kind: PoolKind) -> None:
    arguments = pool_arguments(stage.data)
    if arguments is None:
        raise Fault.number(102)
    stage.spend(_OWN_UNITS)
    trade = _checked(stage, kind, arguments)
    rates = _rates(stage, trade)
    amounts = _priced(trade, rates)
    buyback = amounts.protocol_fee * trade.config.buyback_basis_points // BPS
    stage.call(*_missing_accounts(stage, trade, amounts), *_transfers(trade, amounts, buyback))
    event = _event(stage, trade, amounts, rates, buyback)
    stage.emit(event, addresses.PUMP_AMM, addresses.AMM_EVENT_AUTHORITY)


def _checked(stage: Stage, kind: PoolKind, arguments: PoolArguments) -> _Trade:
    passed = Passed.of(stage, POOL_SLOTS[kind])
    config = global_of(stage)
    account = stage.account(passed["pool"])
    pool = None if account is None or account.owner != addresses.PUMP_AMM else decode_pool(account.data)
    if pool is None:
        raise Fault.number(3012, "pool")
    base_program, base_decimals = quote_mint_of(stage, pool.base_mint)
    _, quote_decimals = quote_mint_of(stage, pool.quote_mint)
    keys = pool_trade_keys(
        pool, passed["pool"], base_program, passed["user"], passed["fee_recipient"], passed["buyback"]
    )
    # A wallet may trade with any of its token accounts.
    keys |= {name: passed[name] for name in ("user_base", "user_quote")}
    require_addresses(passed, keys)
    if passed["fee_recipient"] not in config.fee_recipients_of(pool.is_mayhem_mode):
        raise Fault.number(6013, "protocol_fee_recipient", POOL_NAMES)
    if passed["buyback"] not in config.buyback_fee_recipients:
        raise Fault.number(6013, "buyback_fee_recipient", POOL_NAMES)
    if arguments.amount == 0:
        raise Fault.number(6002 if kind is PoolKind.BUY_EXACT_QUOTE_IN else 6001, table=POOL_NAMES)
    mint = stage.account(pool.base_mint)
    assert mint is not None
    return _Trade(
        kind=kind,
        arguments=arguments,
        config=config,
        pool=pool,
        keys=keys,
        base_decimals=base_decimals,
        quote_decimals=quote_decimals,
        base_supply=mint_supply(mint.data),
        base_reserve=_held(stage, keys["pool_base"], "pool_base"),
        quote_reserve=_held(stage, keys["pool_quote"], "pool_quote") + pool.virtual_quote_reserves,
        user_base=_held(stage, keys["user_base"], "user_base"),
        user_quote=_held(stage, keys["user_quote"], "user_quote"),
    )


def _held(stage: Stage, token_account: Pubkey, name: str) -> int:
    held = holding(stage.account(token_account))
    if held is None:
        raise Fault.number(3012, name)
    return held.amount


def _rates(stage: Stage, trade: _Trade) -> PoolRates:
    account = stage.account(addresses.AMM_FEE_CONFIG)
    schedule = None if account is None else decode_fee_config(account.data)
    if schedule is None or trade.base_reserve == 0:
        raise Fault.number(3012, "fee_config")
    cap = trade.quote_reserve * trade.base_supply // trade.base_reserve
    fees = tier_of(schedule.tiers, cap) if schedule.tiers else schedule.flat
    creator = trade.pool.creator_fee_bps or fees.creator_bps
    return PoolRates(fees.lp_bps, fees.protocol_bps, 0 if trade.pool.coin_creator == addresses.ZERO_KEY else creator)


def _priced(trade: _Trade, rates: PoolRates) -> PoolAmounts:
    amount, limit = trade.arguments.amount, trade.arguments.limit
    if trade.kind is PoolKind.SELL:
        sold = pool_sell(trade.base_reserve, trade.quote_reserve, amount, rates)
        if sold is None or sold.left_for_seller < limit:
            raise Fault.number(6004, table=POOL_NAMES)
        return sold
    if trade.kind is PoolKind.BUY_EXACT_QUOTE_IN:
        bought = pool_buy_exact_in(trade.base_reserve, trade.quote_reserve, amount, rates)
        if bought is None or bought.base < limit:
            raise Fault.number(6040, table=POOL_NAMES)
        return bought
    bought = pool_buy(trade.base_reserve, trade.quote_reserve, amount, rates)
    if bought is None:
        raise Fault.number(6016, table=POOL_NAMES)
    if bought.paid_by_buyer > limit:
        raise Fault.number(6004, table=POOL_NAMES)
    return bought


def _missing_accounts(stage: Stage, trade: _Trade, amounts: PoolAmounts) -> list[Instruction]:
    keys = trade.keys
    owners = {
        "fee_recipient_quote": "fee_recipient",
        "buyback_quote": "buyback",
        **({"creator_vault_quote": "creator_vault"} if amounts.creator_fee else {}),
    }
    return [
        calls.create_token_account(
            keys["user"], keys[account], keys[owner], keys["quote_mint"], keys["quote_program"], idempotent=True
        )
        for account, owner in owners.items()
        if stage.account(keys[account]) is None
    ]


def _transfers(trade: _Trade, amounts: PoolAmounts, buyback: int) -> list[Instruction]:
    keys, to_buyer = trade.keys, trade.is_buy
    base = ("pool_base", "user_base", "pool") if to_buyer else ("user_base", "pool_base", "user")
    source, authority = ("user_quote", "user") if to_buyer else ("pool_quote", "pool")
    # The fee of liquidity providers stays in the pool's vault.
    shares = [
        ("fee_recipient_quote", amounts.protocol_fee - buyback),
        ("buyback_quote", buyback),
        ("creator_vault_quote", amounts.creator_fee),
    ]
    main = ("pool_quote", amounts.quote + amounts.lp_fee) if to_buyer else ("user_quote", amounts.left_for_seller)
    moved = calls.transfer_tokens(
        *(keys["base_program"], keys[base[0]], keys["mint"], keys[base[1]], keys[base[2]]),
        amounts.base,
        trade.base_decimals,
    )
    return [
        moved,
        *(
            calls.transfer_tokens(
                *(keys["quote_program"], keys[source], keys["quote_mint"], keys[target], keys[authority]),
                amount,
                trade.quote_decimals,
            )
            for target, amount in (main, *shares)
            if amount
        ),
    ]


def _event(
    stage: Stage, trade: _Trade, amounts: PoolAmounts, rates: PoolRates, buyback: int
) -> PoolBuyEvent | PoolSellEvent:
    keys = trade.keys
    common: dict[str, Any] = {
        "timestamp": stage.timestamp,
        "user_base_token_reserves": trade.user_base,
        "user_quote_token_reserves": trade.user_quote,
        "pool_base_token_reserves": trade.base_reserve,
        "pool_quote_token_reserves": trade.quote_reserve - trade.pool.virtual_quote_reserves,
        "lp_fee_basis_points": rates.lp_bps,
        "lp_fee": amounts.lp_fee,
        "protocol_fee_basis_points": rates.protocol_bps,
        "protocol_fee": amounts.protocol_fee,
        "coin_creator_fee_basis_points": rates.creator_bps,
        "coin_creator_fee": amounts.creator_fee,
        "buyback_fee_basis_points": trade.config.buyback_basis_points,
        "buyback_fee": buyback,
        "virtual_quote_reserves": trade.pool.virtual_quote_reserves,
        "base_supply": trade.base_supply,
    }
    accounts: dict[str, Any] = {
        "pool": keys["pool"],
        "user": keys["user"],
        "user_base_token_account": keys["user_base"],
        "user_quote_token_account": keys["user_quote"],
        "protocol_fee_recipient": keys["fee_recipient"],
        "protocol_fee_recipient_token_account": keys["fee_recipient_quote"],
        "coin_creator": trade.pool.coin_creator,
    }
    if not trade.is_buy:
        return PoolSellEvent(
            **common,
            **accounts,
            base_amount_in=amounts.base,
            min_quote_amount_out=trade.arguments.limit,
            quote_amount_out=amounts.quote,
            quote_amount_out_without_lp_fee=amounts.quote - amounts.lp_fee,
            user_quote_amount_out=amounts.left_for_seller,
        )
    is_exact_in = trade.kind is PoolKind.BUY_EXACT_QUOTE_IN
    return PoolBuyEvent(
        **common,
        **accounts,
        base_amount_out=amounts.base,
        max_quote_amount_in=trade.arguments.amount if is_exact_in else trade.arguments.limit,
        quote_amount_in=amounts.quote,
        quote_amount_in_with_lp_fee=amounts.quote + amounts.lp_fee,
        user_quote_amount_in=amounts.paid_by_buyer,
        track_volume=trade.arguments.track_volume,
        min_base_amount_out=trade.arguments.limit if is_exact_in else trade.arguments.amount,
        ix_name="buy_exact_quote_in" if is_exact_in else "buy",
    )
