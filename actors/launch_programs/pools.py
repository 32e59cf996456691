"""The AMM's pool account, for migrated coins.

Implements: its layout, at every length. Pure. Not here: prices in a pool.
"""

from dataclasses import asdict, dataclass

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import Fields, decode, encode

DISCRIMINATOR = bytes.fromhex("f19a6d0411b16dbc")
POOL_BYTES = 271
POOL_BYTES_MIN = 211  # Up to the field lp_supply.
FIELDS: Fields = (
    ("bump", "u8"),
    ("index", "u16"),
    ("creator", "key"),
    ("base_mint", "key"),
    ("quote_mint", "key"),
    ("lp_mint", "key"),
    ("base_vault", "key"),
    ("quote_vault", "key"),
    ("lp_supply", "u64"),
    ("coin_creator", "key"),
    ("is_mayhem_mode", "bool"),
    ("is_cashback_coin", "bool"),
    ("virtual_quote_reserves", "i128"),
    ("creator_fee_bps", "u64"),
    ("can_edit_creator_fee", "bool"),
    ("is_holder_reward", "bool"),
)


@dataclass(frozen=True, slots=True)
class Pool:
    bump: int
    index: int
    creator: Pubkey
    base_mint: Pubkey
    quote_mint: Pubkey
    lp_mint: Pubkey
    base_vault: Pubkey
    quote_vault: Pubkey
    lp_supply: int
    coin_creator: Pubkey = ZERO_KEY
    is_mayhem_mode: bool = False
    is_cashback_coin: bool = False
    virtual_quote_reserves: int = 0  # Signed, 128 bits.
    creator_fee_bps: int = 0
    can_edit_creator_fee: bool = False
    is_holder_reward: bool = False


def decode_pool(data: bytes) -> Pool | None:
    if len(data) < POOL_BYTES_MIN or data[:8] != DISCRIMINATOR:
        return None
    values = decode(FIELDS, data.ljust(POOL_BYTES, b"\x00"), 8)
    return None if values is None else Pool(**values)


def encode_pool(pool: Pool) -> bytes:
    return DISCRIMINATOR + encode(FIELDS, asdict(pool))
