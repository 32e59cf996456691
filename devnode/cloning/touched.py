"""The accounts that a call will read.

Implements: every address, and every transaction, in the parameters of a method that reads accounts. More than the
method reads may be found (the wallet of getTokenAccountsByOwner): an account that is here too early does no harm.
A body that cannot be read has none, because its call is refused anyway. Pure.
Not here: bringing the accounts (cloner.py), accounts that only lookup tables name (cloner.py).
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import base58
import orjson
from solders.pubkey import Pubkey

from devnode.encoding.wire import PACKET_BYTES_MAX_V1, Decoded, decode

METHODS = frozenset(
    {
        *("getAccountInfo", "getBalance", "getMultipleAccounts", "requestAirdrop"),
        *("getTokenAccountBalance", "getTokenSupply", "getTokenLargestAccounts"),
        *("getTokenAccountsByOwner", "getTokenAccountsByDelegate"),
        *("sendTransaction", "simulateTransaction", "sendBundle", "simulateBundle"),
    }
)
_ADDRESS_CHARACTERS_MIN, _ADDRESS_CHARACTERS_MAX = 32, 44
_BASE58_CHARACTERS_MAX = 1_683  # Longest base58 text of a packet; decoding a longer one would take too long.
_DEPTH_MAX = 6  # Of the parameters of all these methods.


@dataclass(slots=True)
class Touched:
    pubkeys: set[Pubkey] = field(default_factory=set)
    transactions: list[Decoded] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.pubkeys or self.transactions)


def touched_by_calls(body: bytes) -> Touched:
    """The accounts that a JSON-RPC call, or a batch of calls, reads."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Touched()
    found = Touched()
    for call in asked if isinstance(asked, list) else [asked]:
        method = call.get("method") if isinstance(call, dict) else None
        if isinstance(method, str) and method in METHODS:
            for text in _texts(call.get("params"), 0):
                _add(found, text)
    return found


def touched_by_fund(body: bytes) -> Touched:
    """The wallet of POST /admin/fund."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Touched()
    found = Touched()
    if isinstance(asked, dict) and isinstance(asked.get("pubkey"), str):
        _add(found, asked["pubkey"])
    return found


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _DEPTH_MAX and isinstance(value, list | dict):
        for inner in value if isinstance(value, list) else value.values():
            yield from _texts(inner, depth + 1)


def _add(found: Touched, text: str) -> None:
    if _ADDRESS_CHARACTERS_MIN <= len(text) <= _ADDRESS_CHARACTERS_MAX:
        try:
            found.pubkeys.add(Pubkey.from_string(text))
        except ValueError:
            return
    elif len(text) > _ADDRESS_CHARACTERS_MAX:
        for raw in _readings(text):
            decoded = decode(raw)
            if isinstance(decoded, Decoded):
                found.transactions.append(decoded)
                return


def _readings(text: str) -> Iterator[bytes]:
    """What the text says as base64, and as base58: the call's encoding is not looked up."""
    if len(text) <= PACKET_BYTES_MAX_V1 * 2:
        try:
            yield base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            pass
    if len(text) <= _BASE58_CHARACTERS_MAX:
        try:
            yield base58.b58decode(text)
        except ValueError:
            pass
