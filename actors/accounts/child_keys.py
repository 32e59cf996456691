"""Child keys, which the holder of a named key makes from it offline: their form and their verification.

Implements: decisions, "Named keys" (the scheme, after Biscuit's: a chain of blocks, each signed by the block before).
Pure. Not here: making one (`ledger_gateway/keys.py`); what its limits mean (named_keys.py).

The text is `srpc_live_` and base64url, without padding, of: 8 routing bytes of the account; the public key of the named
key; blocks; the seed of the last block's key. A block is the length of its limits (two bytes, the higher one first),
its limits as JSON, its public key, and the signature by the key before it over `ledger-gateway key block`, a zero byte,
the public key before, its own public key, and its limits. The named key's own seed is SHA-256 of `ledger-gateway key
root`, a zero byte, and its text.
"""

import hashlib
from base64 import urlsafe_b64decode
from typing import NamedTuple

import msgspec
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from actors.accounts.named_keys import KeyLimits, mistake_in_limits, mistake_in_name
from actors.identity.credentials import KEY_PREFIX
from actors.units import ROUTING_BYTES

LEVELS_MAX = 8
LIMITS_BYTES_MAX = 1_000
_PUBLIC, _SIGNATURE, _LENGTH = 32, 64, 2
_ROOT, _BLOCK, _NAME = b"ledger-gateway key root\0", b"ledger-gateway key block\0", b"\0ledger-gateway block"


class ChildLimits(KeyLimits, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one child. An unknown field is refused, because a limit that cannot be enforced protects nobody."""

    name: str = "child"


class ChildBlock(NamedTuple):
    """One block of a text; only its form has been checked. told: its limits as JSON. signed_by: public key of the block
    before. id: identifies this block and all blocks before it, among all keys."""

    told: bytes
    public: bytes
    signed_by: bytes
    signature: bytes
    id: bytes

    def proven_limits(self) -> ChildLimits | None:
        """Verify the signature and return the limits. None: the signature is invalid, or a limit is unknown."""
        if not _holds(self.signed_by, _BLOCK + self.signed_by + self.public + self.told, self.signature):
            return None
        try:
            limits = msgspec.json.decode(self.told, type=ChildLimits)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return None if mistake_in_limits(limits) or mistake_in_name(limits.name) else limits


class ChildKey(NamedTuple):
    """A text whose form is right; nothing in it is verified yet.

    blocks: in order, 1 to LEVELS_MAX. seed: of the key of the last block."""

    routing: bytes
    root: bytes
    blocks: tuple[ChildBlock, ...]
    seed: bytes

    def has_seed(self) -> bool:
        """Whether the holder has the secret of the last block, and not its public parts alone."""
        return bytes(SigningKey(self.seed).verify_key) == self.blocks[-1].public


def root_public(text: str) -> bytes:
    """Return the public key of a named key, which verifies its children. It reveals nothing of the text."""
    return bytes(SigningKey(hashlib.sha256(_ROOT + text.encode()).digest()).verify_key)


def read_child(text: str) -> ChildKey | None:
    """Parse a child key's text. None: the text is not a child key. Verifies no signature."""
    try:
        raw = urlsafe_b64decode(text.removeprefix(KEY_PREFIX) + "=" * (-(len(text) - len(KEY_PREFIX)) % 4))
    except ValueError:
        return None
    routing, root = raw[:ROUTING_BYTES], raw[ROUTING_BYTES : ROUTING_BYTES + _PUBLIC]
    chain, seed = raw[ROUTING_BYTES + _PUBLIC : -_PUBLIC], raw[-_PUBLIC:]
    blocks = _blocks(root, chain)
    return ChildKey(routing, root, blocks, seed) if blocks else None


def _blocks(root: bytes, chain: bytes) -> tuple[ChildBlock, ...]:
    """Parse the blocks. Empty: the bytes are malformed, or there are more than LEVELS_MAX blocks."""
    named, before, at = hashlib.sha256(_NAME + root), root, 0
    blocks: list[ChildBlock] = []
    while at < len(chain):
        size = int.from_bytes(chain[at : at + _LENGTH], "big")
        limits_end = at + _LENGTH + size
        end = limits_end + _PUBLIC + _SIGNATURE
        if len(blocks) == LEVELS_MAX or not 0 < size <= LIMITS_BYTES_MAX or end > len(chain):
            return ()
        named.update(chain[at:end])
        public, signature = chain[limits_end : limits_end + _PUBLIC], chain[limits_end + _PUBLIC : end]
        blocks.append(ChildBlock(chain[at + _LENGTH : limits_end], public, before, signature, named.digest()))
        before, at = public, end
    return tuple(blocks)


def _holds(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        VerifyKey(public).verify(message, signature)
    except (BadSignatureError, ValueError):
        return False
    return True
