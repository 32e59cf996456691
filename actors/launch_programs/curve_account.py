"""The bonding curve account, which has the reserves and settings of a coin.

Implements: its layout at every length seen on the chain (49 to 166 bytes; missing fields are zero), and the mapping
from the stored quote mint to the names that users see: `classic` and SOL if the curve stores no quote mint, whichever
instruction created the coin; otherwise `v2` and the stored mint.
Pure. Not here: prices (curve_math.py), rates (fee_schedule.py).
"""

from dataclasses import dataclass

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import WSOL_MINT, ZERO_KEY
from actors.launch_programs.borsh import U8, U64, BorshRecord, Flag, Key, decode, encode

DISCRIMINATOR = bytes.fromhex("17b7f83760d8ac60")
CURVE_BYTES = 166  # The present layout.
CURVE_BYTES_MIN = 49  # The first layout.
CURVE_BYTES_WITH_QUOTE = 115  # v2 trades extend a shorter account to this size.
CURVE_BYTES_EXTENDED = 151  # extend_account extends a shorter account to this size.


@dataclass(frozen=True, slots=True)
class BondingCurve(BorshRecord):
    virtual_token_reserves: U64
    virtual_quote_reserves: U64
    real_token_reserves: U64
    real_quote_reserves: U64
    token_total_supply: U64
    complete: Flag = False
    creator: Key = ZERO_KEY
    is_mayhem_mode: Flag = False
    is_cashback_coin: Flag = False
    quote_mint: Key = ZERO_KEY
    creator_fee_bps: U64 = 0  # The coin's own rate; 0: the rate of the schedule.
    can_edit_creator_fee: Flag = False
    is_holder_reward: Flag = False
    creator_fee_bucket: U64 = 0
    protocol_fee_bucket: U64 = 0
    depth: U8 = 0
    initial_virtual_quote_reserves: U64 = 0
    post_complete_base_out: U64 = 0
    post_complete_quote_in: U64 = 0

    @property
    def is_migrated(self) -> bool:
        return not (
            self.virtual_token_reserves
            or self.virtual_quote_reserves
            or self.real_token_reserves
            or self.real_quote_reserves
        )

    @property
    def is_tradable(self) -> bool:
        return not self.complete and not self.is_migrated

    @property
    def has_creator(self) -> bool:
        return self.creator != ZERO_KEY

    @property
    def quote_asset(self) -> str:
        """`SOL`, or the address of the quote mint."""
        return "SOL" if self.quote_mint == ZERO_KEY else str(self.quote_mint)

    @property
    def curve_type(self) -> str:
        return "classic" if self.quote_mint == ZERO_KEY else "v2"

    @property
    def trade_quote_mint(self) -> Pubkey:
        """The quote mint that trades pass: WSOL for a SOL curve."""
        return WSOL_MINT if self.quote_mint == ZERO_KEY else self.quote_mint


def decode_curve(data: bytes) -> BondingCurve | None:
    """Decode a curve; None for other bytes. The caller has checked the owner."""
    if len(data) < CURVE_BYTES_MIN or data[:8] != DISCRIMINATOR:
        return None
    # Missing fields are zero. Accounts have always grown by whole fields.
    padded = data if len(data) >= CURVE_BYTES else data + bytes(CURVE_BYTES - len(data))
    values = decode(BondingCurve.FIELDS, padded, 8)
    return None if values is None else BondingCurve(**values)


def encode_curve(curve: BondingCurve, size: int = CURVE_BYTES) -> bytes:
    """Encode a curve in exactly `size` bytes: an older account keeps its length and does not store newer fields."""
    assert size >= CURVE_BYTES_MIN, size
    data = DISCRIMINATOR + encode(BondingCurve.FIELDS, {name: getattr(curve, name) for name, _ in BondingCurve.FIELDS})
    return data[:size].ljust(size, b"\x00")
