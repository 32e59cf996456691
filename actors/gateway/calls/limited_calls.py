"""X-Max-Credits by the prices of the caller's account, which its owner is asked for where the guess says no.

Implements: COSTS.md; decisions, "Price lists". A shell: cost_limits.py decides. The prices of a caller who was never
seen here, or whose list has changed, are guessed wrong; a call must not be refused for what it does not cost. A call
that passes by a wrong guess is judged once more when the owner has told the right list (account_prices.py).
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from actors.calls import PUBLIC_PRICES, Proof, WalletProof
from actors.errors import Err, Refusal
from actors.gateway.calls.account_prices import AccountPrices
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.cost_limits import Calls, batch_within_limit, one_within_limit
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.large_requests import LargeRequests
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.gateway.calls.requests import Client

_Found = TypeVar("_Found")
_Call = TypeVar("_Call", bound=Call | BadCall | AdmittedCall)


class Limited(msgspec.Struct, Generic[_Found], frozen=True):
    """proof: to run the calls with; the nonce of the original one may be used."""

    proof: Proof
    calls: _Found


class LimitedCalls:
    """Used by one replica."""

    def __init__(self, prices: AccountPrices, callers: ProvenCallers) -> None:
        self._prices, self._callers = prices, callers

    async def one(
        self, proof: Proof, call: _Call, client: Client | None, *limits: bytes | None
    ) -> Limited[_Call | BadCall] | Replies:
        """Return the call, or its refusal by a limit. Replies: the credential is refused."""
        found: Limited[_Call | BadCall] = Limited(proof, call)
        for limit in limits:
            limited = await self.within(found.proof, found.calls, limit, client)
            if isinstance(limited, Replies):
                return limited
            found = limited
        return found

    async def within(
        self, proof: Proof, calls: _Found, limit: bytes | None, client: Client | None
    ) -> Limited[_Found | BadCall] | Replies:
        """As cost_limits.within_limit, for one call or a list of calls. Replies: the credential is refused."""
        if limit is None:
            return Limited(proof, calls)
        prices = self._prices
        name = prices.told.of(proof) if prices.told.names else PUBLIC_PRICES
        limited = self._by(calls, limit, name)
        if not prices.are_listed or not _is_over(limited):
            return Limited(proof, limited)
        held = await self._callers.proven(proof, client)
        if isinstance(held, Replies):
            return held
        for each in (proof, held.payer):
            prices.told.learn(each, held.price_list)
        if held.price_list != name:
            limited = self._by(calls, limit, held.price_list)
        # The nonce of a signature is used by now.
        return Limited(held.payer if isinstance(proof, WalletProof) else proof, limited)

    async def batch(
        self,
        proof: Proof,
        calls: list[Call | BadCall],
        limit: bytes | None,
        client: Client | None,
        large: LargeRequests,
        name: bytes | str,
        limits: Sequence[bytes | None] = (),
    ) -> Limited[Calls] | Refusal:
        """The calls of a batch, within the limit of all, and each within its own. Their prices are known once they are
        admitted, which large ones are in slices. name: who waits for these."""
        for at, own in enumerate(limits):
            one = await self.one(proof, calls[at], client, own)
            if isinstance(one, Replies):
                assert one.refusal is not None
                return one.refusal
            proof, calls[at] = one.proof, one.calls
        if limit is None:
            return Limited(proof, calls)
        admitted = await large.admitted(lambda: name, calls, self._prices.plans_of(proof))
        if isinstance(admitted, Refusal):
            return admitted
        limited = await self.within(proof, admitted, limit, client)
        if isinstance(limited, Replies):
            assert limited.refusal is not None
            return limited.refusal
        if isinstance(limited.calls, BadCall):
            return limited.calls.refusal
        return Limited(limited.proof, limited.calls)

    def _by(self, calls: Any, limit: bytes, name: str) -> Any:
        """Return the calls, or refusals in their place, at the prices of this list."""
        prices = self._prices
        if isinstance(calls, list):
            listed = [prices.by(call, name) if isinstance(call, AdmittedCall) else call for call in calls]
            return batch_within_limit(listed, limit, prices.plans_by(name))
        call = prices.by(calls, name) if isinstance(calls, AdmittedCall) else calls
        return one_within_limit(call, limit, prices.plans_by(name))


def _is_over(calls: Any) -> bool:
    found = calls if isinstance(calls, list) else [calls]
    return any(isinstance(call, BadCall) and call.refusal.err is Err.MAX_CREDITS_EXCEEDED for call in found)
