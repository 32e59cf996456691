"""Limits how many refused calls one account, or one client address, may cause in a second.

Implements: threats 35, 50 and 61; decisions, "rate limit shape" (fixed windows of one second).
Pure: time is an argument. The doors and the pipeline count refusals here; payments/authentication.py tells callers to
wait.

A refused call is free, so neither credits nor the account's rate limit bounds it. It is counted here, in the replica,
and not by the account's owner: a caller over its limit is then refused without a message to the owner, which is the one
process that a flood must not reach. The price of this choice is that each replica counts for itself, so an account may
cause as many refusals as the limit times the number of replicas. Admitted calls are never counted.

A refused request counts by its work too: a body of 256 kB that is refused holds the event loop as long as many small
ones do. A request counts its number of refusals, or the cost of the work on it where that is more.

Refusals of a known account count for that account; those of an API key for the key first, since an account may have
several, in many hands. A refusal that proves nothing about the caller (no credential, a bad
one, no account behind it, a signature sent again) counts for the client's address: anybody can send those, and nobody
must be able to use up another account's limit. An address that is over its limit still gets calls through under
credentials that the owner has confirmed before, so one bad neighbour does not stop the customers of the same network.

What happens when full: names beyond NAMES_MAX in one second are not counted. Of the confirmed credentials the older
half is forgotten; a caller whose credential was forgotten is confirmed again by its next admitted call.
"""

from collections.abc import Callable, Iterable

import msgspec

from actors.calls import Figures, HoldReply, KeyProof, Proof, ProvenProof, SessionProof, routing_of
from actors.errors import Err
from actors.gateway.calls.requests import Client
from actors.identity.client_addresses import UNKNOWN

NAMES_MAX = 20_000  # Accounts and addresses in one second: more than one replica can refuse in that time.
CONFIRMED_MAX = 50_000  # Credentials in each half of the memory.

# Refusals that a caller can avoid. Failures of this service and of its nodes (5xx) do not count, except calls of
# strangers that were shed (count_shed).
COUNTED = frozenset(
    (
        *(Err.METHOD_NOT_FOUND, Err.METHOD_NOT_ALLOWED, Err.SERVICE_PROFILE_DISABLED),
        *(Err.INVALID_REQUEST, Err.INVALID_PARAMS, Err.INSUFFICIENT_CREDITS, Err.PAYMENT_REQUIRED),
        *(Err.MAX_CREDITS_EXCEEDED, Err.KEY_BUDGET_EXCEEDED, Err.HOURLY_LIMIT_EXCEEDED, Err.SUBSCRIPTION_LIMIT),
        *(Err.RATE_LIMITED, Err.CONCURRENCY_LIMITED, Err.AUTH_FAILED, Err.NONCE_REUSED),
        *(Err.MCP_HEADER_MISMATCH, Err.MCP_VERSION_UNSUPPORTED, Err.MCP_CAPABILITY_MISSING),
    )
)
# One of an account's API keys must not use up the limit for its others, and all together have one.
_KEYS_FACTOR = 4
# Refusals of the credential itself.
_DISPROVED = frozenset((Err.AUTH_FAILED, Err.NONCE_REUSED, Err.PAYMENT_REQUIRED))


class Wait(msgspec.Struct, frozen=True):
    """For a caller over its limit until figures.rate_reset. credits_remaining: None: the account is unknown."""

    figures: Figures
    credits_remaining: int | None


