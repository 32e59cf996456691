"""Named keys: API keys of one account with budgets and other limits, for a bot, an agent or a page each.

Implements: README, "Named keys". A wallet alone makes, changes and ends them:

    async with Gateway(url, Wallet.load("id.json")) as gateway:
        new = await Keys(gateway).create("agent", credits_a_day=5_000, methods=["READ_CHEAP", "READ_MEDIUM"])
        print(new.api_key)

And whoever holds a named key makes narrower ones of it, without asking anybody:

    print(narrow(new.api_key, "one task", credits_total=100))
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
from nacl.signing import SigningKey

from ledger_gateway.answers import Answer, decode
from ledger_gateway.client import Gateway
from ledger_gateway.credentials import BadCredential
from ledger_gateway.records import NamedKey
from ledger_gateway.retries import Repeatable

_ANSWER = Answer(200, {}, b"")
_PREFIX, _PLAIN_BYTES, _ROUTING_BYTES, _KEY_BYTES = "srpc_live_", 32, 8, 32
_LIMITS_BYTES_MAX = 1_000  # Of one child key; the gateway refuses longer limits.
_ROOT, _BLOCK = b"ledger-gateway key root\0", b"ledger-gateway key block\0"


class NewKey(msgspec.Struct, frozen=True):
    """api_key: the text of the key, which the gateway sends only once."""

    key: NamedKey
    api_key: str


class Keys:
    """gateway: its credential must be the wallet, except for `listed`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def listed(self, parent: int | None = None) -> list[NamedKey]:
        """Return the account's named keys, or those made from this one. With a named key as credential: only itself."""
        keys: list[NamedKey] = []
        query = {} if parent is None else {"parent": parent}
        while True:
            found = await self._gateway.page("/account/keys", query)
            keys += decode(found.get("keys"), list[NamedKey], _ANSWER)
            if found.get("next_after") is None:
                return keys
            query["after"] = found["next_after"]

    async def create(self, name: str, **limits: Any) -> NewKey:
        """Make a key. limits: credits_a_day, credits_total, requests_per_second, methods, origins, addresses,
        expires_at."""
        return await self._new("/account/keys", {"name": name, **limits})

    async def change(self, id: int, **changes: Any) -> NamedKey:
        """Change a key. changes: name, frozen, and limits as of `create`; None removes a limit."""
        return await self._changed("PATCH", id, json.dumps(changes).encode())

    async def rotate(self, id: int, grace_seconds: int = 0) -> NewKey:
        """Replace the text of a key that the wallet has made. The former text is valid for grace_seconds more, at most
        a day."""
        return await self._new(f"/account/keys/{id:d}/rotate", {"grace_seconds": grace_seconds})

    async def delete(self, id: int) -> NamedKey:
        """End a key for good, with its open streams."""
        return await self._changed("DELETE", id)

    async def _new(self, path: str, content: dict[str, Any]) -> NewKey:
        # Never repeated: the text of a key whose answer was lost is known to nobody.
        found = await self._gateway.document("POST", path, json.dumps(content).encode(), again=Repeatable.NEVER)
        made: NewKey = decode(found, NewKey, _ANSWER)
        return made

    async def _changed(self, method: str, id: int, body: bytes = b"") -> NamedKey:
        found = await self._gateway.document(method, f"/account/keys/{id:d}", body)
        key: NamedKey = decode(found.get("key"), NamedKey, _ANSWER)
        return key


def narrow(api_key: str, name: str = "child", *, seed: bytes | None = None, **limits: Any) -> str:
    """Make a key from a named key, or from one that was made so: it may do what all keys before it may, within these
    limits too, and what it spends counts for them. limits: as of `Keys.create`; expires_at in Unix seconds.

    The gateway learns of it by its first call, which counts as two requests. seed: 32 secret bytes; by default fresh
    ones. Raises BadCredential for an account's own key in a form that cannot be narrowed, and for limits that are too
    long.
    """
    raw = _decoded(api_key)
    if len(raw) == _PLAIN_BYTES:
        parent = SigningKey(hashlib.sha256(_ROOT + api_key.encode()).digest())
        chain = raw[:_ROUTING_BYTES] + bytes(parent.verify_key)
    else:
        parent = SigningKey(raw[-_KEY_BYTES:])
        chain = raw[:-_KEY_BYTES]
    child = SigningKey.generate() if seed is None else SigningKey(seed)
    told = json.dumps({"name": name, **limits}, separators=(",", ":")).encode()
    if len(told) > _LIMITS_BYTES_MAX:
        raise BadCredential(f"the limits of a key are at most {_LIMITS_BYTES_MAX} bytes, these are {len(told)}")
    public = bytes(child.verify_key)
    signature = parent.sign(_BLOCK + bytes(parent.verify_key) + public + told).signature
    made = chain + len(told).to_bytes(2, "big") + told + public + signature + bytes(child)
    return _PREFIX + urlsafe_b64encode(made).decode().rstrip("=")


def _decoded(api_key: str) -> bytes:
    encoded = api_key.removeprefix(_PREFIX)
    try:
        raw = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        raw = b""
    if encoded == api_key or (len(raw) != _PLAIN_BYTES and len(raw) < _ROUTING_BYTES + 4 * _KEY_BYTES):
        raise BadCredential("keys are made from a named key, which begins with srpc_live_")
    return raw
