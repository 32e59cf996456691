"""The nonces of all accounts of one owner; each nonce admits one request.

Implements: interface, "Per-request wallet signature", rule 5; money rule 11; threats 2, 4, 53 and 55.
Pure. Not here: verifying signatures (identity), keeping nonces across a restart (the identity store).

Nonces do not belong to accounts in memory: an account is dropped when the ledger fails, and its nonces must not be.

A nonce is stored together with the operation that took it. A request that a replica resends has the same operation;
another operation with the same nonce is refused. A taken nonce stays taken, even if its request fails.

Forgetting a nonce depends on no clock being right. When a nonce is forgotten, every message that expires no later than
its own is refused from then on (`forgotten_until`), so a gateway or owner whose clock is set back refuses old messages
that look new. Where the record of nonces was lost, messages that may have been used before the loss are refused too
(`lost_until`).
"""

from typing import Any, NamedTuple

import msgspec

from actors.calls import OPERATION_BYTES, WalletProof
from actors.errors import Err
from actors.identity.challenge import AHEAD_SECONDS_MAX

NONCE_SECONDS = 130  # Least time for which a nonce is kept (money rule 11), by the monotonic clock.
PROOF_SECONDS = 60  # A wallet's signature is valid for this long before and after its time.
# The owner may see a request this long before or after the time in which the gateway accepts it: 10 s on the way
# (hosting.ask; a hold waits 5 s at most), and 5 s between the clocks of gateway and owner.
SLACK_SECONDS = 15
NONCES_MAX = 2_000_000  # Of one owner: 10,000 a second, kept for NONCE_SECONDS, and half as many again. About 700 MB.
_SEPARATOR = "|"  # A character that nonces cannot contain.
_NO_OPERATION = b"taken"

_REUSED, _LIMITED, _UNAVAILABLE = Err.NONCE_REUSED, Err.RATE_LIMITED, Err.SERVICE_TEMPORARILY_UNAVAILABLE


class Signed(NamedTuple):
    """A message signed for one use. Gateways accept it from good_from to good_until, Unix seconds, both included."""

    pubkey: bytes
    nonce: str
    good_from: int
    good_until: int


def signed_request(proof: WalletProof) -> Signed:
    return Signed(proof.pubkey, proof.nonce, proof.signed_at - PROOF_SECONDS, proof.signed_at + PROOF_SECONDS)


def signed_challenge(pubkey: bytes, challenge_id: bytes, issued_at: int, seconds: int) -> Signed:
    """Return the challenge as a signed message. seconds: life of a challenge. The slash distinguishes it from nonces of
    requests, which have none."""
    return Signed(pubkey, f"challenge/{challenge_id.hex()}", issued_at - AHEAD_SECONDS_MAX, issued_at + seconds)


class Taken(msgspec.Struct, gc=False):
    """A used nonce. kept: the identity store has it; before that no request may be admitted with it."""

    operation: bytes
    good_until: int
    kept: bool


class _Due(msgspec.Struct, gc=False):
    """The nonces of messages that are valid until the same second."""

    taken_at: int  # Steady seconds of the latest.
    keys: list[Any]  # Public keys and nonces in turn: a tuple for each would take twice the memory.


class Nonces:
    """Nonces of one owner. forgotten_until, lost_until: as in identity.store.ClaimedRecord, the latest of all
    records."""

    def __init__(self) -> None:
        self.forgotten_until = 0
        self.lost_until = 0
        self.count = 0
        self._taken: dict[bytes, dict[str, Taken]] = {}
        self._due: dict[int, _Due] = {}

    def find(self, signed: Signed) -> Taken | None:
        of_account = self._taken.get(signed.pubkey)
        return None if of_account is None else of_account.get(signed.nonce)

    def decide(self, signed: Signed, operation: bytes, rate_limit: int, now: int) -> Err | None:
        """Return None when this operation has the nonce already, or may take it. now: Unix seconds of this owner.

        Refuses a nonce of another operation (NONCE_REUSED), more than nonces_max() of one account (RATE_LIMITED), and
        nonces that this owner cannot judge (SERVICE_TEMPORARILY_UNAVAILABLE): its clock and the gateway's differ too
        much, the nonce may have been forgotten or lost, or memory is full.
        """
        of_account = self._taken.get(signed.pubkey, {})
        taken = of_account.get(signed.nonce)
        if taken is not None:
            return None if taken.operation == operation else _REUSED
        if not signed.good_from - SLACK_SECONDS <= now <= signed.good_until + SLACK_SECONDS:
            return _UNAVAILABLE
        if signed.good_until <= self.forgotten_until or signed.good_from <= self.lost_until:
            return _UNAVAILABLE
        if len(of_account) >= nonces_max(rate_limit):
            return _LIMITED
        return _UNAVAILABLE if self.count >= NONCES_MAX else None

    def take(self, signed: Signed, operation: bytes, steady: int) -> Taken:
        """Take a nonce that decide() allowed in this turn."""
        taken = Taken(operation, signed.good_until, False)
        self._put(signed.pubkey, signed.nonce, taken, steady)
        return taken

    def restore(self, pubkey: bytes, text: str, good_until: int, steady: int) -> None:
        """Add a nonce read from the store. A nonce that two operations wrote belongs to neither."""
        nonce, operation = from_stored(text)
        known = self._taken.get(pubkey, {}).get(nonce)
        if known is None:
            self._put(pubkey, nonce, Taken(operation, good_until, True), steady)
        elif known.operation != operation:
            known.operation = _NO_OPERATION

    def forget(self, now: int, steady: int) -> None:
        """Forget nonces that no gateway accepts any more and that were taken long enough ago. Messages that expire no
        later are refused from now on.

        The first condition is not enough: after a brief forward jump of the clock it would hold for messages that are
        still valid, and they would be refused.
        """
        limit = now - SLACK_SECONDS
        ended = [
            second for second, due in self._due.items() if second <= limit and due.taken_at + NONCE_SECONDS <= steady
        ]
        for second in ended:
            keys = self._due.pop(second).keys
            self.count -= len(keys) // 2
            pairs = iter(keys)
            for pubkey, nonce in zip(pairs, pairs, strict=True):
                of_account = self._taken[pubkey]
                del of_account[nonce]
                if not of_account:
                    del self._taken[pubkey]
        self.forgotten_until = max(self.forgotten_until, *ended, 0)

    def _put(self, pubkey: bytes, nonce: str, taken: Taken, steady: int) -> None:
        self._taken.setdefault(pubkey, {})[nonce] = taken
        due = self._due.get(taken.good_until)
        if due is None:
            due = self._due[taken.good_until] = _Due(steady, [])
        due.taken_at = steady
        due.keys += (pubkey, nonce)
        self.count += 1


def nonces_max(rate_limit: int) -> int:
    """Return how many nonces an account may have in memory: twice what its request rate can admit while they are kept.

    Only requests that are refused anyway can use more; they are told to slow down before their nonce is taken.
    """
    return 2 * NONCE_SECONDS * max(rate_limit, 100)


def stored_form(nonce: str, operation: bytes) -> str:
    """Return the form in which the identity store keeps a taken nonce."""
    return f"{nonce}{_SEPARATOR}{operation.hex()}"


def from_stored(text: str) -> tuple[str, bytes]:
    """Parse a stored nonce and its operation. A malformed entry gives a nonce that no operation may use again."""
    nonce, _, operation = text.partition(_SEPARATOR)
    try:
        raw = bytes.fromhex(operation)
    except ValueError:
        raw = b""
    return nonce, raw if len(raw) == OPERATION_BYTES else _NO_OPERATION
