"""The nonces of one account: each is usable once.

Implements: interface, "Per-request wallet signature", rule 5; decisions, money rule 11; hostile inputs 2 and 4.
Pure. Verifying signatures and time windows is the door's work (identity); keeping nonces across a restart is the
identity store's.

A nonce is kept together with the operation that took it. A request that an edge sends again after the owner crashed
carries the same operation, and is the same call, not a replay.
"""

from actors.accounts.remembered import Remembered
from actors.calls import OPERATION_BYTES

NONCE_SECONDS = 130  # A signed message is good for 60 s on either side of its time: 120 s, and ten for the way.
_SEPARATOR = "|"  # Not among the characters that a nonce may have.

NonceSet = Remembered[str, bytes]


def new_nonce_set() -> NonceSet:
    return Remembered(NONCE_SECONDS)


def nonces_max(rate_limit: int) -> int:
    """How many an account may have in memory: twice what its own request rate can admit while they are kept.

    Only requests that are refused anyway can use more; they are told to slow down before their nonce is taken.
    """
    return 2 * NONCE_SECONDS * max(rate_limit, 100)


def is_replay(nonces: NonceSet, nonce: str, operation: bytes) -> bool:
    """Whether another operation took this nonce."""
    taken_by = nonces.get(nonce)
    return taken_by is not None and taken_by != operation


def stored_form(nonce: str, operation: bytes) -> str:
    """What the identity store keeps of a taken nonce."""
    return f"{nonce}{_SEPARATOR}{operation.hex()}"


def from_stored(text: str) -> tuple[str, bytes]:
    """Nonce and operation; an entry of another form is a nonce that no operation may use again."""
    nonce, _, operation = text.partition(_SEPARATOR)
    try:
        raw = bytes.fromhex(operation)
    except ValueError:
        raw = b""
    return nonce, raw if len(raw) == OPERATION_BYTES else b"taken"
