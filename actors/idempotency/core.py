"""Decides what a request with an Idempotency-Key may do: run, take over a run that died, or get the kept answer.

Implements: decisions, "Idempotency-Key" (same key and body: same answer and one charge, kept for 24 hours).
Pure: no clock, no I/O, no randomness; times arrive as Unix milliseconds.
Not here: storage (store.py), what an answer is (gateway/calls/idempotent.py).
"""

import hashlib
from dataclasses import dataclass
from enum import Enum, unique

KEPT_MS = 24 * 3_600_000
# A run older than this counts as dead. The longest call takes 50 s: 30 s of its class, 5 s to hold, 15 s to settle.
LEASE_MS = 60_000
ANSWER_BYTES_MAX = 65_536  # A larger answer reaches the caller that waits for it, and is not kept.
_KEY_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key. scope: the account that it belongs to, or, where a call has no account, the hash of its body.

    fingerprint: of what was asked. operation: the charge of this key, whoever runs its call: the ledger debits an
    operation once, so a key costs its price once. attempt: names the run that may write the record; unique.
    answer: of a call that has ended. charged: credits of `operation` that this answer costs.
    """

    scope: bytes
    key: str
    fingerprint: bytes
    operation: bytes
    attempt: bytes
    lease_until_ms: int
    expires_at_ms: int
    answered: bool = False
    charged: int = 0
    answer: bytes = b""


@unique
class Verdict(Enum):
    RUN = "run"  # The key is new.
    TAKE_OVER = "take over"  # Its run died, or left the outcome open: run it again, with the same operation.
    REPEAT = "repeat"  # Give the kept answer.
    NOT_KEPT = "not kept"  # The run has ended, and its answer was too large.
    OTHER_REQUEST = "other request"
    RUNNING = "running"


def parse_key(sent: bytes) -> str | None:
    """Return the key, or None unless it has 1 to 255 printable characters of ASCII."""
    if not 1 <= len(sent) <= _KEY_CHARACTERS_MAX or any(not 0x20 <= character <= 0x7E for character in sent):
        return None
    return sent.decode("ascii")


def fingerprint_of(method: str, params: bytes) -> bytes:
    """Name what is asked. A JSON-RPC id does not count: clients number their requests anew when they repeat one."""
    return hashlib.sha256(method.encode() + b"\0" + params).digest()


def began(scope: bytes, key: str, fingerprint: bytes, operation: bytes, now_ms: int) -> KeyRecord:
    """Begin a run of a new key. operation: unique, so it names this attempt too."""
    return KeyRecord(scope, key, fingerprint, operation, operation, now_ms + LEASE_MS, now_ms + KEPT_MS)


def decide(stored: KeyRecord, mine: KeyRecord, now_ms: int) -> Verdict:
    """Decide about a request. stored: the record of its key, which is `mine` where the key was new."""
    assert (stored.scope, stored.key) == (mine.scope, mine.key), (stored, mine)
    if stored.fingerprint != mine.fingerprint:
        return Verdict.OTHER_REQUEST
    if stored.answered:
        return Verdict.REPEAT if stored.answer else Verdict.NOT_KEPT
    if stored.attempt == mine.attempt:
        return Verdict.RUN
    return Verdict.RUNNING if now_ms < stored.lease_until_ms else Verdict.TAKE_OVER
