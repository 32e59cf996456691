"""The keys that sign statements: Ed25519, kept encrypted in the database, their public halves published for ever.

Implements: decisions, "Signed roots". Pure: randomness and time are arguments. A key's box is sealed by AES-256-GCM
with a key that HKDF derives from the cluster's secret, and bound to the key's name and time. It has the seed, and the
keys of before with their times. So whoever has the database alone can sign nothing, and can neither add a key nor
change when one was in use: a row is believed where its box opens and has its public half (an own key), or where the
box of an own key names it.

Boxes of before were bound to the name alone and had the seed alone: they prove their public half, and the next key
names them.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.signing import SigningKey

SEED_BYTES, NONCE_BYTES = 32, 12
_ID_CHARACTERS = 16


class CannotOpen(Exception):
    """The key was sealed with another cluster secret, or its row was changed."""


class RootKey(NamedTuple):
    """A row as the database has it, believed by nobody yet. id: the first characters of the hash of its public half.
    sealed: its box. retired_ms: since when it signs nothing more; None: it signs. Times are Unix milliseconds."""

    id: str
    public: bytes
    sealed: bytes
    made_ms: int
    retired_ms: int | None = None


class ProvenKey(NamedTuple):
    """A key of this service. retired_ms: when the next one was made; None: it signs."""

    id: str
    public: bytes
    made_ms: int
    retired_ms: int | None = None


class ProvenKeys(NamedTuple):
    """keys: newest first. signing: opens the first of them; None: there is no own key. unproven: rows that are not this
    service's, as far as it can know."""

    keys: list[ProvenKey]
    signing: SigningKey | None
    unproven: list[RootKey]


class _Opened(NamedTuple):
    key: ProvenKey
    signing: SigningKey
    older: list[ProvenKey]


class KeySeal:
    def __init__(self, cluster_secret: bytes) -> None:
        key = HKDF(hashes.SHA256(), 32, salt=None, info=b"ledger-gateway root keys").derive(cluster_secret)
        self._cipher = AESGCM(key)

    def make(self, seed: bytes, nonce: bytes, now_ms: int, older: Iterable[ProvenKey] = ()) -> RootKey:
        """seed, nonce: SEED_BYTES and NONCE_BYTES at random, never used before. older: all keys of before, for which
        this one vouches."""
        assert len(seed) == SEED_BYTES and len(nonce) == NONCE_BYTES
        public = bytes(SigningKey(seed).verify_key)
        name = name_of(public)
        named = [key._replace(retired_ms=key.retired_ms or now_ms) for key in older]
        box = seed + msgspec.msgpack.encode(named)
        return RootKey(name, public, nonce + self._cipher.encrypt(nonce, box, _bound(name, now_ms)), now_ms)

    def proven(self, rows: Sequence[RootKey]) -> ProvenKeys:
        """Return the keys that these rows prove."""
        own: list[_Opened] = []
        for row in rows:
            try:
                own.append(self._open(row))
            except CannotOpen:
                continue
        own.sort(key=lambda one: one.key.made_ms)
        named = {key.id: key for one in own for key in one.older}
        # Keys that no box names: the newest one, and before it those whose next one was made by a release before.
        last = [one for one in own if one.key.id not in named]
        untils = [*(one.key.made_ms for one in last), None][1:]
        keys = [one.key._replace(retired_ms=until) for one, until in zip(last, untils, strict=True)]
        keys = [*reversed(keys), *sorted(named.values(), key=lambda key: key.retired_ms or 0, reverse=True)]
        known = {key.id: key.public for key in keys}
        unproven = [row for row in rows if known.get(row.id) != row.public]
        return ProvenKeys(keys, last[-1].signing if last else None, unproven)

    def _open(self, row: RootKey) -> _Opened:
        box = self._decrypted(row, _bound(row.id, row.made_ms)) or self._decrypted(row, row.id.encode())
        if box is None:
            raise CannotOpen(f"the ledger key {row.id} cannot be opened with this cluster secret")
        signing, older = SigningKey(box[:SEED_BYTES]), box[SEED_BYTES:]
        if bytes(signing.verify_key) != row.public or name_of(row.public) != row.id:
            raise CannotOpen(f"the ledger key {row.id} has another public half")
        named = msgspec.msgpack.decode(older, type=list[ProvenKey]) if older else []
        return _Opened(ProvenKey(row.id, row.public, row.made_ms), signing, named)

    def _decrypted(self, row: RootKey, bound: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(row.sealed[:NONCE_BYTES], row.sealed[NONCE_BYTES:], bound)
        except (InvalidTag, ValueError):
            return None


def name_of(public: bytes) -> str:
    """Return the id of a key."""
    return sha256(public).hexdigest()[:_ID_CHARACTERS]


def published(keys: Iterable[ProvenKey | RootKey]) -> dict[str, object]:
    """Make `/.well-known/ledger-keys.json`: all keys that ever existed, newest first."""
    return {
        "keys": [
            {
                "id": key.id,
                "algorithm": "Ed25519",
                "public_key": key.public.hex(),
                "made_at": key.made_ms // 1000,
                "retired_at": None if key.retired_ms is None else key.retired_ms // 1000,
            }
            for key in keys
        ]
    }


def read_published(document: Any) -> dict[str, ProvenKey]:
    """Parse a saved `/.well-known/ledger-keys.json` into keys by name. Raises ValueError."""
    try:
        return {key.id: key for key in map(_published_key, document["keys"])}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it has not the form of /.well-known/ledger-keys.json ({error})") from None


def _published_key(told: Mapping[str, Any]) -> ProvenKey:
    public, retired = bytes.fromhex(told["public_key"]), told["retired_at"]
    if name_of(public) != told["id"]:
        raise ValueError(f"key {told['id']} has another public half")
    return ProvenKey(told["id"], public, int(told["made_at"]) * 1000, None if retired is None else int(retired) * 1000)


def _bound(name: str, made_ms: int) -> bytes:
    return f"{name} {made_ms}".encode()
