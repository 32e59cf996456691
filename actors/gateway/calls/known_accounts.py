"""Remembers what owners told last about accounts, and says for which calls that leaves no doubt.

Implements: decisions, "Calls asked ahead". Pure: time is an argument.

What the node is asked before the owner has held the call's credits is lost for this service where the owner then
refuses: the answer is thrown away. So a call is asked ahead only if its credential was accepted a moment ago, the
account can pay a hundred such calls for each that is being asked, and its hourly limit leaves as much, a quarter of its
rate is left, and this replica has no more calls in flight than a quarter of the account's free slots. After a refusal,
and after a client that left before the node had answered, a call has to be held in the usual way before another one is
asked ahead, whatever credential of the account presents it. So an account can have no more answers thrown away for one
such call, at this replica, than it had calls in flight.

A named key may be bound to methods, origins and addresses, which the replica does not know. So it is known only for
what the owner has granted it before.

Calls that are held go in step: they share their messages and their group commit. One that went ahead of them would be
in no step, so where one call is held for want of slots, all are for a moment.

What happens when full: the credential that was told about longest ago is forgotten; its next call is held first.
"""

from collections.abc import Hashable

import msgspec

from actors.calls import Figures, HoldReply, KeyProof, Proof, SessionProof

KNOWN_MAX = 10_000
FRESH_SECONDS = 10.0  # How long an owner's word counts. A key that is replaced meanwhile gets no answer by it.
CREDITS_FACTOR = 100  # The account can pay this many calls of the same price.
UNITS_SHARE = 4  # At least this part of the rate is left in this second.
_UNITS_MIN = 2
GRANTED_MAX = 64  # Methods, addresses and origins that are remembered for a named key.
SLOTS_SHARE = 4  # At most this part of the free slots is asked ahead; at least one call is.
IN_STEP_SECONDS = 0.05  # For this long all calls of a credential are held, when one had to be.


class KnownAccount(msgspec.Struct, gc=False):
    """The owner's last reply about an account. told_at, in_step_until: monotonic seconds. slots: that were free.
    hour_left: credits that the hourly limit leaves; None: no limit. granted: hashes of method, address and origin of
    calls of a named key."""

    pubkey: bytes
    epoch: int
    figures: Figures
    told_at: float
    key: int = 0  # Number of the named key.
    slots: int = 0
    hour_left: int | None = None
    in_step_until: float = 0.0
    granted: set[int] = set()


class KnownAccounts:
    """By credential. A wallet's signature is never known: each is valid for one request, and its nonce comes first."""

    def __init__(self) -> None:
        self._known: dict[Hashable, KnownAccount] = {}
        self._credentials: dict[bytes, set[Hashable]] = {}  # Of each account.
        # Calls that are being asked ahead, by account: all its credentials share its credits and its rate.
        self._asking: dict[bytes, int] = {}

    def learn(self, proof: Proof, held: HoldReply, now: float, method: str) -> None:
        """Remember the reply to a granted hold of this method."""
        credential, figures = _credential_of(proof), held.figures
        if credential is None or figures is None:
            return
        known = self._known.get(credential)
        if known is None or known.pubkey != held.pubkey:
            self._drop(credential)
            known = KnownAccount(held.pubkey, held.epoch, figures, now, held.key, held.slots, held.hour_left)
            self._credentials.setdefault(held.pubkey, set()).add(credential)
        else:
            del self._known[credential]
            known.epoch, known.figures, known.told_at = held.epoch, figures, now
            known.key, known.slots, known.hour_left = held.key, held.slots, held.hour_left
        self._known[credential] = known
        if held.key:
            _grant(known, proof, method)
        if len(self._known) > KNOWN_MAX:
            self._drop(next(iter(self._known)))

    def forget(self, proof: Proof) -> None:
        """Forget all credentials of the account of a refused one: their next calls are held before they are asked."""
        known = self._known.get(_credential_of(proof))
        if known is not None:
            for credential in self._credentials.pop(known.pubkey):
                del self._known[credential]

    def began(self, pubkey: bytes) -> None:
        """Count a call of this account that is being asked ahead, until `ended`; also if it is forgotten meanwhile."""
        self._asking[pubkey] = self._asking.get(pubkey, 0) + 1

    def ended(self, pubkey: bytes) -> None:
        left = self._asking.pop(pubkey) - 1
        if left:
            self._asking[pubkey] = left

    def _drop(self, credential: Hashable) -> None:
        known = self._known.pop(credential, None)
        if known is not None:
            beside = self._credentials[known.pubkey]
            beside.remove(credential)
            if not beside:
                del self._credentials[known.pubkey]

    def without_doubt(
        self, proof: Proof, ceiling: int, now: float, second: int, in_flight: int, method: str
    ) -> KnownAccount | None:
        """Return the account where a call of this method and price may be asked ahead, else None.

        now: monotonic seconds. second: Unix seconds, for the window of the rate. in_flight: calls of this replica, of
        all accounts, with this one.
        """
        known = self._known.get(_credential_of(proof))
        if known is None or now - known.told_at > FRESH_SECONDS:
            return None
        if known.key and _way_of(proof, method) not in known.granted:
            return None
        if in_flight > 1 and in_flight > known.slots // SLOTS_SHARE:
            known.in_step_until = now + IN_STEP_SECONDS
            return None
        if now < known.in_step_until:
            return None
        told, asking = known.figures, self._asking.get(known.pubkey, 0)
        left = (told.rate_remaining if second < told.rate_reset else told.rate_limit) - asking
        if left < max(_UNITS_MIN, told.rate_limit // UNITS_SHARE):
            return None
        # An hour that has ended meanwhile is not looked for: the owner's next word has the new one.
        spared = CREDITS_FACTOR * ceiling * (1 + asking)
        if told.credits_remaining < spared or (known.hour_left is not None and known.hour_left < spared):
            return None
        return known


def _grant(known: KnownAccount, proof: Proof, method: str) -> None:
    if len(known.granted) >= GRANTED_MAX:
        known.granted.clear()
    known.granted.add(_way_of(proof, method))


def _way_of(proof: Proof, method: str) -> int:
    """Return the hash of method, address and origin: they are a client's texts, of 300 bytes and more, and a replica
    remembers 640,000 of them. Nobody can find two that are equal, as Python salts it; they would cost one answer."""
    return hash((method, proof.address, proof.origin) if type(proof) is KeyProof else (method, "", ""))


def _credential_of(proof: Proof) -> Hashable:
    if type(proof) is KeyProof:
        return proof.key_hash
    return proof.token_hash if type(proof) is SessionProof else None
