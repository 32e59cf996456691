"""Quantities with a unit, so that a credit is never added to a lamport, and how keys and amounts are written as text.

Implements: decisions, money rule 7 (integers only). Pure vocabulary; no rules live here.
"""

import hashlib
from typing import NewType

import base58

Credits = NewType("Credits", int)
UsdcUnits = NewType("UsdcUnits", int)  # Base units of USDC: six decimals.
Lamports = NewType("Lamports", int)
Slot = NewType("Slot", int)
UnixSeconds = NewType("UnixSeconds", int)
UnixMillis = NewType("UnixMillis", int)
Pubkey = NewType("Pubkey", str)  # Base58 text of 32 bytes; checked by parse_pubkey.
Signature = NewType("Signature", str)  # Base58 text of 64 bytes.
VirtualShard = NewType("VirtualShard", int)

VIRTUAL_SHARDS = 1024  # Fixed for good: accounts are keyed by it, actors are not (design, section 6).
UNITS_PER_USDC = 1_000_000  # USDC has six decimals.
PUBKEY_BYTES = 32
ROUTING_BYTES = 8  # Keys, tokens and challenges start with these, so any replica finds the owner without a look-up.
_PUBKEY_TEXT_MAX = 44  # Longest base58 text of 32 bytes; longer input is refused before it is decoded.


def parse_pubkey(text: str) -> bytes | None:
    """The 32 bytes behind a base58 public key, or None when the text is not exactly that."""
    # The library skips white space, which would give one key several texts.
    if not 32 <= len(text) <= _PUBKEY_TEXT_MAX or not text.isalnum():
        return None
    try:
        raw = base58.b58decode(text)
    except ValueError:
        return None
    return raw if len(raw) == PUBKEY_BYTES else None


def base58_text(raw: bytes) -> str:
    """Base58, as Solana writes public keys and signatures."""
    return str(base58.b58encode(raw), "ascii")


def usdc_text(base_units: int) -> str:
    """Base units as a decimal string of USDC: at least two decimals, then only as many as the amount needs.

    10,000 base units are "0.01", 1,000,000 are "1.00", one is "0.000001". The ledger's descriptions are written so.
    """
    assert base_units >= 0, base_units
    whole, fraction = divmod(base_units, UNITS_PER_USDC)
    return f"{whole}.{f'{fraction:06d}'.rstrip('0').ljust(2, '0')}"


def routing_bytes(pubkey: bytes) -> bytes:
    """First eight bytes of SHA-256 of the 32-byte public key (decisions, "API key for new accounts")."""
    assert len(pubkey) == PUBKEY_BYTES, len(pubkey)
    return hashlib.sha256(pubkey).digest()[:ROUTING_BYTES]


def virtual_shard(routing: bytes) -> VirtualShard:
    """Which of the 1,024 virtual shards owns the account with these routing bytes."""
    assert len(routing) == ROUTING_BYTES, len(routing)
    return int.from_bytes(routing, "big") % VIRTUAL_SHARDS  # type: ignore[return-value]
