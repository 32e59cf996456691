"""The SOL/USD price, and the price in credits of a built trade.

Implements: interface, "Billing for both builders"; decisions, `percentage_priced`; money rule 7.
Sources: Pyth's `PriceUpdateV2` account (crate pyth-solana-receiver-sdk), or the operator's fixed price.
Pure: the time is an argument. Not here: reading the account from a node (price_feed.py).
"""

from dataclasses import dataclass

from actors import addresses

DISCRIMINATOR = bytes.fromhex("22f123639d7ef4cd")
SOL_USD_FEED = bytes.fromhex("ef0d8b6fda2ceba41da15d4095d1da392a0d2f8ed0c6c7bc0f4cfac8c280b56d")
MICRO_USD_MAX = 10**12  # One SOL at a million dollars: a faulty number, not a price.
EARLY_SECONDS_MAX = 60  # A future price is as wrong as an old one; clocks may differ by this.
EARLY = "the SOL/USD price is dated in the future"
CREDITS_MAX = (1 << 53) - 1  # The largest integer that every JSON reader keeps.
_LEVEL_AT = 40  # Discriminator and the key that may write the account.
_FULL = 1  # Signatures of two thirds of Wormhole's guardians were checked.
_MESSAGE_BYTES = 60  # Feed, price, confidence, exponent and time of publishing; later fields are not needed.
_CONFIDENCE_PART_MIN = 50  # A price with an uncertainty above 2 % is not used for charges.
_EXPONENT_MIN, _EXPONENT_MAX = -18, 6
# lamports in a SOL, basis points in one, micro-USD in a dollar.
_SCALE = 10**9 * 10**4 * 10**6


@dataclass(frozen=True, slots=True)
class SolPrice:
    """micro_usd: millionths of a US dollar for one SOL. published_at: Unix seconds; None: fixed by the operator."""

    micro_usd: int
    published_at: int | None

    def age_seconds(self, now: int) -> int | None:
        return None if self.published_at is None else max(0, now - self.published_at)

    def fault(self, now: int, age_seconds_max: int) -> str | None:
        """Return why this price must not be used at that time, or None."""
        if self.published_at is None:
            return None
        if now - self.published_at > age_seconds_max:
            return f"the SOL/USD price is {now - self.published_at} seconds old, at most {age_seconds_max} are allowed"
        return EARLY if self.is_early(now) else None

    def is_early(self, now: int) -> bool:
        return self.published_at is not None and self.published_at - now > EARLY_SECONDS_MAX


def read_price(owner: str, data: bytes) -> SolPrice | str:
    """Read a price account, or return what is wrong with it. owner: the program that owns the account."""
    if owner != addresses.PYTH_RECEIVER_PROGRAM:
        return "the price account does not belong to the price program"
    start = _LEVEL_AT + 1
    message = data[start : start + _MESSAGE_BYTES]
    if data[:8] != DISCRIMINATOR or len(message) < _MESSAGE_BYTES:
        return "the price account has another layout"
    if data[_LEVEL_AT] != _FULL:
        return "the price in the account is not fully verified"
    if message[:32] != SOL_USD_FEED:
        return "the price account is not about SOL/USD"
    price = int.from_bytes(message[32:40], "little", signed=True)
    confidence = int.from_bytes(message[40:48], "little")
    exponent = int.from_bytes(message[48:52], "little", signed=True)
    published_at = int.from_bytes(message[52:60], "little", signed=True)
    if price <= 0 or not _EXPONENT_MIN <= exponent <= _EXPONENT_MAX:
        return "the price in the account is not a price"
    if confidence * _CONFIDENCE_PART_MIN > price:
        return "the price in the account is uncertain by more than 2 %"
    micro_usd = _micro(price, exponent)
    if not 0 < micro_usd <= MICRO_USD_MAX:
        return "the price in the account is not a price"
    return SolPrice(micro_usd, published_at)


def _micro(price: int, exponent: int) -> int:
    """Return price * 10^exponent dollars in millionths, rounded down."""
    up, down = max(exponent + 6, 0), max(-exponent - 6, 0)
    scaled: int = price * 10**up
    divisor: int = 10**down
    return scaled // divisor


def fee_credits(build_credits: int, trade_bps: int, lamports: int, micro_usd: int, credits_per_usdc: int) -> int:
    """The price of one built trade in credits: a fixed part, and basis points of its SOL at the live rate.

    One US dollar counts as one USDC. The second part is rounded up once, at its end.
    """
    product = lamports * trade_bps * micro_usd * credits_per_usdc
    return build_credits - (-product // _SCALE)
