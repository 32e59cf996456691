"""Carries out one call that is held: asks who answers it, judges the answer, settles, and only then lets it go.

Implements: design, "One billed call", steps 4 to 6; money rules 1 and 2; threats 35 and 36.
A shell: outcomes.py judges.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import HoldReply, Outcome, SettleReply, SettleRequest
from actors.clock import Clock
from actors.gateway.calls import outcomes
from actors.gateway.calls.admission import AdmittedCall, prices_of_outcome
from actors.gateway.calls.cancelled_requests import CancelledRequests
from actors.gateway.calls.evidence import evidence_at_once, evidence_of, hash_for
from actors.gateway.calls.free_work import Reads
from actors.gateway.calls.outcomes import Reply, release_of
from actors.gateway.calls.requests import Client
from actors.telemetry.metrics import Metrics
from actors.upstream.account_view import AccountView, under
from actors.upstream.replies import CallerHandler, DeferredAnswer, Node, NodeAnswer

_RELEASED = int(Outcome.RELEASED)


class CarryingOut:
    """Belongs to one pipeline. callers: methods that must know whose call it is. messages: sent to owners so far; their
    numbers say which of two figures of an account is the newer one."""

    def __init__(
        self,
        accounts: AccountsClient,
        node: Node,
        reads: Reads,
        clock: Clock,
        callers: Mapping[str, CallerHandler],
        cancelled: CancelledRequests,
        metrics: Metrics,
    ) -> None:
        self._accounts, self._node, self._clock, self._callers = accounts, node, clock, callers
        self._reads = reads
        self._cancelled, self._metrics = cancelled, metrics
        self.messages = 0

    async def call(
        self, admitted: AdmittedCall, operation: bytes, held: HoldReply, held_at: int, client: Client | None
    ) -> Reply:
        """Ask the node, judge its answer, settle, and only then return the answer."""
        plan, began = admitted.plan, self._clock.monotonic()
        view = AccountView(held.view) if admitted.monotonic else None
        try:
            if admitted.answer is not None:
                answer = admitted.answer
            elif plan.sends:
                answer = await self._send(admitted, release_of(admitted, operation, held, held_at))
            elif plan.method in self._callers:
                answer = await self.ask(admitted, release_of(admitted, operation, held, held_at))
            elif plan.asks_node:
                hash_for(admitted, held.pubkey)
                answer = await under(view, self._node.call, plan.method, admitted.params, plan.timeout_ms)
            else:
                hash_for(admitted, held.pubkey)
                answer = await under(view, self._reads.call, plan, admitted.params, held.pubkey)
            if isinstance(answer, DeferredAnswer):
                assert held.figures is not None
                left, named = held.figures.credits_remaining, operation if answer.posted else b""
                return Reply(admitted.id, answer, None, left, posted=answer.posted, operation=named)
            ending = outcomes.judge(plan.method, plan.ceiling, answer, plan.cached_ceiling)
        except _TakenOver:
            raise asyncio.CancelledError from None
        except BaseException:
            self._cancelled.call(release_of(admitted, operation, held, held_at))
            raise
        try:
            evidence = evidence_at_once(admitted, operation, answer, ending.charged)
            if evidence is None:
                evidence = await evidence_of(admitted, operation, answer, ending.charged)
        except asyncio.CancelledError:
            self._cancelled.post(outcomes.settle_of(plan, operation, held, ending, held_at), client)
            raise
        settle = outcomes.settle_of(plan, operation, held, ending, held_at, evidence, view)
        self.messages = message = self.messages + 1
        settled: SettleReply | None
        try:
            settled = await self._accounts.settle(settle)
        except OwnerUnavailable:
            settled = None
        except asyncio.CancelledError:
            if settle.charged:
                self._cancelled.post(settle, client)
            else:
                self._cancelled.call(settle)
            raise
        return self.ended(
            outcomes.settled_reply(admitted.id, answer, ending, settle, settled, held, message), settle, settled, began
        )

    def ended(self, reply: Reply, settle: SettleRequest, settled: SettleReply | None, began: float) -> Reply:
        """Count a call, and void it where its answer does not leave."""
        if (settled is None or not settled.ok) and outcomes.must_be_voided(settle, settled):
            self._accounts.void(settle)
        charged, outcome = (0, _RELEASED) if reply.charge is None else (settle.charged, settle.outcome)
        self._metrics.call_ended(settle.method, outcome, charged, self._clock.monotonic() - began)
        return reply

    async def _send(self, admitted: AdmittedCall, settle: SettleRequest) -> NodeAnswer:
        """Ask the node to send. If the client leaves, the send continues and is settled without it."""
        plan = admitted.plan
        call = asyncio.ensure_future(self.ask(admitted, settle))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            self._cancelled.send(call, plan.ceiling, settle)
            raise _TakenOver from None

    def ask(self, admitted: AdmittedCall, release: SettleRequest) -> Coroutine[Any, Any, NodeAnswer]:
        """Ask the method's handler or the node. release: end of the hold, which a deferred call takes over."""
        method, timeout_ms = admitted.plan.method, admitted.plan.timeout_ms
        if method in self._callers:
            return self._callers[method](admitted.params, release, timeout_ms, *prices_of_outcome(admitted.plan))
        return self._node.call(method, admitted.params, timeout_ms)


class _TakenOver(Exception):
    """The client left, and a background task settles the call."""
