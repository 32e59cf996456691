"""The AMM's pool account, for migrated coins.

Implements: its layout, at every length. Pure. Not here: prices in a pool.
"""

from dataclasses import asdict, dataclass

from actors.launch_programs.addresses import ZERO_KEY
from actors.launch_programs.borsh import I128, U8, U16, U64, BorshRecord, Flag, Key, decode, encode

DISCRIMINATOR = bytes.fromhex("f19a6d0411b16dbc")
POOL_BYTES = 271
POOL_BYTES_MIN = 211  # Up to the field lp_supply.


@dataclass(frozen=True, slots=True)
class Pool(BorshRecord):
    bump: U8
    index: U16
    creator: Key
    base_mint: Key
    quote_mint: Key
    lp_mint: Key
    base_vault: Key
    quote_vault: Key
    lp_supply: U64
    coin_creator: Key = ZERO_KEY
    is_mayhem_mode: Flag = False
    is_cashback_coin: Flag = False
    virtual_quote_reserves: I128 = 0  # Signed, 128 bits.
    creator_fee_bps: U64 = 0
    can_edit_creator_fee: Flag = False
    is_holder_reward: Flag = False


def decode_pool(data: bytes) -> Pool | None:
    if len(data) < POOL_BYTES_MIN or data[:8] != DISCRIMINATOR:
        return None
    values = decode(Pool.FIELDS, data.ljust(POOL_BYTES, b"\x00"), 8)
    return None if values is None else Pool(**values)


def encode_pool(pool: Pool) -> bytes:
    return DISCRIMINATOR + encode(Pool.FIELDS, asdict(pool))
