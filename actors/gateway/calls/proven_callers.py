"""Has the owner of an account prove a caller before a call is run, for doors that ask something of the caller first.

Implements: design, "One billed call". A shell. What is asked is free, and takes a rate unit: nobody may ask for ever.
"""

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import Figures, HoldItem, HoldReply, HoldRequest, Proof
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.outcomes import Replies, Reply, not_held, whole
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.requests import Client


class ProvenCallers:
    def __init__(self, accounts: AccountsClient, pipeline: Pipeline) -> None:
        self._accounts, self._pipeline = accounts, pipeline

    async def proven(self, proof: Proof, client: Client | None) -> HoldReply | Replies:
        """Prove a credential, and use its nonce. The reply names the account, and `payer` pays for it in the rest of
        the request. Replies: a refusal, which is counted."""
        found: list[HoldReply] = []

        async def ask() -> Replies:
            held = await self._accounts.hold(HoldRequest(self._pipeline.take_operation(), proof, ()))
            if held.refusal is not None:
                return whole(held)
            found.append(held)
            return Replies((), None, held.figures)

        done = await self._pipeline.limited(proof, client, 1, ask)
        if not found:
            return self._pipeline.counted(proof, client, done)
        return found[0]

    async def unpaid(self, call: AdmittedCall, held: HoldReply, client: Client | None) -> Figures | Replies:
        """Take a rate unit for a free answer to this call, where the account could pay for the call itself. Replies: a
        refusal, which is counted: the call would be refused too."""
        try:
            item = HoldItem(call.plan.method, 0)
            counted = await self._accounts.hold(HoldRequest(self._pipeline.take_operation(), held.payer, (item,)))
        except OwnerUnavailable:
            return Replies((), Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE), None)
        if counted.refusal is not None:
            return self._pipeline.counted(held.payer, client, whole(counted))
        assert counted.figures is not None
        left, verdict = counted.figures.credits_remaining, counted.verdicts[0]
        if verdict is None and left < call.plan.ceiling:
            verdict = (Err.KEY_BUDGET_EXCEEDED if held.key else Err.INSUFFICIENT_CREDITS).name
        if verdict is None:
            return counted.figures
        return self.refused(call, not_held(verdict, call.plan.ceiling, left), counted, client)

    def refused(self, call: AdmittedCall, refusal: Refusal, held: HoldReply, client: Client | None) -> Replies:
        """Count and return the refusal of a call whose caller is confirmed."""
        assert held.figures is not None
        replies = Replies((Reply(call.id, None, refusal),), None, held.figures, held.figures.credits_remaining)
        return self._pipeline.counted(held.payer, client, replies, (call,))
