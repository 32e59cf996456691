"""Asks the node ahead of the hold where the account leaves no doubt, and holds and charges the answer in one message.

Implements: decisions, "Calls asked ahead"; money rules 1, 2 and 9; design, "One billed call".
A shell: known_accounts.py says which calls leave no doubt; the account's owner decides. A caller who is alone waits for
one message to the owner instead of two. The answer leaves when its charge is durable, as every other answer, and never
where the owner refuses the hold.

| The call                              | The client left                     | This server gave the request up |
|---------------------------------------|-------------------------------------|---------------------------------|
| is not answered by the node yet       | released                            | released                        |
| is answered, and is being charged     | charged                             | voided                          |

What is released takes a unit of the rate, as a call that was held first, and the account is known no more. Otherwise a
client that always leaves at once would have the nodes work for nothing, without a limit.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import (
    OTHER_PRICES,
    ChargeReply,
    ChargeRequest,
    HoldReply,
    HoldRequest,
    Proof,
    ProvenProof,
    SettleReply,
    SettleRequest,
)
from actors.clock import Clock
from actors.gateway.calls import outcomes
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.cancelled_requests import CancelledRequests
from actors.gateway.calls.evidence import evidence_at_once, evidence_of, hash_for
from actors.gateway.calls.known_accounts import KnownAccount, KnownAccounts
from actors.gateway.calls.outcomes import Replies, Reply, whole
from actors.gateway.calls.requests import Client
from actors.upstream.replies import Node


class OtherPrices(NamedTuple):
    """The account has another price list: nothing was charged. call: with the node's answer, to be held by that one."""

    call: AdmittedCall
    held: HoldReply


# Voids an operation whose answer does not leave, and counts the call: the reply, the end of its hold, what became of
# that, and when the call began.
CountEnd = Callable[[Reply, SettleRequest, SettleReply | None, float], Reply]


class AskedAhead:
    """Used by one replica."""

    def __init__(
        self, accounts: AccountsClient, node: Node, clock: Clock, cancelled: CancelledRequests, count_end: CountEnd
    ) -> None:
        self._accounts, self._node, self._clock = accounts, node, clock
        self._cancelled, self._count_end = cancelled, count_end
        self._known = KnownAccounts()
        self._asking: dict[int, int] = {}  # Calls by the epoch of their account's owner.

    def learn(self, proof: Proof, held: HoldReply, method: str) -> None:
        """Remember the reply to a granted hold of this method."""
        self._known.learn(proof, held, self._clock.monotonic(), method)

    def known(self, proof: Proof, admitted: AdmittedCall, in_flight: int) -> KnownAccount | None:
        """Return what is known of the account of a call that may be asked ahead, else None. in_flight: calls of this
        replica, this one included."""
        plan = admitted.plan
        if not plan.asks_node or admitted.answer is not None or plan.ceiling == 0 or admitted.monotonic:
            return None  # A monotonic read needs the floor that the owner tells with the hold.
        now, second = self._clock.monotonic(), self._clock.now()
        return self._known.without_doubt(proof, plan.ceiling, now, second, in_flight, plan.method)

    async def run(
        self, proof: Proof, admitted: AdmittedCall, operation: bytes, known: KnownAccount, client: Client | None
    ) -> Replies | OtherPrices:
        """Ask the node, judge its answer, hold and charge, and only then return the answer."""
        plan, began, asked_at = admitted.plan, self._clock.monotonic(), self._clock.now()
        owner, pubkey = known.epoch, known.pubkey
        self._known.began(pubkey)
        self._asking[owner] = self._asking.get(owner, 0) + 1
        hold = HoldRequest(operation, proof, plan.items, price_list=plan.price_list)
        coming = 0
        try:
            try:
                hash_for(admitted, known.pubkey)
                answer = await self._node.call(plan.method, admitted.params, plan.timeout_ms)
            finally:
                self._known.ended(pubkey)
                coming = self._ended(owner)
        except asyncio.CancelledError:
            self._known.forget(proof)
            release = outcomes.release_of(admitted, operation, known, asked_at)
            self._cancelled.unanswered(ChargeRequest(hold, release, coming))
            raise
        ending = outcomes.judge(plan.method, plan.ceiling, answer, plan.cached_ceiling)
        try:
            evidence = evidence_at_once(admitted, operation, answer, ending.charged)
            if evidence is None:
                evidence = await evidence_of(admitted, operation, answer, ending.charged)
        except asyncio.CancelledError:
            settle = outcomes.settle_of(plan, operation, known, ending, asked_at)
            self._cancelled.charge(ChargeRequest(hold, settle), client)
            raise
        settle = outcomes.settle_of(plan, operation, known, ending, asked_at, evidence)
        found = await self._charge(ChargeRequest(hold, settle, coming), client)
        if found is None:
            reply = outcomes.not_recorded(admitted.id)
            ended = self._count_end(reply, settle, None, began)
            return Replies((ended,), None, known.figures, payer=ProvenProof(known.pubkey, known.key))
        held = found.held
        if held.refusal is not None:
            if held.refusal == OTHER_PRICES:
                return OtherPrices(msgspec.structs.replace(admitted, answer=answer), held)
            return whole(held)
        if found.settled is None:
            return outcomes.one_not_held(admitted, held)
        reply = outcomes.settled_reply(admitted.id, answer, ending, settle, found.settled, held)
        if found.settled.ok:  # The call is counted in the next turn, after its answer has left.
            asyncio.get_running_loop().call_soon(self._count_end, reply, settle, found.settled, began)
        else:
            self._count_end(reply, settle, found.settled, began)
        return Replies((reply,), None, held.figures, reply.credits_remaining, held.payer)

    def _ended(self, owner: int) -> int:
        """One call of this owner's accounts is not being asked any more. Returns how many are."""
        left = self._asking.pop(owner) - 1
        if left:
            self._asking[owner] = left
        return left

    async def _charge(self, request: ChargeRequest, client: Client | None) -> ChargeReply | None:
        """Hold and settle. None: the outcome is unknown."""
        proof = request.hold.proof
        try:
            found = await self._accounts.charge(request)
        except OwnerUnavailable:
            self._known.forget(proof)
            return None
        except asyncio.CancelledError:
            self._cancelled.charge(request, client)
            raise
        if found.settled is not None:
            self.learn(proof, found.held, request.settle.method)
            return found
        self._known.forget(proof)
        if request.settle.charged and found.held.refusal != OTHER_PRICES:  # An owner looks for an earlier charge first.
            # After a broken link the request may have arrived twice: refused now, but perhaps charged before.
            self._accounts.void(request.settle)
        return found
