"""Reads accounts of another node, which may be away, slow or hostile.

Implements: one getMultipleAccounts call with a limit of bytes and without redirects; a strict reading of its answer.
What an answer holds is untrusted: each account is checked here for its form, and by the cloner for its use.
Not here: which accounts to ask for, the time limit (cloner.py).
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import RENT_EPOCH_EXEMPT

ACCOUNTS_PER_CALL = 100  # Limit of getMultipleAccounts.
DATA_BYTES_MAX = 10 * 1024 * 1024  # Solana's limit for one account.
ANSWER_BYTES_MAX = 32 * 1024 * 1024  # More than the largest account in base64. A larger answer is asked for in halves.
# Carried by what a cloning node asks: such a call is answered without cloning, so that two nodes that clone from each
# other do not wait for each other.
CLONING_HEADER = b"x-devnode-cloning"
_CHUNK_BYTES = 256 * 1024
_CONNECT_SECONDS_MAX = 5
_TOLD_CHARACTERS_MAX = 200  # Length of an error text from the other node.


class UpstreamError(Exception):
    """The other node did not give the accounts; the text says why, without its URL."""


class TooMuch(UpstreamError):
    """The answer is larger than ANSWER_BYTES_MAX."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """What the other node gave in place of one account."""

    reason: str


Fetched = Account | Unusable | None


class Upstream(Protocol):
    """Another node."""

    origin: str  # For people: scheme, host and port. The rest of a URL may be a secret.

    async def accounts(self, pubkeys: Sequence[Pubkey]) -> list[Fetched]:
        """At most ACCOUNTS_PER_CALL accounts, in this order. Raises UpstreamError."""

    async def close(self) -> None: ...


def origin_of(url: str) -> str:
    """Scheme, host and port. Raises ValueError if the text is no URL of an HTTP server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("wanted http://HOST:PORT or https://HOST")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if parts.port is None else f":{parts.port}")


class HttpUpstream:
    def __init__(self, url: str) -> None:
        self.origin = origin_of(url)
        self._url = url
        self._session: Any = None

    async def accounts(self, pubkeys: Sequence[Pubkey]) -> list[Fetched]:
        config = {"encoding": "base64", "commitment": "confirmed"}
        params = [[str(pubkey) for pubkey in pubkeys], config]
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "getMultipleAccounts", "params": params})
        return read_answer(await self._posted(body), len(pubkeys))

    async def _posted(self, body: bytes) -> bytes:
        import aiohttp  # Only chains that clone need it, and it costs memory.

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # A small answer must not become a large one.
            )
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            CLONING_HEADER.decode(): "1",
        }
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as reply:
                if reply.status != 200:
                    raise UpstreamError(f"it answered HTTP {reply.status}")
                taken = bytearray()
                async for chunk in reply.content.iter_chunked(_CHUNK_BYTES):
                    taken += chunk
                    if len(taken) > ANSWER_BYTES_MAX:
                        raise TooMuch(f"its answer is larger than {ANSWER_BYTES_MAX} bytes")
                return bytes(taken)
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(f"it cannot be reached ({type(error).__name__})") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def read_answer(body: bytes, wanted: int) -> list[Fetched]:
    """The accounts of an answer. Raises UpstreamError if the answer as a whole is not one to this call."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UpstreamError("its answer is not JSON") from None
    if not isinstance(answer, dict):
        raise UpstreamError("its answer is not an answer of JSON-RPC")
    if answer.get("error") is not None:
        raise UpstreamError(f"it refused: {_told(answer['error'])}")
    result = answer.get("result")
    values = result.get("value") if isinstance(result, dict) else None
    if answer.get("id") != 1 or not isinstance(values, list) or len(values) != wanted:
        raise UpstreamError("its answer is not an answer to getMultipleAccounts")
    return [_account(value) for value in values]


def _told(error: Any) -> str:
    text = error.get("message") if isinstance(error, dict) else None
    shown = text if isinstance(text, str) else "without a reason"
    return "".join(letter if letter.isprintable() else "?" for letter in shown[:_TOLD_CHARACTERS_MAX])


def _account(value: Any) -> Fetched:
    if value is None:
        return None
    if not isinstance(value, dict):
        return Unusable("it is no account")
    lamports, executable, data = value.get("lamports"), value.get("executable"), value.get("data")
    if not isinstance(lamports, int) or isinstance(lamports, bool) or not 0 <= lamports < 2**64:
        return Unusable("its lamports are no number of 64 bits")
    if not isinstance(executable, bool):
        return Unusable("its field executable is not true or false")
    try:
        owner = Pubkey.from_string(str(value.get("owner")))
    except ValueError:
        return Unusable("its owner is no address")
    if not (isinstance(data, list) and len(data) == 2 and isinstance(data[0], str) and data[1] == "base64"):
        return Unusable("its data are not base64")
    try:
        raw = base64.b64decode(data[0], validate=True)
    except (binascii.Error, ValueError):
        return Unusable("its data are not valid base64")
    if len(raw) > DATA_BYTES_MAX:
        return Unusable(f"its data are larger than {DATA_BYTES_MAX} bytes")
    if lamports == 0:
        return None  # As on a chain, where an account without lamports does not exist.
    return Account(lamports, raw, owner, executable, RENT_EPOCH_EXEMPT)
