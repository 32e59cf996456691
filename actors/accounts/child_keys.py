"""Keys that whoever holds a named key makes from it, offline: their form, and the check that they were made so.

Implements: decisions, "Named keys" (the scheme, after Biscuit's: a chain of blocks, each signed by the block before).
Pure. Not here: making one, which is the holder's (`ledger_gateway/keys.py`); what its limits mean (named_keys.py).

The text is `srpc_live_` and base64url, without padding, of: 8 routing bytes of the account; the public key of the named
key; blocks; the seed of the last block's key. A block is the length of its limits (two bytes, the higher one first),
its limits as JSON, its public key, and the signature by the key before it over `ledger-gateway key block`, a zero byte,
the public key before, its own public key, and its limits. The named key's own seed is SHA-256 of
`ledger-gateway key root`, a zero byte, and its text.
"""

import hashlib
from base64 import urlsafe_b64decode
from collections.abc import Iterator
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
    """The limits of one child. A field that is not known here is refused: a limit that is not kept would be none."""

    name: str = "child"


class ChildBlock(NamedTuple):
    """id: names this block, with all before it, among all keys. signed_by: public key of the block before."""

    limits: ChildLimits
    public: bytes
    signed_by: bytes
    id: bytes


def root_public(text: str) -> bytes:
    """The public key of a named key, by which what was made from it is checked. It tells nothing of the text."""
    return bytes(SigningKey(hashlib.sha256(_ROOT + text.encode()).digest()).verify_key)


class ChildKey(NamedTuple):
    """A text whose form is right. Nothing of it is proven yet."""

    root: bytes
    rest: bytes

    @property
    def last_id(self) -> bytes:
        """Names the last block, if it is one."""
        return self._id(len(self.rest) - _PUBLIC)

    def _id(self, end: int) -> bytes:
        return hashlib.sha256(_NAME + self.root + self.rest[:end]).digest()

    def blocks(self) -> Iterator[ChildBlock | None]:
        """The blocks, the first one first, each checked as it comes; None: the text ends as none that was made so. At
        most LEVELS_MAX, and one signature is checked for each."""
        before, at = self.root, 0
        for _ in range(LEVELS_MAX):
            size = int.from_bytes(self.rest[at : at + _LENGTH], "big")
            end = at + _LENGTH + size + _PUBLIC + _SIGNATURE
            if not 0 < size <= LIMITS_BYTES_MAX or end > len(self.rest) - _PUBLIC:
                yield None
                return
            limits = self.rest[at + _LENGTH : at + _LENGTH + size]
            public = self.rest[end - _SIGNATURE - _PUBLIC : end - _SIGNATURE]
            signature = self.rest[end - _SIGNATURE : end]
            read = _read(limits)
            if read is None or not _holds(before, _BLOCK + before + public + limits, signature):
                yield None
                return
            yield ChildBlock(read, public, before, self._id(end))
            before, at = public, end
            if at == len(self.rest) - _PUBLIC:
                if bytes(SigningKey(self.rest[at:]).verify_key) != public:
                    yield None
                return
        yield None


def read_child(text: str) -> ChildKey | None:
    """None: the text is none of a child."""
    try:
        raw = urlsafe_b64decode(text.removeprefix(KEY_PREFIX) + "=" * (-(len(text) - len(KEY_PREFIX)) % 4))
    except ValueError:
        return None
    if len(raw) < ROUTING_BYTES + 2 * _PUBLIC + _LENGTH + 1 + _PUBLIC + _SIGNATURE:
        return None
    return ChildKey(raw[ROUTING_BYTES : ROUTING_BYTES + _PUBLIC], raw[ROUTING_BYTES + _PUBLIC :])


def _read(text: bytes) -> ChildLimits | None:
    try:
        limits = msgspec.json.decode(text, type=ChildLimits)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if mistake_in_limits(limits) or mistake_in_name(limits.name) else limits


def _holds(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        VerifyKey(public).verify(message, signature)
    except (BadSignatureError, ValueError):
        return False
    return True
