"""Named keys: API keys of one account with budgets and other limits, for a bot, an agent or a page each.

Implements: README, "Named keys". A wallet alone makes, changes and ends them:

    async with Gateway(url, Wallet.load("id.json")) as gateway:
        new = await Keys(gateway).create("agent", credits_a_day=5_000, methods=["READ_CHEAP", "READ_MEDIUM"])
        print(new.api_key)
"""

import json
from typing import Any

import msgspec

from ledger_gateway.answers import Answer, decode
from ledger_gateway.client import Gateway
from ledger_gateway.records import NamedKey
from ledger_gateway.retries import Repeatable

_ANSWER = Answer(200, {}, b"")


class NewKey(msgspec.Struct, frozen=True):
    """api_key: its text, which the gateway tells this once."""

    key: NamedKey
    api_key: str


class Keys:
    """gateway: its credential must be the wallet, but for `listed`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def listed(self) -> list[NamedKey]:
        """The account's named keys. By a named key: itself alone."""
        found = await self._gateway.document("GET", "/account/keys")
        keys: list[NamedKey] = decode(found.get("keys"), list[NamedKey], _ANSWER)
        return keys

    async def create(self, name: str, **limits: Any) -> NewKey:
        """limits: credits_a_day, credits_total, requests_per_second, methods, origins, addresses, expires_at."""
        return await self._new("/account/keys", {"name": name, **limits})

    async def change(self, id: int, **changes: Any) -> NamedKey:
        """changes: name, frozen, and limits as of `create`; None takes a limit away."""
        return await self._changed("PATCH", id, json.dumps(changes).encode())

    async def rotate(self, id: int, grace_seconds: int = 0) -> NewKey:
        """A new text for the key. The former one is good for grace_seconds more, at most a day."""
        return await self._new(f"/account/keys/{id:d}/rotate", {"grace_seconds": grace_seconds})

    async def delete(self, id: int) -> NamedKey:
        """End it for good, with all that it has open."""
        return await self._changed("DELETE", id)

    async def _new(self, path: str, content: dict[str, Any]) -> NewKey:
        # NEVER asked again: the text of a key whose answer was lost is known to nobody.
        found = await self._gateway.document("POST", path, json.dumps(content).encode(), again=Repeatable.NEVER)
        made: NewKey = decode(found, NewKey, _ANSWER)
        return made

    async def _changed(self, method: str, id: int, body: bytes = b"") -> NamedKey:
        found = await self._gateway.document(method, f"/account/keys/{id:d}", body)
        key: NamedKey = decode(found.get("key"), NamedKey, _ANSWER)
        return key
