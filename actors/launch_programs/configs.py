"""Configuration accounts of the platform: Global, the fee schedule, the list of further quote mints.

Implements: their layouts; in a shorter, older account the missing switches are off.
Pure. Not here: the rate of a coin (fee_schedule.py).
"""

from dataclasses import asdict, dataclass, field

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import KEY_BYTES, Fields, decode, encode

GLOBAL_DISCRIMINATOR = bytes.fromhex("a7e8e8b1c86c727f")
FEE_CONFIG_DISCRIMINATOR = bytes.fromhex("8f3492bbdb7b4c9b")
QUOTE_CONTROL_DISCRIMINATOR = bytes.fromhex("38f423eec1d5a2c9")
GLOBAL_BYTES = 1_088
FEE_CONFIG_BYTES = 4_097
FEE_TIERS_MAX = 50  # The fee program's limit.
_QUOTE_CONTROL_RESERVED_BYTES = 64
_TIER_BYTES = 40


def _many(name: str, count: int) -> Fields:
    return tuple((f"{name}.{index}", "key") for index in range(count))


_GLOBAL: Fields = (
    ("initialized", "bool"),
    ("authority", "key"),
    ("fee_recipient", "key"),
    ("initial_virtual_token_reserves", "u64"),
    ("initial_virtual_sol_reserves", "u64"),
    ("initial_real_token_reserves", "u64"),
    ("token_total_supply", "u64"),
    ("fee_basis_points", "u64"),
    ("withdraw_authority", "key"),
    ("enable_migrate", "bool"),
    ("pool_migration_fee", "u64"),
    ("creator_fee_basis_points", "u64"),
    *_many("fee_recipients", 7),
    ("set_creator_authority", "key"),
    ("admin_set_creator_authority", "key"),
    ("create_v2_enabled", "bool"),
    ("whitelist_pda", "key"),
    ("reserved_fee_recipient", "key"),
    ("mayhem_mode_enabled", "bool"),
    *_many("reserved_fee_recipients", 7),
    ("is_cashback_enabled", "bool"),
    *_many("buyback_fee_recipients", 8),
    ("buyback_basis_points", "u64"),
    ("initial_virtual_quote_reserves", "u64"),
    *_many("whitelisted_quote_mints", 1),
    ("creator_fee_configurable", "bool"),
    ("max_configurable_creator_fee_bps", "u64"),
    ("holder_reward_claim_authority", "key"),
    ("is_holder_reward_enabled", "bool"),
    ("curve_depth_max", "u8"),
)
_LISTS = {
    "fee_recipients": 7,
    "reserved_fee_recipients": 7,
    "buyback_fee_recipients": 8,
    "whitelisted_quote_mints": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Global:
    initialized: bool
    authority: Pubkey
    fee_recipient: Pubkey
    initial_virtual_token_reserves: int
    initial_virtual_sol_reserves: int
    initial_real_token_reserves: int
    token_total_supply: int
    fee_basis_points: int  # This and creator_fee_basis_points apply only without a fee schedule.
    withdraw_authority: Pubkey
    enable_migrate: bool
    pool_migration_fee: int
    creator_fee_basis_points: int
    fee_recipients: tuple[Pubkey, ...]
    set_creator_authority: Pubkey
    admin_set_creator_authority: Pubkey
    create_v2_enabled: bool
    whitelist_pda: Pubkey
    reserved_fee_recipient: Pubkey
    mayhem_mode_enabled: bool
    reserved_fee_recipients: tuple[Pubkey, ...]
    is_cashback_enabled: bool
    buyback_fee_recipients: tuple[Pubkey, ...]
    buyback_basis_points: int  # Share of the protocol fee.
    initial_virtual_quote_reserves: int
    whitelisted_quote_mints: tuple[Pubkey, ...]
    creator_fee_configurable: bool
    max_configurable_creator_fee_bps: int
    holder_reward_claim_authority: Pubkey
    is_holder_reward_enabled: bool
    curve_depth_max: int

    def fee_recipients_of(self, is_mayhem: bool) -> tuple[Pubkey, ...]:
        """The fee recipients that a trade may use."""
        if is_mayhem:
            return (self.reserved_fee_recipient, *self.reserved_fee_recipients)
        return (self.fee_recipient, *self.fee_recipients)


def decode_global(data: bytes) -> Global | None:
    if data[:8] != GLOBAL_DISCRIMINATOR:
        return None
    values = decode(_GLOBAL, data, 8)
    if values is None:
        return None
    for name, count in _LISTS.items():
        values[name] = tuple(values.pop(f"{name}.{index}") for index in range(count))
    return Global(**values)


def encode_global(config: Global) -> bytes:
    values = asdict(config)
    for name in _LISTS:
        values |= {f"{name}.{index}": key for index, key in enumerate(values.pop(name))}
    return GLOBAL_DISCRIMINATOR + encode(_GLOBAL, values)


@dataclass(frozen=True, slots=True)
class Fees:
    lp_bps: int
    protocol_bps: int
    creator_bps: int

    @property
    def is_zero(self) -> bool:
        return not (self.lp_bps or self.protocol_bps or self.creator_bps)


@dataclass(frozen=True, slots=True)
class FeeTier:
    market_cap_min: int  # In base units of the quote.
    fees: Fees


@dataclass(frozen=True, slots=True)
class FeeConfig:
    bump: int
    admin: Pubkey
    flat: Fees
    tiers: tuple[FeeTier, ...]
    stable_tiers: tuple[FeeTier, ...] = ()
    exotic: Fees = field(default=Fees(0, 0, 0))


def decode_fee_config(data: bytes) -> FeeConfig | None:
    """Read a fee schedule; older accounts have no stable tiers or no exotic fees."""
    if data[:8] != FEE_CONFIG_DISCRIMINATOR or len(data) < 65:
        return None
    flat = _fees(data[41:65])
    read = _tiers(data, 65)
    if read is None or not read[0]:
        return None
    tiers, at = read
    # An account of 2,512 bytes has no stable tiers: the bytes behind its tiers are reserved.
    later = _tiers(data, at) if len(data) > 2_512 else ((), at)
    if later is None:
        return None
    stable, at = later
    exotic = _fees(data[at : at + 24]) if len(data) >= FEE_CONFIG_BYTES else Fees(0, 0, 0)
    return FeeConfig(data[8], Pubkey.from_bytes(data[9:41]), flat, tiers, stable, exotic)


def _tiers(data: bytes, at: int) -> tuple[tuple[FeeTier, ...], int] | None:
    count = int.from_bytes(data[at : at + 4], "little")
    end = at + 4 + count * _TIER_BYTES
    if count > FEE_TIERS_MAX or end > len(data):
        return None
    found = []
    for start in range(at + 4, end, _TIER_BYTES):
        found.append(
            FeeTier(int.from_bytes(data[start : start + 16], "little"), _fees(data[start + 16 : start + _TIER_BYTES]))
        )
    return tuple(found), end


def _fees(data: bytes) -> Fees:
    return Fees(*(int.from_bytes(data[at : at + 8], "little") for at in (0, 8, 16)))


def encode_fee_config(config: FeeConfig) -> bytes:
    data = FEE_CONFIG_DISCRIMINATOR + bytes((config.bump,)) + bytes(config.admin) + _fees_bytes(config.flat)
    for tiers in (config.tiers, config.stable_tiers):
        data += len(tiers).to_bytes(4, "little")
        data += b"".join(tier.market_cap_min.to_bytes(16, "little") + _fees_bytes(tier.fees) for tier in tiers)
    return (data + _fees_bytes(config.exotic)).ljust(FEE_CONFIG_BYTES, b"\x00")


def _fees_bytes(fees: Fees) -> bytes:
    return b"".join(bps.to_bytes(8, "little") for bps in (fees.lp_bps, fees.protocol_bps, fees.creator_bps))


@dataclass(frozen=True, slots=True)
class QuoteControl:
    admin: Pubkey
    mints: tuple[tuple[Pubkey, int], ...]  # (Mint, initial virtual quote reserves of its coins).

    def initial_virtual_quote_reserves(self, mint: Pubkey) -> int | None:
        return dict(self.mints).get(mint)


def decode_quote_control(data: bytes) -> QuoteControl | None:
    start = 8 + KEY_BYTES + _QUOTE_CONTROL_RESERVED_BYTES
    if data[:8] != QUOTE_CONTROL_DISCRIMINATOR or len(data) < start + 4:
        return None
    count = int.from_bytes(data[start : start + 4], "little")
    entry = KEY_BYTES + 8
    if start + 4 + count * entry > len(data):
        return None
    mints = []
    for at in range(start + 4, start + 4 + count * entry, entry):
        mint = Pubkey.from_bytes(data[at : at + KEY_BYTES])
        mints.append((mint, int.from_bytes(data[at + KEY_BYTES : at + entry], "little")))
    return QuoteControl(Pubkey.from_bytes(data[8 : 8 + KEY_BYTES]), tuple(mints))


def encode_quote_control(control: QuoteControl) -> bytes:
    data = QUOTE_CONTROL_DISCRIMINATOR + bytes(control.admin) + bytes(_QUOTE_CONTROL_RESERVED_BYTES)
    data += len(control.mints).to_bytes(4, "little")
    return data + b"".join(bytes(mint) + reserves.to_bytes(8, "little") for mint, reserves in control.mints)


def user_volume_accumulator_bytes(user: Pubkey) -> bytes:
    """A new accumulator of 137 bytes; the user pays the rent for this size."""
    return (bytes.fromhex("56ff700e66359afa") + bytes(user)).ljust(137, b"\x00")


def global_volume_accumulator_bytes() -> bytes:
    """The accumulator without a running incentive programme: all times, supplies and volumes are zero."""
    return (bytes.fromhex("ca2af62b8ebe1eff") + bytes(24) + bytes(ZERO_KEY) + bytes(480)).ljust(544, b"\x00")
