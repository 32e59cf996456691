"""The observations that a program family makes in a transaction, and how to tell a pool's coin from its quote.

Implements: interface, "Signal event" (mint, quote_asset, curve_type, complete); unknown is None, never a guess. Pure
vocabulary. Not here: which observations become signals (classify.py).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, unique

from actors.addresses import USDC_DEVNET_MINT, USDC_MAINNET_MINT, WRAPPED_SOL_MINT
from actors.signals.transaction import Transaction, key_text, known_key

ZERO_KEY = bytes(32)
WSOL = known_key(WRAPPED_SOL_MINT)
USDT = known_key("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB")
SOL = "SOL"
# Mints used for payment. A pool's coin is the side that is not among them.
KNOWN_QUOTES = frozenset({WSOL, USDT, ZERO_KEY, known_key(USDC_MAINNET_MINT), known_key(USDC_DEVNET_MINT)})


@unique
class What(Enum):
    CREATED = "created"
    GRADUATED = "graduated"
    TRADED = "traded"


@dataclass(frozen=True, slots=True)
class Observation:
    """accounts: curve or pool, then the coin and the wallet. lamports: the SOL side of a trade, without fees where the
    program tells it; None: the trade has no SOL side, or its size cannot be established."""

    what: What
    program: bytes
    mint: bytes | None
    accounts: tuple[bytes | None, ...]
    quote_asset: str | None = None
    curve_type: str | None = None
    complete: bool | None = None
    is_buy: bool | None = None
    lamports: int | None = None


# Reads the instruction at an index of a transaction.
Reader = Callable[[Transaction, int], Iterator[Observation]]
Readers = Mapping[bytes, Reader]  # By the first bytes of an instruction's data.


def instruction(name: str) -> bytes:
    """Return the discriminator of an Anchor instruction, which is a hash of its name in the program."""
    return hashlib.sha256(f"global:{name}".encode()).digest()[:8]


def event(name: str) -> bytes:
    return hashlib.sha256(f"event:{name}".encode()).digest()[:8]


def coin_and_quote(first: bytes | None, second: bytes | None) -> tuple[bytes | None, str | None]:
    """Distinguish a pool's coin from its quote.

    first: base, token 0 or token A; the coin if neither side is a known quote, or both are."""
    if first in KNOWN_QUOTES and second not in KNOWN_QUOTES:
        first, second = second, first
    return first, None if second is None else key_text(second)


def u64(data: bytes, offset: int) -> int | None:
    return int.from_bytes(data[offset : offset + 8], "little") if len(data) >= offset + 8 else None
