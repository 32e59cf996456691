"""Events of trades in pools of the platform's AMM.

Implements: their layouts; an older event is a prefix of a newer one, and its missing fields are zero. Pure.
Not here: decoding (events.py), amounts (pool_trades.py).
"""

from dataclasses import dataclass

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import I64, I128, U64, EventRecord, Flag, Key, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBuyEvent(EventRecord):
    """A wallet bought base tokens. user_quote_amount_in has all fees in it."""

    DISCRIMINATOR = bytes.fromhex("67f4521f2cf57777")
    timestamp: I64
    base_amount_out: U64
    max_quote_amount_in: U64
    user_base_token_reserves: U64
    user_quote_token_reserves: U64
    pool_base_token_reserves: U64
    pool_quote_token_reserves: U64
    quote_amount_in: U64
    lp_fee_basis_points: U64
    lp_fee: U64
    protocol_fee_basis_points: U64
    protocol_fee: U64
    quote_amount_in_with_lp_fee: U64
    user_quote_amount_in: U64
    pool: Key
    user: Key
    user_base_token_account: Key
    user_quote_token_account: Key
    protocol_fee_recipient: Key
    protocol_fee_recipient_token_account: Key
    coin_creator: Key = ZERO_KEY
    coin_creator_fee_basis_points: U64 = 0
    coin_creator_fee: U64 = 0
    track_volume: Flag = False
    total_unclaimed_tokens: U64 = 0
    total_claimed_tokens: U64 = 0
    current_sol_volume: U64 = 0
    last_update_timestamp: I64 = 0
    min_base_amount_out: U64 = 0
    ix_name: Text = ""
    cashback_fee_basis_points: U64 = 0
    cashback: U64 = 0
    buyback_fee_basis_points: U64 = 0
    buyback_fee: U64 = 0
    virtual_quote_reserves: I128 = 0
    can_boost: Flag = False
    base_supply: U64 = 0
    holder_rewards_bps: U64 = 0
    holder_rewards: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSellEvent(EventRecord):
    """A wallet sold base tokens. All fees are already taken from user_quote_amount_out."""

    DISCRIMINATOR = bytes.fromhex("3e2f370aa503dc2a")
    timestamp: I64
    base_amount_in: U64
    min_quote_amount_out: U64
    user_base_token_reserves: U64
    user_quote_token_reserves: U64
    pool_base_token_reserves: U64
    pool_quote_token_reserves: U64
    quote_amount_out: U64
    lp_fee_basis_points: U64
    lp_fee: U64
    protocol_fee_basis_points: U64
    protocol_fee: U64
    quote_amount_out_without_lp_fee: U64
    user_quote_amount_out: U64
    pool: Key
    user: Key
    user_base_token_account: Key
    user_quote_token_account: Key
    protocol_fee_recipient: Key
    protocol_fee_recipient_token_account: Key
    coin_creator: Key = ZERO_KEY
    coin_creator_fee_basis_points: U64 = 0
    coin_creator_fee: U64 = 0
    cashback_fee_basis_points: U64 = 0
    cashback: U64 = 0
    buyback_fee_basis_points: U64 = 0
    buyback_fee: U64 = 0
    virtual_quote_reserves: I128 = 0
    can_boost: Flag = False
    base_supply: U64 = 0
    holder_rewards_bps: U64 = 0
    holder_rewards: U64 = 0
