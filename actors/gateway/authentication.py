"""Who may put calls to the pipeline: the credential is proven, and callers with too many refusals are told to wait.

Implements: interface specification, "Priority and failure"; hostile inputs 35 and 50.
Synchronous: neither the account's owner nor a store is asked. Every door for calls asks here first; limits on refusals
are refusal_limits.py's.
"""

from actors.calls import Proof
from actors.clock import Clock
from actors.config import IdentityConfig
from actors.errors import Err, Refusal
from actors.gateway.headers import HeaderList
from actors.gateway.pipeline import Replies
from actors.gateway.refusal_limits import RefusalLimits, Wait
from actors.gateway.requests import Caller
from actors.gateway.sign_in import SignIn
from actors.identity.proofs import prove

_NO_CREDENTIALS = Refusal(Err.PAYMENT_REQUIRED)
_TOO_MANY = Refusal(
    Err.RATE_LIMITED, hint="too many refused calls in one second; correct them and go on after Retry-After"
)


class Entrance:
    def __init__(self, identity: IdentityConfig, clock: Clock, sign_in: SignIn, limits: RefusalLimits) -> None:
        self._identity, self._clock, self._sign_in, self._limits = identity, clock, sign_in, limits

    def enter(self, sent: HeaderList, query: bytes, path: bytes, body: bytes, caller: Caller) -> Proof | Replies:
        """The proof under which a POST goes on; or the replies to one that goes no further.

        Not asked about a request that was paid for: its money has moved, so it goes on in any case.
        """
        proof = prove(sent, query, "POST", path, body, self._clock.now(), self._identity)
        if proof is None:
            proof = self._sign_in.proof(sent, self._clock.now()) or _NO_CREDENTIALS
        if isinstance(proof, Refusal):
            return self.refuse(Replies((), proof, None), caller)
        if self._limits.waiting:
            wait = self._limits.wait(proof, caller, self._clock.now())
            if wait is not None:
                return _told_to_wait(wait)
        return proof

    def refuse(self, refused: Replies, caller: Caller) -> Replies:
        """These refusals of a caller who has proven nothing; in their place a wait, when there were too many."""
        now = self._clock.now()
        wait = self._limits.wait(None, caller, now) if self._limits.waiting else None
        if wait is not None:
            return _told_to_wait(wait)
        self._limits.count(None, caller, refused.errs(), None, 0, now)
        return refused


def _told_to_wait(wait: Wait) -> Replies:
    return Replies((), _TOO_MANY, wait.figures, wait.credits_remaining)
