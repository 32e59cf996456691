"""Types for quantities, so that a credit is never added to a lamport; the text forms of keys and amounts; which virtual
shard an account belongs to.

Implements: money rule 7 (integers only); design, "Growth" (virtual shards). Pure vocabulary.
"""

import functools
import hashlib
from typing import NewType

import base58
from solders.pubkey import Pubkey as SolanaPubkey
from solders.signature import Signature as SolanaSignature

Credits = NewType("Credits", int)
UsdcUnits = NewType("UsdcUnits", int)  # Base units of USDC: six decimals.
Lamports = NewType("Lamports", int)
Slot = NewType("Slot", int)
UnixSeconds = NewType("UnixSeconds", int)
UnixMillis = NewType("UnixMillis", int)
Pubkey = NewType("Pubkey", str)  # Base58 text of 32 bytes; checked by parse_pubkey.
Signature = NewType("Signature", str)  # Base58 text of 64 bytes.
VirtualShard = NewType("VirtualShard", int)

VIRTUAL_SHARDS = (
    1024  # Never changes, because stored accounts depend on it; the number of actors may change (design, "Growth").
)
UNITS_PER_USDC = 1_000_000  # USDC has six decimals.
PUBKEY_BYTES = 32
SIGNATURE_BYTES = 64
# Keys, tokens and challenges begin with these bytes, so that any replica finds the owner without a look-up.
ROUTING_BYTES = 8
_REMEMBERED_ACCOUNTS = 16_384  # About 3 MB; each call looks up the shard of its account twice.
_PUBKEY_TEXT_MAX = 44  # Longest base58 text of 32 bytes; longer input is refused before it is decoded.


def parse_pubkey(text: str) -> bytes | None:
    """Decode a base58 public key to its 32 bytes. None: the text is no such key."""
    # The library skips white space, which would give one key several texts.
    if not 32 <= len(text) <= _PUBKEY_TEXT_MAX or not text.isalnum():
        return None
    try:
        raw = base58.b58decode(text)
    except ValueError:
        return None
    return raw if len(raw) == PUBKEY_BYTES else None


def json_integer(value: object) -> int | None:
    """Read an integer of JSON, where 57.0 is one too and true is none. None: the value is no integer."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def base58_text(raw: bytes) -> str:
    """Encode bytes in base58, as Solana writes public keys and signatures.

    A key or a signature takes 1 µs in solders, and 57 µs in base58: a racer writes thousands a second.
    """
    if len(raw) == SIGNATURE_BYTES:
        return str(SolanaSignature.from_bytes(raw))
    if len(raw) == PUBKEY_BYTES:
        return str(SolanaPubkey.from_bytes(raw))
    return str(base58.b58encode(raw), "ascii")


def usdc_text(base_units: int) -> str:
    """Write base units as a decimal string of USDC: at least two decimals, then as many as the amount needs.

    10,000 base units are "0.01", 1,000,000 are "1.00", one is "0.000001". Descriptions in the ledger use this form.
    """
    assert base_units >= 0, base_units
    whole, fraction = divmod(base_units, UNITS_PER_USDC)
    return f"{whole}.{f'{fraction:06d}'.rstrip('0').ljust(2, '0')}"


def routing_bytes(pubkey: bytes) -> bytes:
    """Return the first eight bytes of SHA-256 of the 32-byte public key (decisions, "API key for new accounts")."""
    assert len(pubkey) == PUBKEY_BYTES, len(pubkey)
    return hashlib.sha256(pubkey).digest()[:ROUTING_BYTES]


def virtual_shard(routing: bytes) -> VirtualShard:
    """Return the number of the virtual shard, of 1,024, that the account with these routing bytes belongs to."""
    assert len(routing) == ROUTING_BYTES, len(routing)
    return int.from_bytes(routing, "big") % VIRTUAL_SHARDS  # type: ignore[return-value]


@functools.lru_cache(maxsize=_REMEMBERED_ACCOUNTS)
def shard_of(pubkey: bytes) -> VirtualShard:
    """Return the virtual shard of the account with this public key."""
    return virtual_shard(routing_bytes(pubkey))
