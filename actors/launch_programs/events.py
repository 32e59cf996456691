"""Events of the launch platform, in self-CPI inner instructions and in `Program data:` log lines.

Implements: layouts of all versions (an older event is a prefix of a newer one; its missing fields are zero), and an
event as the data of an inner instruction.
Pure. Not here: the meaning of an event for a subscriber.
"""

import base64
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import Fields, decode, encode, fixed_size
from actors.launch_programs.pool_events import PoolBuyEvent, PoolSellEvent

SELF_CPI_PREFIX = bytes.fromhex("e445a52e51cb9a1d")  # Anchor's prefix of an event in an instruction.
LOG_PREFIX = "Program data: "


@dataclass(frozen=True, slots=True)
class CreateEvent:
    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("1b72a94ddeeb6376")
    FIELDS: ClassVar[Fields] = (
        *(("name", "string"), ("symbol", "string"), ("uri", "string")),
        *(("mint", "key"), ("bonding_curve", "key"), ("user", "key"), ("creator", "key")),
        *(("timestamp", "i64"), ("virtual_token_reserves", "u64"), ("virtual_sol_reserves", "u64")),
        *(("real_token_reserves", "u64"), ("token_total_supply", "u64")),
        *(("token_program", "key"), ("is_mayhem_mode", "bool"), ("is_cashback_enabled", "bool")),
        *(("quote_mint", "key"), ("virtual_quote_reserves", "u64")),
        *(("creator_fee_bps", "u64"), ("is_holder_reward", "bool"), ("depth", "u8")),
    )
    name: str
    symbol: str
    uri: str
    mint: Pubkey
    bonding_curve: Pubkey
    user: Pubkey
    creator: Pubkey = ZERO_KEY
    timestamp: int = 0
    virtual_token_reserves: int = 0
    virtual_sol_reserves: int = 0
    real_token_reserves: int = 0
    token_total_supply: int = 0
    token_program: Pubkey = ZERO_KEY
    is_mayhem_mode: bool = False
    is_cashback_enabled: bool = False
    quote_mint: Pubkey = ZERO_KEY
    virtual_quote_reserves: int = 0
    creator_fee_bps: int = 0
    is_holder_reward: bool = False
    depth: int = 0


@dataclass(frozen=True, slots=True)
class TradeEvent:
    """A trade. sol_amount is without fees; for a token quote it is 0, and quote_amount has the amount."""

    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("bddb7fd34ee661ee")
    FIELDS: ClassVar[Fields] = (
        *(("mint", "key"), ("sol_amount", "u64"), ("token_amount", "u64"), ("is_buy", "bool"), ("user", "key")),
        *(("timestamp", "i64"), ("virtual_sol_reserves", "u64"), ("virtual_token_reserves", "u64")),
        *(("real_sol_reserves", "u64"), ("real_token_reserves", "u64")),
        *(("fee_recipient", "key"), ("fee_basis_points", "u64"), ("fee", "u64")),
        *(("creator", "key"), ("creator_fee_basis_points", "u64"), ("creator_fee", "u64")),
        *(("track_volume", "bool"), ("total_unclaimed_tokens", "u64"), ("total_claimed_tokens", "u64")),
        *(("current_sol_volume", "u64"), ("last_update_timestamp", "i64"), ("ix_name", "string")),
        *(("mayhem_mode", "bool"), ("cashback_fee_basis_points", "u64"), ("cashback", "u64")),
        *(("buyback_fee_basis_points", "u64"), ("buyback_fee", "u64"), ("shareholders", "shares")),
        *(("quote_mint", "key"), ("quote_amount", "u64")),
        *(("virtual_quote_reserves", "u64"), ("real_quote_reserves", "u64")),
        *(("holder_rewards_bps", "u64"), ("holder_rewards", "u64"), ("creator_fee_unclaimed", "u64")),
    )
    mint: Pubkey
    sol_amount: int
    token_amount: int
    is_buy: bool
    user: Pubkey
    timestamp: int = 0
    virtual_sol_reserves: int = 0
    virtual_token_reserves: int = 0
    real_sol_reserves: int = 0
    real_token_reserves: int = 0
    fee_recipient: Pubkey = ZERO_KEY
    fee_basis_points: int = 0
    fee: int = 0
    creator: Pubkey = ZERO_KEY
    creator_fee_basis_points: int = 0
    creator_fee: int = 0
    track_volume: bool = False
    total_unclaimed_tokens: int = 0
    total_claimed_tokens: int = 0
    current_sol_volume: int = 0
    last_update_timestamp: int = 0
    ix_name: str = ""
    mayhem_mode: bool = False
    cashback_fee_basis_points: int = 0
    cashback: int = 0
    buyback_fee_basis_points: int = 0
    buyback_fee: int = 0
    shareholders: tuple[tuple[Pubkey, int], ...] = ()
    quote_mint: Pubkey = ZERO_KEY
    quote_amount: int = 0
    virtual_quote_reserves: int = 0
    real_quote_reserves: int = 0
    holder_rewards_bps: int = 0
    holder_rewards: int = 0
    creator_fee_unclaimed: int = 0


