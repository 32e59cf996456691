"""Authenticates requests: from a request to the caller whose account it names, or to a refusal.

Implements: interface, "Authentication" and "Priority and failure"; threats 35, 50 and 51.
Every door authenticates here, and only here. `authenticate` is synchronous: neither the account's owner nor a store is
asked. `authenticate_payment` takes time, as it moves money.
"""

from collections.abc import Callable, Iterable

from actors.calls import Figures, KeyProof, Proof, routing_of
from actors.clock import Clock
from actors.config import IdentityConfig
from actors.errors import Err, Refusal
from actors.gateway.calls.free_answers import FreeAnswers
from actors.gateway.calls.refusal_limits import RefusalLimits, Wait
from actors.gateway.calls.requests import Caller, Client, RefusedCaller, Request, origin_of
from actors.gateway.payments.sign_in import SignIn
from actors.gateway.payments.x402 import RequestPayments
from actors.identity.credentials import Accept, prove

_NO_CREDENTIALS = Refusal(Err.PAYMENT_REQUIRED)
_ORIGIN_BYTES_MAX = 300  # No key can be bound to a longer origin.
_HINT = "too many refused calls in one second; correct them and go on after Retry-After"
_FREE_HINT = "too many bytes of free answers from this address in a short time"


class Authenticator:
    def __init__(
        self,
        identity: IdentityConfig,
        clock: Clock,
        sign_in: SignIn,
        limits: RefusalLimits,
        payments: RequestPayments,
        address_of: Callable[[Client], str],
    ) -> None:
        self._identity, self._clock, self._sign_in = identity, clock, sign_in
        self._limits, self._payments, self._free = limits, payments, FreeAnswers()
        self._address_of = address_of

    def authenticate(
        self, request: Request, accept: Accept = Accept.ANY, counts_refusals: bool = True
    ) -> Caller | Refusal:
        """Name the caller of a request by its credential.

        counts_refusals: whether a caller with too many refused calls is told to wait, and a refusal counts for that.
        False for pages, as their requests are limited by address.
        """
        now = self._clock.now()
        proof = prove(
            request.headers, request.query, request.method, request.path, request.body, now, self._identity, accept
        )
        if type(proof) is KeyProof:
            if not self._limits.is_own(proof.key_hash):
                proof = self._with_place(proof, request)
        elif proof is None:
            signed_in = self._sign_in.proof(request.headers, now) if accept is Accept.ANY else None
            proof = signed_in or _NO_CREDENTIALS
        if isinstance(proof, Refusal):
            return (counts_refusals and self.count_refusals((proof.err,), request.client)) or proof
        waits = self.wait_of(proof, request.client) if self._limits.waiting and counts_refusals else None
        return waits or Caller(proof)

    def _with_place(self, proof: KeyProof, request: Request) -> KeyProof:
        """Add the client's address and origin to the proof of an API key.

        Only named keys are bound to them. Finding them takes longer than the rest of this module, so a key known to be
        the account's own goes without. Its hash never becomes that of a named key: named keys are fresh random bytes,
        children's texts are longer than all others, and an imported key has another form. If it did, the owner would
        refuse the bound key for its missing address, and that refusal would remove the key from the memory here
        (refusal_limits.py). A child's text is needed until its owner has recorded the child.
        """
        child = "" if self._limits.is_named(proof.key_hash) else proof.child
        return KeyProof(proof.key_hash, proof.routing, self._address_of(request.client), _origin_of(request), child)

    def wait_of(self, proof: Proof | None, client: Client) -> RefusedCaller | None:
        """Return the refusal of a caller over its limit of refused calls, or None.

        For doors that authenticate once for many calls. proof None: a stranger."""
        wait = self._limits.wait(proof, client, self._clock.now()) if self._limits.waiting else None
        return None if wait is None else _told_to_wait(wait)

    def wait_of_batch(self, request: Request) -> RefusedCaller | None:
        """As wait_of, for a batch without a payment; called before any of it is read."""
        if not self._limits.waiting:
            return None
        caller = self.authenticate(request, counts_refusals=False)
        return self.wait_of(caller.proof if isinstance(caller, Caller) else None, request.client)

    @property
    def takes_payments(self) -> bool:
        """Return whether an x402 payment decides, instead of credentials, whose account pays. Otherwise its header is
        ignored."""
        return self._payments.takes_payments

    async def authenticate_payment(self, request: Request) -> Caller | Refusal:
        """Settle the payment of a request, and name its payer as the caller.

        It moves money, so call it only for a request that is not refused for free; its caller is never told to wait.
        """
        return await self._payments.take(request, self._clock.now())

    def knows(self, proof: Proof) -> bool:
        """Return whether the account's owner has confirmed this credential to this replica."""
        return self._limits.knows(proof)

    def name_of(self, proof: Proof | None, client: Client) -> bytes | str:
        """Return the account or the address for which the work on a request counts."""
        return self._limits.address_of(client) if proof is None else self._limits.name_of(proof, client)

    def free_answer(self, request: Request, size: int) -> Refusal | None:
        """Count a free answer of so many bytes. Returns a refusal when its client had too many.

        It counts for the client's address; when that has used up its bytes, for the account of a known credential.
        """
        now = self._clock.monotonic()
        seconds = self._free.take(self._limits.address_of(request.client), size, now)
        if seconds is None:
            return None
        caller = self.authenticate(request, counts_refusals=False)
        if isinstance(caller, Caller) and self._limits.knows(caller.proof):
            seconds = self._free.take(routing_of(caller.proof), size, now)
        if seconds is None:
            return None
        return RefusedCaller(Err.RATE_LIMITED, hint=_FREE_HINT, retry_seconds=seconds, told_to_wait=True)

    def count_refusals(self, errs: Iterable[Err], client: Client, cost: int = 0) -> Refusal | None:
        """Count refusals of an unproven client. Returns another refusal when there were too many.

        cost: of the work on them, in units of one ordinary refused call.
        """
        wait = self.wait_of(None, client)
        if wait is None:
            self._limits.count(None, client, errs, None, None, self._clock.now(), cost)
        return wait

    def count_refusal_of(
        self, proof: Proof, err: Err, client: Client, figures: Figures | None = None, cost: int = 0
    ) -> None:
        """Count a refusal for a door without the pipeline: for the account whose figures the owner told, else for the
        client's address."""
        self._limits.count(proof, client, (err,), figures, None, self._clock.now(), cost)


def _origin_of(request: Request) -> str:
    return (origin_of(request.headers) or "")[:_ORIGIN_BYTES_MAX]


def _told_to_wait(wait: Wait) -> RefusedCaller:
    figures, credits = wait.figures, wait.credits_remaining
    return RefusedCaller(Err.RATE_LIMITED, hint=_HINT, figures=figures, credits_remaining=credits, told_to_wait=True)
