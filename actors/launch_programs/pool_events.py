"""Events of trades in pools of the platform's AMM.

Implements: their layouts; an older event is a prefix of a newer one, and its missing fields are zero. Pure.
Not here: decoding (events.py), amounts (pool_trades.py).
"""

from dataclasses import dataclass
from typing import ClassVar

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import Fields

_KEYS: Fields = (
    *(("pool", "key"), ("user", "key"), ("user_base_token_account", "key"), ("user_quote_token_account", "key")),
    *(("protocol_fee_recipient", "key"), ("protocol_fee_recipient_token_account", "key")),
    *(("coin_creator", "key"), ("coin_creator_fee_basis_points", "u64"), ("coin_creator_fee", "u64")),
)
_END: Fields = (
    *(("cashback_fee_basis_points", "u64"), ("cashback", "u64"), ("buyback_fee_basis_points", "u64")),
    *(("buyback_fee", "u64"), ("virtual_quote_reserves", "i128"), ("can_boost", "bool"), ("base_supply", "u64")),
    *(("holder_rewards_bps", "u64"), ("holder_rewards", "u64")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBuyEvent:
    """A wallet bought base tokens. user_quote_amount_in has all fees in it."""

    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("67f4521f2cf57777")
    FIELDS: ClassVar[Fields] = (
        *(("timestamp", "i64"), ("base_amount_out", "u64"), ("max_quote_amount_in", "u64")),
        *(("user_base_token_reserves", "u64"), ("user_quote_token_reserves", "u64")),
        *(("pool_base_token_reserves", "u64"), ("pool_quote_token_reserves", "u64"), ("quote_amount_in", "u64")),
        *(("lp_fee_basis_points", "u64"), ("lp_fee", "u64"), ("protocol_fee_basis_points", "u64")),
        *(("protocol_fee", "u64"), ("quote_amount_in_with_lp_fee", "u64"), ("user_quote_amount_in", "u64")),
        *_KEYS,
        *(("track_volume", "bool"), ("total_unclaimed_tokens", "u64"), ("total_claimed_tokens", "u64")),
        *(("current_sol_volume", "u64"), ("last_update_timestamp", "i64"), ("min_base_amount_out", "u64")),
        *(("ix_name", "string"), *_END),
    )
    timestamp: int
    base_amount_out: int
    max_quote_amount_in: int
    user_base_token_reserves: int
    user_quote_token_reserves: int
    pool_base_token_reserves: int
    pool_quote_token_reserves: int
    quote_amount_in: int
    lp_fee_basis_points: int
    lp_fee: int
    protocol_fee_basis_points: int
    protocol_fee: int
    quote_amount_in_with_lp_fee: int
    user_quote_amount_in: int
    pool: Pubkey
    user: Pubkey
    user_base_token_account: Pubkey
    user_quote_token_account: Pubkey
    protocol_fee_recipient: Pubkey
    protocol_fee_recipient_token_account: Pubkey
    coin_creator: Pubkey = ZERO_KEY
    coin_creator_fee_basis_points: int = 0
    coin_creator_fee: int = 0
    track_volume: bool = False
    total_unclaimed_tokens: int = 0
    total_claimed_tokens: int = 0
    current_sol_volume: int = 0
    last_update_timestamp: int = 0
    min_base_amount_out: int = 0
    ix_name: str = ""
    cashback_fee_basis_points: int = 0
    cashback: int = 0
    buyback_fee_basis_points: int = 0
    buyback_fee: int = 0
    virtual_quote_reserves: int = 0
    can_boost: bool = False
    base_supply: int = 0
    holder_rewards_bps: int = 0
    holder_rewards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSellEvent:
    """A wallet sold base tokens. All fees are already taken from user_quote_amount_out."""

    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("3e2f370aa503dc2a")
    FIELDS: ClassVar[Fields] = (
        *(("timestamp", "i64"), ("base_amount_in", "u64"), ("min_quote_amount_out", "u64")),
        *(("user_base_token_reserves", "u64"), ("user_quote_token_reserves", "u64")),
        *(("pool_base_token_reserves", "u64"), ("pool_quote_token_reserves", "u64"), ("quote_amount_out", "u64")),
        *(("lp_fee_basis_points", "u64"), ("lp_fee", "u64"), ("protocol_fee_basis_points", "u64")),
        *(("protocol_fee", "u64"), ("quote_amount_out_without_lp_fee", "u64"), ("user_quote_amount_out", "u64")),
        *_KEYS,
        *_END,
    )
    timestamp: int
    base_amount_in: int
    min_quote_amount_out: int
    user_base_token_reserves: int
    user_quote_token_reserves: int
    pool_base_token_reserves: int
    pool_quote_token_reserves: int
    quote_amount_out: int
    lp_fee_basis_points: int
    lp_fee: int
    protocol_fee_basis_points: int
    protocol_fee: int
    quote_amount_out_without_lp_fee: int
    user_quote_amount_out: int
    pool: Pubkey
    user: Pubkey
    user_base_token_account: Pubkey
    user_quote_token_account: Pubkey
    protocol_fee_recipient: Pubkey
    protocol_fee_recipient_token_account: Pubkey
    coin_creator: Pubkey = ZERO_KEY
    coin_creator_fee_basis_points: int = 0
    coin_creator_fee: int = 0
    cashback_fee_basis_points: int = 0
    cashback: int = 0
    buyback_fee_basis_points: int = 0
    buyback_fee: int = 0
    virtual_quote_reserves: int = 0
    can_boost: bool = False
    base_supply: int = 0
    holder_rewards_bps: int = 0
    holder_rewards: int = 0
