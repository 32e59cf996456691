"""Events of the launch platform, in self-CPI inner instructions and in `Program data:` log lines.

Implements: layouts of all versions (an older event is a prefix of a newer one; its missing fields are zero), and an
event as the data of an inner instruction.
Pure. Not here: the meaning of an event for a subscriber.
"""

import base64
from dataclasses import dataclass
from typing import Any, get_args

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import (
    I64,
    U8,
    U16,
    U64,
    EventRecord,
    Flag,
    Key,
    Shares,
    Text,
    decode,
    encode,
    fixed_size,
)
from actors.launch_programs.pool_events import PoolBuyEvent, PoolSellEvent

SELF_CPI_PREFIX = bytes.fromhex("e445a52e51cb9a1d")  # Anchor's prefix of an event in an instruction.
LOG_PREFIX = "Program data: "


@dataclass(frozen=True, slots=True)
class CreateEvent(EventRecord):
    DISCRIMINATOR = bytes.fromhex("1b72a94ddeeb6376")
    name: Text
    symbol: Text
    uri: Text
    mint: Key
    bonding_curve: Key
    user: Key
    creator: Key = ZERO_KEY
    timestamp: I64 = 0
    virtual_token_reserves: U64 = 0
    virtual_sol_reserves: U64 = 0
    real_token_reserves: U64 = 0
    token_total_supply: U64 = 0
    token_program: Key = ZERO_KEY
    is_mayhem_mode: Flag = False
    is_cashback_enabled: Flag = False
    quote_mint: Key = ZERO_KEY
    virtual_quote_reserves: U64 = 0
    creator_fee_bps: U64 = 0
    is_holder_reward: Flag = False
    depth: U8 = 0


@dataclass(frozen=True, slots=True)
class TradeEvent(EventRecord):
    """A trade. sol_amount is without fees; for a token quote it is 0, and quote_amount has the amount."""

    DISCRIMINATOR = bytes.fromhex("bddb7fd34ee661ee")
    mint: Key
    sol_amount: U64
    token_amount: U64
    is_buy: Flag
    user: Key
    timestamp: I64 = 0
    virtual_sol_reserves: U64 = 0
    virtual_token_reserves: U64 = 0
    real_sol_reserves: U64 = 0
    real_token_reserves: U64 = 0
    fee_recipient: Key = ZERO_KEY
    fee_basis_points: U64 = 0
    fee: U64 = 0
    creator: Key = ZERO_KEY
    creator_fee_basis_points: U64 = 0
    creator_fee: U64 = 0
    track_volume: Flag = False
    total_unclaimed_tokens: U64 = 0
    total_claimed_tokens: U64 = 0
    current_sol_volume: U64 = 0
    last_update_timestamp: I64 = 0
    ix_name: Text = ""
    mayhem_mode: Flag = False
    cashback_fee_basis_points: U64 = 0
    cashback: U64 = 0
    buyback_fee_basis_points: U64 = 0
    buyback_fee: U64 = 0
    shareholders: Shares = ()
    quote_mint: Key = ZERO_KEY
    quote_amount: U64 = 0
    virtual_quote_reserves: U64 = 0
    real_quote_reserves: U64 = 0
    holder_rewards_bps: U64 = 0
    holder_rewards: U64 = 0
    creator_fee_unclaimed: U64 = 0


@dataclass(frozen=True, slots=True)
class CompleteEvent(EventRecord):
    DISCRIMINATOR = bytes.fromhex("5f72619cd42e9808")
    user: Key
    mint: Key
    bonding_curve: Key
    timestamp: I64 = 0
    quote_mint: Key = ZERO_KEY


@dataclass(frozen=True, slots=True)
class CompletePumpAmmMigrationEvent(EventRecord):
    DISCRIMINATOR = bytes.fromhex("bde95db95c94ea94")
    user: Key
    mint: Key
    mint_amount: U64
    sol_amount: U64
    pool_migration_fee: U64
    bonding_curve: Key
    timestamp: I64
    pool: Key
    quote_mint: Key = ZERO_KEY


