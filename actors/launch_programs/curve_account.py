"""The bonding curve account, which has the reserves and settings of a coin.

Implements: its layout at every length seen on the chain (49 to 166 bytes; missing fields are zero), and the mapping
from the stored quote mint to the names that users see: `classic` and SOL if the curve stores no quote mint, whichever
instruction created the coin; otherwise `v2` and the stored mint.
Pure. Not here: prices (curve_math.py), rates (fee_schedule.py).
"""

from dataclasses import dataclass

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import WSOL_MINT, ZERO_KEY
from actors.launch_programs.borsh import Fields, decode, encode

DISCRIMINATOR = bytes.fromhex("17b7f83760d8ac60")
FIELDS: Fields = (
    ("virtual_token_reserves", "u64"),
    ("virtual_quote_reserves", "u64"),
    ("real_token_reserves", "u64"),
    ("real_quote_reserves", "u64"),
    ("token_total_supply", "u64"),
    ("complete", "bool"),
    ("creator", "key"),
    ("is_mayhem_mode", "bool"),
    ("is_cashback_coin", "bool"),
    ("quote_mint", "key"),
    ("creator_fee_bps", "u64"),
    ("can_edit_creator_fee", "bool"),
    ("is_holder_reward", "bool"),
    ("creator_fee_bucket", "u64"),
    ("protocol_fee_bucket", "u64"),
    ("depth", "u8"),
    ("initial_virtual_quote_reserves", "u64"),
    ("post_complete_base_out", "u64"),
    ("post_complete_quote_in", "u64"),
)
CURVE_BYTES = 166  # The present layout.
CURVE_BYTES_MIN = 49  # The first layout.
CURVE_BYTES_WITH_QUOTE = 115  # v2 trades extend a shorter account to this size.
CURVE_BYTES_EXTENDED = 151  # extend_account extends a shorter account to this size.


@dataclass(frozen=True, slots=True)
class BondingCurve:
    virtual_token_reserves: int
    virtual_quote_reserves: int
    real_token_reserves: int
    real_quote_reserves: int
    token_total_supply: int
    complete: bool = False
    creator: Pubkey = ZERO_KEY
    is_mayhem_mode: bool = False
    is_cashback_coin: bool = False
    quote_mint: Pubkey = ZERO_KEY
    creator_fee_bps: int = 0  # The coin's own rate; 0: the rate of the schedule.
    can_edit_creator_fee: bool = False
    is_holder_reward: bool = False
    creator_fee_bucket: int = 0
    protocol_fee_bucket: int = 0
    depth: int = 0
    initial_virtual_quote_reserves: int = 0
    post_complete_base_out: int = 0
    post_complete_quote_in: int = 0

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
    values = decode(FIELDS, padded, 8)
    return None if values is None else BondingCurve(**values)


def encode_curve(curve: BondingCurve, size: int = CURVE_BYTES) -> bytes:
    """Encode a curve in exactly `size` bytes: an older account keeps its length and does not store newer fields."""
    assert size >= CURVE_BYTES_MIN, size
    data = DISCRIMINATOR + encode(FIELDS, {name: getattr(curve, name) for name, _ in FIELDS})
    return data[:size].ljust(size, b"\x00")
