"""Runs one billed call, or one batch of them, from a proof to a reply, for every door.

Implements: design, "One billed call"; money rules 1, 2, 8 and 9; threats 11, 17, 35 and 36.
A shell: admission.py refuses and prices calls, the account's owner grants holds, outcomes.py judges answers.

Two promises are kept here and nowhere else. A node's answer leaves only when the ledger has its charge: if that stays
unknown, the answer is withheld, the caller gets 503, and the charge is voided. And every hold that this replica was
granted is ended by it, whatever happens to the client: the calls of a cancelled request end by the rules of
cancelled_requests.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import (
    REPLICA_ID_BYTES,
    Figures,
    HoldItem,
    HoldReply,
    HoldRequest,
    Outcome,
    Proof,
    ProvenProof,
    SettleReply,
    SettleRequest,
    WalletProof,
    lasting_prefix,
    operation_at,
)
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import outcomes
from actors.gateway.calls.admission import PLANS, AdmittedCall, Plan
from actors.gateway.calls.asked_ahead import AskedAhead
from actors.gateway.calls.batches import BatchRun, Granted
from actors.gateway.calls.call_notes import CallNotes
from actors.gateway.calls.cancelled_requests import CancelledRequests
from actors.gateway.calls.evidence import evidence_of, hash_for
from actors.gateway.calls.free_work import FreeWork, Reads
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.large_requests import AnyCall, LargeRequests, admitted, cost_of_work
from actors.gateway.calls.outcomes import Replies, Reply, ended, not_held, release_of, whole
from actors.gateway.calls.quoted import QuotedCalls, QuotedEnd, is_quoted
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.gateway.calls.requests import Client
from actors.gateway.calls.unproven_calls import SHARE, UnprovenCalls
from actors.telemetry.metrics import Metrics
from actors.upstream.account_view import AccountView, under
from actors.upstream.replies import CallerHandler, DeferredAnswer, Node, NodeAnswer, QuoteHandler

_RELEASED = int(Outcome.RELEASED)
_SHED = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many calls in flight here")
_OWNER_GONE = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")


class Pipeline:
    """Belongs to one event loop. replica_id: random bytes of this process, which make its operation ids unique.

    limits: counts every refusal and remembers good credentials; payments/authentication.py asks it which callers have
    to wait. client: of a request; None where a cancelled request always means that its client left.
    """

    def __init__(
        self,
        accounts: AccountsClient,
        node: Node,
        clock: Clock,
        replica_id: bytes,
        in_flight_max: int,
        limits: RefusalLimits,
        metrics: Metrics | None = None,
        plans: Mapping[str, Plan] = PLANS,
        callers: Mapping[str, CallerHandler] | None = None,
        quotes: Mapping[str, QuoteHandler] | None = None,
        notes: CallNotes | None = None,
        free_work: FreeWork | None = None,
    ) -> None:
        assert len(replica_id) == REPLICA_ID_BYTES, len(replica_id)
        self._accounts, self._node, self._clock, self._limits = accounts, node, clock, limits
        self._replica_id = replica_id
        self._deferred_prefix = lasting_prefix(replica_id)  # For holds that another process ends.
        self.plans, self._callers = plans, callers or {}
        self.quoted = QuotedCalls(accounts, quotes or {}, clock, self._take_operations)
        self._operations, self._messages = 0, 0  # Messages to owners, to know an account's newest figures.
        self._in_flight, self._in_flight_max = 0, in_flight_max
        self._unproven = UnprovenCalls(in_flight_max // SHARE, limits)
        self.large, self._reads = LargeRequests(), Reads(node, clock, free_work)
        self._metrics, self.notes = metrics or Metrics(), notes or CallNotes(None, clock)
        self._cancelled = CancelledRequests(accounts, clock, self._metrics)
        self._ahead = AskedAhead(accounts, node, clock, self._cancelled, self._ended)

    async def single(self, proof: Proof, call: AnyCall, client: Client | None = None) -> Replies:
        """Run a single call. A refusal of the call is in items[0]; a refusal of the request, as AUTH_FAILED, is not.

        call: already admitted where a door has work with a price of its own, which the catalog does not know.
        """
        began, end = self._clock.monotonic(), admitted(call, self.plans)
        if isinstance(end, BadCall):
            return await self.refuse(proof, end, client)
        if end.plan.quoted and end.answer is None:
            return await self.batch(proof, [end], client)
        done = await self.limited(proof, client, 1, lambda: self._single(proof, end, client))
        return self.notes.noted(done, (end,), began)

    async def refuse(self, proof: Proof, call: BadCall, client: Client | None, cost: int = 0) -> Replies:
        """Refuse one call, and count it. cost: of the work on it (calls/refused_work.py). As `single` does."""
        work = self.limited(proof, client, 1, lambda: self._refuse(proof, [Reply(call.id, None, call.refusal)]))
        done = await self.notes.noting(work, (call,))
        return self.counted(proof, client, done, (BadCall(call.id, call.refusal, max(cost, call.cost)),))

    async def _single(self, proof: Proof, admitted: AdmittedCall, client: Client | None) -> Replies:
        operation = self._take_operations(1, admitted.plan.deferred)
        known = self._ahead.known(proof, admitted)
        if known is not None:
            done = await self._ahead.run(proof, admitted, operation, known, client)
            return self.counted(proof, client, done, (admitted,))
        held_at = self._clock.now()
        held = await self._hold(HoldRequest(operation, proof, admitted.plan.items, reads_view=admitted.monotonic))
        if held.refusal is not None:
            return self.counted(proof, client, whole(held), (admitted,))
        if held.verdicts[0] is not None:
            return self.counted(proof, client, outcomes.one_not_held(admitted, held), (admitted,))
        self._limits.confirmed(proof, held)
        self._ahead.learn(proof, held)
        reply = await self._carry_out(admitted, operation, held, held_at, client)
        return Replies((reply,), None, held.figures, reply.credits_remaining, held.payer)

    async def batch(self, proof: Proof, calls: Sequence[AnyCall], client: Client | None = None) -> Replies:
        """Run all calls under one hold and at the same time, each with its own verdict and charge; replies in order."""
        began = self._clock.monotonic()
        ends = await self.large.admitted(lambda: self._limits.name_of(proof, client), calls, self.plans)
        if isinstance(ends, Refusal):
            return Replies((), ends, None)
        verdicts = [end if isinstance(end, AdmittedCall) else end.refusal for end in ends]
        count = max(1, sum(isinstance(verdict, AdmittedCall) for verdict in verdicts))
        done = await self.limited(proof, client, count, lambda: self._run(proof, ends, verdicts, client))
        return self.notes.noted(self.counted(proof, client, done, ends), ends, began)

    async def confirm(self, proof: Proof, client: Client | None) -> Proof | Replies:
        """Have the owner confirm a credential that is new here, before a large request is read. Replies: a refusal."""
        if self._limits.knows(proof):
            return proof
        done = await self.limited(proof, client, 1, lambda: self._refuse(proof, []))
        if done.refusal is not None:
            return self.counted(proof, client, done)
        if done.figures is None:
            return Replies((), _OWNER_GONE, None)
        self._limits.confirmed(proof)
        # The nonce of a signature is used by now.
        return ProvenProof(proof.pubkey) if isinstance(proof, WalletProof) else proof

    async def limited(
        self, proof: Proof, client: Client | None, count: int, work: Callable[[], Awaitable[Replies]]
    ) -> Replies:
        """Run work on so many calls, unless too many are in flight here; those of strangers within their own share."""
        if not self._limits.knows(proof):
            place = await self._unproven.enter(proof, client, count)
            if place is None:
                self._limits.count_shed(client, count, self._clock.now())
                return Replies((), _SHED, None)
            with place:
                return await self._limited(count, work)
        return await self._limited(count, work)

    async def _limited(self, count: int, work: Callable[[], Awaitable[Replies]]) -> Replies:
        if self._in_flight + count > self._in_flight_max:
            return Replies((), _SHED, None)
        self._in_flight += count
        if self._in_flight > 1:
            self._ahead.not_alone()
        try:
            return await work()
        except OwnerUnavailable:
            return Replies((), _OWNER_GONE, None)
        finally:
            self._in_flight -= count

    def take_operation(self) -> bytes:
        """An operation of this process, for a hold that holds nothing."""
        return self._take_operations(1)

    def take_lasting_operation(self) -> bytes:
        """An operation that outlives this process: no owner ends it because this process ended."""
        return self._take_operations(1, deferred=True)

    def start_over(self, replica_id: bytes) -> None:
        """Name operations by this replica id from now on: an owner has given up the one before."""
        self._replica_id = replica_id

    def undelivered(self, replies: Sequence[Reply], client: Client | None) -> None:
        """Settle the charges of answers that a door could not give, because their request was cancelled."""
        self._cancelled.answers([one.charge for one in replies if one.charge is not None], client)

    async def drain(self) -> None:
        """Wait for the settlements of cancelled requests."""
        await self._cancelled.drain()

    # --- the steps

    async def _run(
        self, proof: Proof, calls: Sequence[AnyCall], verdicts: Sequence[QuotedEnd], client: Client | None
    ) -> Replies:
        """Run a batch: first the calls that find their own price are answered, then all that cost are held and run."""
        proven, figures, payer = proof, None, None
        if any(map(is_quoted, verdicts)):
            held, verdicts = await self.quoted.price(proof, verdicts)
            if held.refusal is not None:
                return whole(held)
            self._limits.confirmed(proof, held)
            proven, figures, payer = held.payer, held.figures, held.payer
        pairs = zip(calls, verdicts, strict=True)
        ends = [end if isinstance(end, AdmittedCall) else ended(call.id, end) for call, end in pairs]
        refused = [end for end in ends if isinstance(end, Reply)]
        if len(refused) == len(ends):
            if figures is None:
                return await self._refuse(proof, refused)
            return Replies(refused, None, figures, figures.credits_remaining, payer)
        admitted = [end for end in ends if isinstance(end, AdmittedCall)]
        done = await self._carry_out_parts(proven, admitted, client)
        if done.refusal is None:
            if figures is not None:
                await self.quoted.count_unpaid_of(proven, admitted, done.items)
            later = iter(done.items)
            done.items = [end if isinstance(end, Reply) else next(later) for end in ends]
        return done

    def counted(self, proof: Proof, client: Client | None, done: Replies, work: Sequence[AnyCall] = ()) -> Replies:
        """Count the refusals of these replies against the caller, and give the replies back. work: the calls."""
        errs = done.errs()
        if errs:
            cost = cost_of_work(work, done)
            self._limits.count(proof, client, errs, done.figures, done.credits_remaining, self._clock.now(), cost)
        return done

    async def _refuse(self, proof: Proof, refused: list[Reply]) -> Replies:
        """Refuse a request without a hold. Its credential has to be good, and the answer carries the figures."""
        try:
            held = await self._accounts.hold(HoldRequest(self._take_operations(1), proof, ()))
        except OwnerUnavailable:
            return Replies(refused, None, None)
        # A free refusal gives nothing away, so it does not need the owner.
        if held.refusal is not None and held.refusal != _OWNER_GONE.err.name:
            return whole(held)
        figures = held.figures
        left = None if figures is None else figures.credits_remaining
        return Replies(refused, None, figures, left, outcomes.payer_of(held))

    async def _hold(self, request: HoldRequest) -> HoldReply:
        try:
            return await self._accounts.hold(request)
        except asyncio.CancelledError:
            self._cancelled.hold(request)
            raise

    async def _carry_out_parts(self, proof: Proof, admitted: Sequence[AdmittedCall], client: Client | None) -> Replies:
        """First the calls whose holds end here, then those whose holds end elsewhere, each under their own prefix."""
        ours, theirs = ([one for one in admitted if one.plan.deferred is kind] for kind in (False, True))
        if not ours or not theirs:
            return await self._carry_out_all(proof, admitted, client, deferred=not ours)
        done = await self._carry_out_all(proof, ours, client)
        if done.refusal is not None:
            return done
        try:
            rest = await self._carry_out_all(done.payer or proof, theirs, client, deferred=True)
        except OwnerUnavailable:
            rest = Replies((), _OWNER_GONE, None)
        except asyncio.CancelledError:
            self._cancelled.answers([one.charge for one in done.items if one.charge is not None], client)
            raise
        later = iter(rest.items or [Reply(one.id, None, rest.refusal) for one in theirs])
        first = iter(done.items)
        items = [next(later if one.plan.deferred else first) for one in admitted]
        left = (rest if rest.figures else done).credits_remaining
        return Replies(items, None, rest.figures or done.figures, left, done.payer)

    async def _carry_out_all(
        self, proof: Proof, admitted: Sequence[AdmittedCall], client: Client | None, deferred: bool = False
    ) -> Replies:
        figures: list[tuple[int, Figures]] = []  # With the number of the hold that told them.
        reads_view = any(call.monotonic for call in admitted)

        async def hold(items: tuple[HoldItem, ...], payer: ProvenProof | None) -> Granted:
            operation, held_at = self._take_operations(len(items), deferred), self._clock.now()
            self._messages = message = self._messages + 1
            held = await self._hold(HoldRequest(operation, payer or proof, items, reads_view=reads_view))
            if held.figures is not None:
                figures.append((message, held.figures))
                self._limits.confirmed(proof, held)
            return Granted(operation, held, held_at)

        async def carry_out(item: AdmittedCall, granted: Granted, index: int) -> Reply:
            operation = operation_at(granted.operation, index)
            return await self._carry_out(item, operation, granted.held, granted.held_at, client)

        def give_up(item: AdmittedCall, granted: Granted, index: int) -> None:
            operation = operation_at(granted.operation, index)
            self._cancelled.call(release_of(item, operation, granted.held, granted.held_at))

        batch = BatchRun(admitted, hold, carry_out, give_up)
        try:
            held = await batch.run()
        except asyncio.CancelledError:
            posted = [end.charge for end in batch.results if isinstance(end, Reply) and end.charge is not None]
            self._cancelled.answers(posted, client)
            raise
        if held.refusal is not None:
            return whole(held)
        # Of the owner's figures, tell the newest.
        message, newest = max(figures, key=lambda pair: pair[0])
        left = newest.credits_remaining
        ends = [
            Reply(item.id, None, not_held(end, item.plan.ceiling, left)) if isinstance(end, str) else end
            for item, end in zip(admitted, batch.results, strict=True)
        ]
        known = [(message, left), *((end.told, end.credits_remaining) for end in ends)]
        return Replies(ends, None, newest, max(known, key=lambda pair: pair[0])[1], held.payer)

    async def _carry_out(
        self, admitted: AdmittedCall, operation: bytes, held: HoldReply, held_at: int, client: Client | None
    ) -> Reply:
        """Ask the node, judge its answer, settle, and only then let the answer go."""
        plan, began = admitted.plan, self._clock.monotonic()
        view = AccountView(held.view) if admitted.monotonic else None
        try:
            if admitted.answer is not None:
                answer = admitted.answer
            elif plan.sends:
                answer = await self._send(admitted, release_of(admitted, operation, held, held_at))
            elif plan.method in self._callers:
                answer = await self.ask(admitted, release_of(admitted, operation, held, held_at))
            else:
                hash_for(admitted)
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
            evidence = await evidence_of(admitted, operation, answer, ending.charged)
        except asyncio.CancelledError:
            self._cancelled.post(outcomes.settle_of(plan, operation, held, ending, held_at), client)
            raise
        settle = outcomes.settle_of(plan, operation, held, ending, held_at, evidence, view)
        self._messages = message = self._messages + 1
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
        return self._ended(
            outcomes.settled_reply(admitted.id, answer, ending, settle, settled, held, message), settle, settled, began
        )

    def _ended(self, reply: Reply, settle: SettleRequest, settled: SettleReply | None, began: float) -> Reply:
        """Count a call, and void it where its answer does not leave."""
        if outcomes.must_be_voided(settle, settled):
            self._accounts.void(settle)
        charged, outcome = (0, _RELEASED) if reply.charge is None else (settle.charged, settle.outcome)
        self._metrics.call_ended(settle.method, outcome, charged, self._clock.monotonic() - began)
        return reply

    async def _send(self, admitted: AdmittedCall, settle: SettleRequest) -> NodeAnswer:
        """Ask the node to send. When the client leaves, the send goes on and is settled without it."""
        plan = admitted.plan
        call = asyncio.ensure_future(self.ask(admitted, settle))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            self._cancelled.send(call, plan.ceiling, settle)
            raise _TakenOver from None

    def ask(self, admitted: AdmittedCall, release: SettleRequest) -> Coroutine[Any, Any, NodeAnswer]:
        """Ask whoever answers this method. release: the end of its hold, which a deferred call takes over."""
        method, timeout_ms = admitted.plan.method, admitted.plan.timeout_ms
        if method in self._callers:
            return self._callers[method](admitted.params, release, timeout_ms)
        return self._node.call(method, admitted.params, timeout_ms)

    def _take_operations(self, count: int, deferred: bool = False) -> bytes:
        first = self._operations
        self._operations += count
        return (self._deferred_prefix if deferred else self._replica_id) + first.to_bytes(8, "big")


class _TakenOver(Exception):
    """The client left, and a background task settles the call."""