@dataclass(frozen=True, slots=True)
class CreatePoolEvent(EventRecord):
    """An event of the AMM: a new pool, of a migrated coin or of any user."""

    DISCRIMINATOR = bytes.fromhex("b1310cd2a076a774")
    timestamp: I64
    index: U16
    creator: Key
    base_mint: Key
    quote_mint: Key
    base_mint_decimals: U8
    quote_mint_decimals: U8
    base_amount_in: U64
    quote_amount_in: U64
    pool_base_amount: U64
    pool_quote_amount: U64
    minimum_liquidity: U64
    initial_liquidity: U64
    lp_token_amount_out: U64
    pool_bump: U8
    pool: Key
    lp_mint: Key
    user_base_token_account: Key
    user_quote_token_account: Key
    coin_creator: Key = ZERO_KEY
    is_mayhem_mode: Flag = False
    creator_fee_bps: U64 = 0
    can_edit_creator_fee: Flag = False
    is_holder_reward: Flag = False


@dataclass(frozen=True, slots=True)
class ExtendAccountEvent(EventRecord):
    DISCRIMINATOR = bytes.fromhex("6161d7905d92167c")
    account: Key
    user: Key
    current_size: U64
    new_size: U64
    timestamp: I64


@dataclass(frozen=True, slots=True)
class InitUserVolumeAccumulatorEvent(EventRecord):
    DISCRIMINATOR = bytes.fromhex("86240d48e86582d8")
    payer: Key
    user: Key
    timestamp: I64


Event = (
    PoolBuyEvent
    | PoolSellEvent
    | CreateEvent
    | TradeEvent
    | CompleteEvent
    | CompletePumpAmmMigrationEvent
    | CreatePoolEvent
    | ExtendAccountEvent
    | InitUserVolumeAccumulatorEvent
)
_TYPES: tuple[type[Event], ...] = get_args(Event)
_BY_DISCRIMINATOR: dict[bytes, type[Event]] = {event.DISCRIMINATOR: event for event in _TYPES}
# The number of fields in the first version of an event; shorter data is not an event.
_FIELDS_MIN = {CreateEvent: 6, TradeEvent: 8, CompleteEvent: 4, CompletePumpAmmMigrationEvent: 8, CreatePoolEvent: 19}
_FIELDS_MIN |= {PoolBuyEvent: 20, PoolSellEvent: 20}
_FIRST_FIELDS = {kind: kind.FIELDS[: _FIELDS_MIN.get(kind, len(kind.FIELDS))] for kind in _TYPES}


def encode_event(event: EventRecord) -> bytes:
    """Discriminator and fields, without the self-CPI prefix."""
    values: dict[str, Any] = {name: getattr(event, name) for name, _ in event.FIELDS}
    return event.DISCRIMINATOR + encode(event.FIELDS, values)


def decode_event(data: bytes) -> Event | None:
    """Decode an event, with or without the self-CPI prefix. None for other data and for invalid events."""
    body = data[8:] if data[:8] == SELF_CPI_PREFIX else data
    kind = _BY_DISCRIMINATOR.get(body[:8])
    if kind is None:
        return None
    values = decode(kind.FIELDS, body, 8)
    if values is None or len(body) - 8 < _least_bytes(kind, values):
        return None
    return kind(**values)


def _least_bytes(kind: type[Event], values: dict[str, Any]) -> int:
    """Return the size of the first version of an event with these values."""
    least = _FIRST_FIELDS[kind]
    size = fixed_size(least)
    return len(encode(least, values)) if size is None else size


def self_cpi_data(event: EventRecord) -> bytes:
    return SELF_CPI_PREFIX + encode_event(event)


def log_line(event: EventRecord) -> str:
    return LOG_PREFIX + base64.b64encode(encode_event(event)).decode()