class RefusalLimits:
    """per_account, per_address: refused calls a second. address_of: the name under which a caller's address counts.

    An account that may make more requests a second than per_account may have as many refused.
    Clients whose address cannot be known share one name and have no limit: one of them must not lock out the others.
    """

    def __init__(self, per_account: int, per_address: int, address_of: Callable[[Client], str]) -> None:
        self._per_account, self._per_address, self._address_of = per_account, per_address, address_of
        self.waiting: dict[
            bytes | str, Wait
        ] = {}  # Callers over their limit; read on every call, and nearly always empty.
        self._totals: dict[bytes | str, int] = {}
        self._second = 0
        # Credentials that owners have confirmed. True: an account's own API key; False: a named key; None: another kind
        # of credential, or the owner has not told.
        self._confirmed: dict[bytes, bool | None] = {}
        self._confirmed_before: dict[bytes, bool | None] = {}
        self.on_confirmed: Callable[[bytes], None] | None = None  # Called with each credential that owners confirm.

    def wait(self, proof: Proof | None, client: Client | None, now: int) -> Wait | None:
        """Return the wait of a caller over its limit, else None. proof: None: it presented no credential."""
        self._turn(now)
        if not self.waiting:
            return None
        if proof is not None:
            confirmed = self._is_confirmed(credential_of(proof))
            if confirmed or not isinstance(proof, KeyProof | SessionProof):  # A wallet's signature is verified already.
                found = self.waiting.get(credential_of(proof)) or self.waiting.get(routing_of(proof))
                if found is not None:
                    return found
            if confirmed:
                return None
        return None if client is None else self.waiting.get(self._address_of(client))

    def knows(self, proof: Proof) -> bool:
        """Return whether the account's owner has confirmed this credential to this replica. Called for every call."""
        credential = proof.key_hash if type(proof) is KeyProof else credential_of(proof)
        return credential in self._confirmed or self._is_confirmed(credential) or type(proof) is ProvenProof

    def is_own(self, key_hash: bytes) -> bool:
        """Whether the account's owner has told this replica that this API key is the account's own one, and no named
        key: it is bound to no origin and no address. On the path of every call."""
        return self._confirmed.get(key_hash) or self._confirmed_before.get(key_hash) or False

    def is_named(self, key_hash: bytes) -> bool:
        """Return whether the account's owner told this replica that this hash is a named key's."""
        return self._confirmed.get(key_hash) is False or self._confirmed_before.get(key_hash) is False

    def address_of(self, client: Client | None) -> str:
        """Return the name under which a client's address counts."""
        return UNKNOWN if client is None else self._address_of(client)

    def name_of(self, proof: Proof, client: Client | None) -> bytes | str:
        """The name under which a caller's work counts: its account, or its address until an owner has confirmed it."""
        return routing_of(proof) if self.knows(proof) else self.address_of(client)

    def confirmed(self, proof: Proof, held: HoldReply | None = None) -> None:
        """Remember that the account's owner accepted this credential. On the path of every admitted call.

        held: the owner's reply. It tells whose key an API key is; an owner that refused may not have looked.
        """
        credential = proof.key_hash if type(proof) is KeyProof else credential_of(proof)
        if self._confirmed.get(credential) is not None:
            return
        is_own = None
        if type(proof) is KeyProof and held is not None and held.refusal is None:
            is_own = not held.key
        if is_own is not None or credential not in self._confirmed:
            self._confirm(credential, is_own)

    def count(
        self,
        proof: Proof | None,
        client: Client | None,
        errs: Iterable[Err],
        figures: Figures | None,
        credits_remaining: int | None,
        now: int,
        cost: int = 0,
    ) -> None:
        """Count the refusals of one request. figures: of the account, None where the owner told none.

        proof None: the caller has shown no credential, or a bad one. cost: of the work on the request, in units of one
        ordinary refused call (calls/refused_work.py); it counts where it is above the number of refusals.
        """
        found = [err for err in errs if err in COUNTED]
        if not found:
            return
        self._turn(now)
        amount = max(len(found), cost)
        if proof is None or figures is None or Err.NONCE_REUSED in found:
            self._count_stranger(proof, client, found, amount)
            return
        self._confirm(credential_of(proof))
        limit = max(self._per_account, figures.rate_limit)
        wait = Wait(Figures(credits_remaining or 0, figures.rate_limit, 0, now + 1), credits_remaining)
        if isinstance(proof, KeyProof):
            self._add(proof.key_hash, amount, limit, wait)
            limit *= _KEYS_FACTOR
        self._add(routing_of(proof), amount, limit, wait)

    def count_shed(self, client: Client | None, calls: int, now: int) -> None:
        """Count calls under a credential that nobody has confirmed, shed because too many of them wait already.

        They were read like refused ones, and whoever sends them again and again would have them read for ever.
        """
        self._turn(now)
        self._count_address(client, calls)

    def _count_stranger(self, proof: Proof | None, client: Client | None, found: list[Err], amount: int) -> None:
        if proof is not None and not _DISPROVED.isdisjoint(found):
            credential = credential_of(proof)
            self._confirmed.pop(credential, None)
            self._confirmed_before.pop(credential, None)
            if Err.PAYMENT_REQUIRED in found and not isinstance(proof, KeyProof | SessionProof):
                # The wallet has no account but has proven its key, so it is counted by itself.
                self._add(routing_of(proof), amount, self._per_account, self._strangers_wait(self._per_account))
        self._count_address(client, amount)

    def _count_address(self, client: Client | None, amount: int) -> None:
        address = self.address_of(client)
        if address != UNKNOWN:
            self._add(address, amount, self._per_address, self._strangers_wait(self._per_address))

    def _strangers_wait(self, limit: int) -> Wait:
        return Wait(Figures(0, limit, 0, self._second + 1), None)

    def _add(self, name: bytes | str, amount: int, limit: int, wait: Wait) -> None:
        total = self._totals.get(name, 0) + amount
        if name in self._totals or len(self._totals) < NAMES_MAX:
            self._totals[name] = total
        if total >= limit:
            self.waiting[name] = wait

    def _turn(self, now: int) -> None:
        """Begin a new window in every other second, even an earlier one: a clock set back must lock nobody out."""
        if now != self._second:
            self._second = now
            self._totals.clear()
            self.waiting.clear()

    def _is_confirmed(self, credential: bytes) -> bool:
        return credential in self._confirmed or credential in self._confirmed_before

    def _confirm(self, credential: bytes, is_own: bool | None = None) -> None:
        if len(self._confirmed) >= CONFIRMED_MAX:
            self._confirmed_before, self._confirmed = self._confirmed, {}
        self._confirmed[credential] = self._confirmed.get(credential) if is_own is None else is_own
        if self.on_confirmed is not None:
            self.on_confirmed(credential)


def credential_of(proof: Proof) -> bytes:
    """Return a name for the credential that nobody can make without it."""
    if isinstance(proof, KeyProof):
        return proof.key_hash
    return proof.token_hash if isinstance(proof, SessionProof) else proof.pubkey
