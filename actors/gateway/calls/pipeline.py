"""Runs one billed call, or one batch of them, from a proof to a reply, for every door.

Implements: design, "One billed call"; money rules 1, 2, 8 and 9; threats 11, 17, 35 and 36.
A shell: admission.py refuses and prices calls, the account's owner grants holds, outcomes.py judges answers.

Two promises are kept here and nowhere else. A node's answer leaves only when the ledger has its charge: if that stays
unknown, the answer is withheld, the caller gets 503, and the charge is voided. And every hold that this replica was
granted is ended by it, whatever happens to the client: the calls of a cancelled request end by the rules of
cancelled_requests.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import (
    OTHER_PRICES,
    Figures,
    HoldReply,
    HoldRequest,
    Outcome,
    Proof,
    ProvenProof,
    WalletProof,
    operation_at,
)
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import outcomes
from actors.gateway.calls.account_prices import HOLDS_MAX, AccountPrices, Calls, price_list_of
from actors.gateway.calls.admission import PLANS, AdmittedCall, Plan
from actors.gateway.calls.asked_ahead import AskedAhead, OtherPrices
from actors.gateway.calls.batches import BatchRun, Granted
from actors.gateway.calls.call_notes import CallNotes
from actors.gateway.calls.cancelled_requests import CancelledRequests
from actors.gateway.calls.carrying_out import CarryingOut
from actors.gateway.calls.free_work import FreeWork, Reads
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.large_requests import AnyCall, LargeRequests, admitted, cost_of_work
from actors.gateway.calls.operation_names import OperationNames
from actors.gateway.calls.outcomes import PRICES_CHANGED, Replies, Reply, ended, not_held, release_of, whole
from actors.gateway.calls.quoted import QuotedCalls, QuotedEnd, is_quoted
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.gateway.calls.requests import Client
from actors.gateway.calls.unproven_calls import SHARE, UnprovenCalls
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import CallerHandler, Node, QuoteHandler

_RELEASED = int(Outcome.RELEASED)
_SHED = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many calls in flight here")
_OWNER_GONE = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")


class Pipeline:
    """Belongs to one event loop. replica_id: random bytes of this process, which make its operation ids unique.

    limits: counts every refusal and remembers good credentials; payments/authentication.py asks it which callers have
    to wait. client: of a request; None where a cancelled request always means that its client left. prices: of each
    account; None: all pay those of `plans`.
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
        prices: AccountPrices | None = None,
        free_work: FreeWork | None = None,
    ) -> None:
        self._accounts, self._node, self._clock, self._limits = accounts, node, clock, limits
        self._operations = OperationNames(replica_id)
        self._take_operations, self.start_over = self._operations.take, self._operations.start_over
        self.prices = prices or AccountPrices(plans=plans)
        self.plans, self._told = self.prices.plans, self.prices.told
        self.quoted = QuotedCalls(accounts, quotes or {}, clock, self._take_operations, self.prices)
        self._in_flight, self._in_flight_max = 0, in_flight_max
        self._unproven = UnprovenCalls(in_flight_max // SHARE, limits)
        self.large = LargeRequests()
        self._metrics, self.notes = metrics or Metrics(), notes or CallNotes(None, clock)
        self._cancelled = CancelledRequests(accounts, clock, self._metrics)
        reads = Reads(node, clock, free_work)
        self._carrying = CarryingOut(accounts, node, reads, clock, callers or {}, self._cancelled, self._metrics)
        self._carry_out, self.ask = self._carrying.call, self._carrying.ask
        self._ahead = AskedAhead(accounts, node, clock, self._cancelled, self._carrying.ended)

    async def single(self, proof: Proof, call: AnyCall, client: Client | None = None) -> Replies:
        """Run a single call. A refusal of the call is in items[0]; a refusal of the request, as AUTH_FAILED, is not.

        call: already admitted where a door has work with a price of its own, which the catalog does not know.
        """
        plans = self.prices.plans_for(proof, (call,)) if self._told.names else self.plans
        began, end = self._clock.monotonic(), admitted(call, plans)
        if isinstance(end, BadCall):
            return await self.refuse(proof, end, client)
        if end.plan.quoted and end.answer is None:
            return await self.batch(proof, [end], client)
        if not self._limits.knows(proof):
            done = await self.limited(proof, client, 1, lambda: self._single(proof, end, client))
        elif self._take_place():  # The path of nearly every call: each coroutine in between would cost it 0.5 µs.
            try:
                done = await self._single(proof, end, client)
            except OwnerUnavailable:
                done = Replies((), _OWNER_GONE, None)
            finally:
                self._in_flight -= 1
        else:
            done = Replies((), _SHED, None)
        return self.notes.noted(done, (end,), began)

    async def refuse(self, proof: Proof, call: BadCall, client: Client | None, cost: int = 0) -> Replies:
        """Refuse one call, and count it. cost: of the work on it (calls/refused_work.py). Returns as `single` does."""
        work = self.limited(proof, client, 1, lambda: self._refuse(proof, [Reply(call.id, None, call.refusal)]))
        done = await self.notes.noting(work, (call,))
        return self.counted(proof, client, done, (BadCall(call.id, call.refusal, max(cost, call.cost)),))

    async def _priced_anew(
        self, proof: Proof, call: AdmittedCall, held: HoldReply, client: Client | None, holds: int
    ) -> Replies:
        """Run a call by the price list that its account's owner told: no other one was held or charged."""
        made = self.prices.anew(proof, (call,), held)
        if isinstance(made, Refusal):
            reply = Reply(call.id, None, made)
            return self.counted(proof, client, Replies((reply,), None, held.figures, payer=held.payer), (call,))
        if made is None or holds >= HOLDS_MAX:
            return self.counted(proof, client, whole(held), (call,))
        return await self._single(proof, made[0], client, holds + 1)

    async def _single(self, proof: Proof, admitted: AdmittedCall, client: Client | None, holds: int = 1) -> Replies:
        if self._told.names:
            admitted = self.prices.expected(proof, admitted)
        operation, plan = self._take_operations(1, admitted.plan.deferred), admitted.plan
        prices = plan.price_list if admitted.cost_max is None else price_list_of((admitted,))
        known = self._ahead.known(proof, admitted, self._in_flight) if prices == plan.price_list else None
        if known is not None:
            done = await self._ahead.run(proof, admitted, operation, known, client)
            if isinstance(done, OtherPrices):
                return await self._priced_anew(proof, done.call, done.held, client, holds)
            return self.counted(proof, client, done, (admitted,))
        held_at = self._clock.now()
        request = HoldRequest(operation, proof, plan.items, reads_view=admitted.monotonic, price_list=prices)
        try:
            held = await self._accounts.hold(request)
        except asyncio.CancelledError:
            self._cancelled.hold(request)
            raise
        if held.refusal is not None:
            if held.refusal == OTHER_PRICES:
                return await self._priced_anew(proof, admitted, held, client, holds)
            return self.counted(proof, client, whole(held), (admitted,))
        if held.verdicts[0] is not None:
            return self.counted(proof, client, outcomes.one_not_held(admitted, held), (admitted,))
        self._limits.confirmed(proof, held)
        self._ahead.learn(proof, held, plan.method)
        reply = await self._carry_out(admitted, operation, held, held_at, client)
        return Replies((reply,), None, held.figures, reply.credits_remaining, held.payer)

    async def batch(self, proof: Proof, calls: Sequence[AnyCall], client: Client | None = None) -> Replies:
        """Run all calls under one hold and at the same time, each with its own verdict and charge; replies in order."""
        began = self._clock.monotonic()
        plans = self.prices.plans_for(proof, calls)
        ends = await self.large.admitted(lambda: self._limits.name_of(proof, client), calls, plans)
        if isinstance(ends, Refusal):
            return Replies((), ends, None)
        verdicts = [end if isinstance(end, AdmittedCall) else end.refusal for end in ends]
        count = max(1, sum(isinstance(verdict, AdmittedCall) for verdict in verdicts))
        done = await self.limited(proof, client, count, lambda: self._run(proof, ends, verdicts, client))
        return self.notes.noted(self.counted(proof, client, done, ends), ends, began)

    async def confirm(self, proof: Proof, client: Client | None) -> Proof | Replies:
        """Have the owner confirm an unknown credential before a large request is read. Replies: a refusal."""
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
        """Run work on this many calls, unless too many are in flight here; strangers have a share of their own."""
        if not self._limits.knows(proof):
            place = await self._unproven.enter(proof, client, count)
            if place is None:
                self._limits.count_shed(client, count, self._clock.now())
                return Replies((), _SHED, None)
            with place:
                return await self._limited(count, work)
        return await self._limited(count, work)

    async def _limited(self, count: int, work: Callable[[], Awaitable[Replies]]) -> Replies:
        if not self._take_place(count):
            return Replies((), _SHED, None)
        try:
            return await work()
        except OwnerUnavailable:
            return Replies((), _OWNER_GONE, None)
        finally:
            self._in_flight -= count

    def _take_place(self, count: int = 1) -> bool:
        """Whether so many calls more may be in flight; whoever is told so subtracts them at their end."""
        in_flight = self._in_flight + count
        if in_flight > self._in_flight_max:
            return False
        self._in_flight = in_flight
        return True

    def take_operation(self) -> bytes:
        """Return an operation of this process, for a request that holds nothing."""
        return self._take_operations(1)

    def take_lasting_operation(self) -> bytes:
        """Return an operation that outlives this process: no owner ends it when this process ends."""
        return self._take_operations(1, lasting=True)

    def undelivered(self, replies: Sequence[Reply], client: Client | None) -> None:
        """Settle the charges of answers that were not sent, because their request was cancelled."""
        self._cancelled.answers([one.charge for one in replies if one.charge is not None], client)

    async def drain(self) -> None:
        """Wait for the settlements of cancelled requests."""
        await self._cancelled.drain()

    async def held_one(
        self, operation: bytes, payer: ProvenProof, call: AdmittedCall
    ) -> tuple[AdmittedCall, HoldReply]:
        """Hold one call that has an operation already; returns the call at the held price too."""
        return await self.prices.held_one(self._accounts, operation, payer, call)

    # --- the steps

    async def _run(
        self, proof: Proof, calls: Sequence[AnyCall], verdicts: Sequence[QuotedEnd], client: Client | None
    ) -> Replies:
        """Run a batch: first the calls that find their own price are answered, then all that cost are held and run.
        Prices that were found by a list which the account has no more are found once more."""
        for _ in range(HOLDS_MAX):
            done = await self._run_once(proof, calls, verdicts, client)
            if done.refusal is not PRICES_CHANGED or not any(map(is_quoted, verdicts)):
                break
            if isinstance(proof, WalletProof):  # Its nonce was used before the prices were asked for.
                proof = ProvenProof(proof.pubkey)
        return done

    async def _run_once(
        self, proof: Proof, calls: Sequence[AnyCall], verdicts: Sequence[QuotedEnd], client: Client | None
    ) -> Replies:
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
        """Count the refusals of these replies against the caller, and return the replies. work: the calls."""
        errs = done.errs()
        if errs:
            cost = cost_of_work(work, done)
            self._limits.count(proof, client, errs, done.figures, done.credits_remaining, self._clock.now(), cost)
        return done

    async def _refuse(self, proof: Proof, refused: list[Reply]) -> Replies:
        """Refuse a request without a hold. Its credential must be valid, and the answer carries the figures."""
        try:
            held = await self._accounts.hold(HoldRequest(self._take_operations(1), proof, ()))
        except OwnerUnavailable:
            return Replies(refused, None, None)
        # A free refusal reveals nothing, so it does not need the owner.
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

        async def hold(calls: Calls, payer: ProvenProof | None) -> Granted:
            operation, held_at, payer_proof = b"", 0, payer or proof

            async def ask(calls: Calls) -> HoldReply:
                nonlocal operation, held_at
                operation, held_at = self._take_operations(len(calls), deferred), self._clock.now()
                self._carrying.messages = message = self._carrying.messages + 1
                items, prices = tuple(call.plan.items[0] for call in calls), price_list_of(calls)
                held = await self._hold(
                    HoldRequest(operation, payer_proof, items, reads_view=reads_view, price_list=prices)
                )
                if held.figures is not None:
                    figures.append((message, held.figures))
                    self._limits.confirmed(proof, held)
                return held

            calls, held = await self.prices.held(payer_proof, calls, ask)
            return Granted(operation, held, held_at, calls)

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
        # Report the newest of the owner's figures.
        message, newest = max(figures, key=lambda pair: pair[0])
        left = newest.credits_remaining
        ends = [
            Reply(item.id, None, not_held(end, item.plan.ceiling, left)) if isinstance(end, str) else end
            for item, end in zip(batch.calls, batch.results, strict=True)
        ]
        known = [(message, left), *((end.told, end.credits_remaining) for end in ends)]
        return Replies(ends, None, newest, max(known, key=lambda pair: pair[0])[1], held.payer)
