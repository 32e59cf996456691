"""The operator's token: proves that a request for /operator/* comes from an operator.

Implements: decisions, "The operators' page". Pure. A replica keeps only the token's hash.
Not here: which pages there are (operators/), who counts refused tokens (gateway/pages/served.py).
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence

from actors.identity.client_addresses import Network, parse_hop

HEADER = b"x-operator-token"
SETTING = "operator.token"
CHARACTERS_MIN, CHARACTERS_MAX = 32, 256


def new_token(randomness: bytes) -> str:
    """Return the text of a token. randomness: 32 bytes."""
    assert len(randomness) == 32, "a token must be guessed by nobody"
    return f"operator_{randomness.hex()}"


class OperatorToken:
    """text: the configured token; None: there is no token, and nobody is an operator."""

    def __init__(self, text: str | None) -> None:
        self._hash = None if text is None else _hash(text.encode())

    @property
    def is_set(self) -> bool:
        return self._hash is not None

    def is_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether the request carries the token, once. Hashes are compared, so the time says nothing of it."""
        shown = [value for name, value in headers if name == HEADER]
        if self._hash is None or len(shown) != 1 or len(shown[0]) > CHARACTERS_MAX:
            return False
        return hmac.compare_digest(_hash(shown[0]), self._hash)


def is_among(address: str, networks: Sequence[Network]) -> bool:
    """Return whether a client's address is in one of these networks. An address that is not known is in none."""
    parsed = parse_hop(address)
    return parsed is not None and any(parsed.version == one.version and parsed in one for one in networks)


def _hash(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