@dataclass(frozen=True, slots=True)
class CompleteEvent:
    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("5f72619cd42e9808")
    FIELDS: ClassVar[Fields] = (
        *(("user", "key"), ("mint", "key"), ("bonding_curve", "key"), ("timestamp", "i64"), ("quote_mint", "key")),
    )
    user: Pubkey
    mint: Pubkey
    bonding_curve: Pubkey
    timestamp: int = 0
    quote_mint: Pubkey = ZERO_KEY


@dataclass(frozen=True, slots=True)
class CompletePumpAmmMigrationEvent:
    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("bde95db95c94ea94")
    FIELDS: ClassVar[Fields] = (
        *(("user", "key"), ("mint", "key"), ("mint_amount", "u64"), ("sol_amount", "u64")),
        *(("pool_migration_fee", "u64"), ("bonding_curve", "key"), ("timestamp", "i64")),
        *(("pool", "key"), ("quote_mint", "key")),
    )
    user: Pubkey
    mint: Pubkey
    mint_amount: int
    sol_amount: int
    pool_migration_fee: int
    bonding_curve: Pubkey
    timestamp: int
    pool: Pubkey
    quote_mint: Pubkey = ZERO_KEY


@dataclass(frozen=True, slots=True)
class CreatePoolEvent:
    """An event of the AMM: a new pool, of a migrated coin or of any user."""

    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("b1310cd2a076a774")
    FIELDS: ClassVar[Fields] = (
        *(("timestamp", "i64"), ("index", "u16"), ("creator", "key"), ("base_mint", "key"), ("quote_mint", "key")),
        *(("base_mint_decimals", "u8"), ("quote_mint_decimals", "u8")),
        *(("base_amount_in", "u64"), ("quote_amount_in", "u64")),
        *(("pool_base_amount", "u64"), ("pool_quote_amount", "u64")),
        *(("minimum_liquidity", "u64"), ("initial_liquidity", "u64"), ("lp_token_amount_out", "u64")),
        *(("pool_bump", "u8"), ("pool", "key"), ("lp_mint", "key")),
        *(("user_base_token_account", "key"), ("user_quote_token_account", "key"), ("coin_creator", "key")),
        *(("is_mayhem_mode", "bool"), ("creator_fee_bps", "u64")),
        *(("can_edit_creator_fee", "bool"), ("is_holder_reward", "bool")),
    )
    timestamp: int
    index: int
    creator: Pubkey
    base_mint: Pubkey
    quote_mint: Pubkey
    base_mint_decimals: int
    quote_mint_decimals: int
    base_amount_in: int
    quote_amount_in: int
    pool_base_amount: int
    pool_quote_amount: int
    minimum_liquidity: int
    initial_liquidity: int
    lp_token_amount_out: int
    pool_bump: int
    pool: Pubkey
    lp_mint: Pubkey
    user_base_token_account: Pubkey
    user_quote_token_account: Pubkey
    coin_creator: Pubkey = ZERO_KEY
    is_mayhem_mode: bool = False
    creator_fee_bps: int = 0
    can_edit_creator_fee: bool = False
    is_holder_reward: bool = False


@dataclass(frozen=True, slots=True)
class ExtendAccountEvent:
    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("6161d7905d92167c")
    FIELDS: ClassVar[Fields] = (
        *(("account", "key"), ("user", "key"), ("current_size", "u64"), ("new_size", "u64"), ("timestamp", "i64")),
    )
    account: Pubkey
    user: Pubkey
    current_size: int
    new_size: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class InitUserVolumeAccumulatorEvent:
    DISCRIMINATOR: ClassVar[bytes] = bytes.fromhex("86240d48e86582d8")
    FIELDS: ClassVar[Fields] = (("payer", "key"), ("user", "key"), ("timestamp", "i64"))
    payer: Pubkey
    user: Pubkey
    timestamp: int


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
_TYPES: tuple[type[Event], ...] = (
    PoolBuyEvent,
    PoolSellEvent,
    CreateEvent,
    TradeEvent,
    CompleteEvent,
    CompletePumpAmmMigrationEvent,
    CreatePoolEvent,
    ExtendAccountEvent,
    InitUserVolumeAccumulatorEvent,
)
_BY_DISCRIMINATOR: dict[bytes, type[Event]] = {event.DISCRIMINATOR: event for event in _TYPES}
# The number of fields in the first version of an event; shorter data is not an event.
_FIELDS_MIN = {CreateEvent: 6, TradeEvent: 8, CompleteEvent: 4, CompletePumpAmmMigrationEvent: 8, CreatePoolEvent: 19}
_FIELDS_MIN |= {PoolBuyEvent: 20, PoolSellEvent: 20}
_FIRST_FIELDS = {kind: kind.FIELDS[: _FIELDS_MIN.get(kind, len(kind.FIELDS))] for kind in _TYPES}


class EventRecord(Protocol):
    """Any event that Anchor would encode."""

    DISCRIMINATOR: ClassVar[bytes]
    FIELDS: ClassVar[Fields]


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
