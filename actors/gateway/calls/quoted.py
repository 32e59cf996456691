"""Calls whose price is found while they are answered, before anything is held: executeSnipe and executeSell.

Implements: interface, "Billing for both builders"; money rule 1; threat 34.
A shell. The price of such a call depends on the chain, so it cannot be held first. Its order is:

1. The owner proves the credential, names the account, and judges for each call whether a named key may make it, and
   whether a rate unit is left. That takes a nonce and nothing else. A call that is refused here is not worked on.
2. The handler answers the call and names its price. A refusal or a failure ends the call here, for free.
3. The exact price is held, as for every call: rate, slots and credits are judged now.
4. The charge is posted, and then the answer leaves.

So the price that is held is the price that is charged, and nothing that can fail comes between the hold and the charge.
The handler's work is unpaid until step 3, and limited for that reason: a payer without the smallest price or without a
rate unit gets no quote; it gets at most as many quotes in a second as it may make calls, and QUOTES_AT_ONCE_MAX at
once. The account itself is one payer, and each of its named keys another, so that no key uses up the quotes of the
account; all its keys together have QUOTES_AT_ONCE_MAX too, and each of them half. Each replica counts for itself. Of
one batch QUOTES_PER_BATCH run at once, and the others wait for them. A refused call takes no rate unit, but for one: a
call that was priced and is not paid, because the payer has too few credits, because X-Max-Credits or the payment allows
less, or because only its price was asked for (POST /quote). Otherwise such a caller could have quotes for nothing, for
ever, from every replica at once.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import msgspec

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import PUBLIC_PRICES, Figures, HoldItem, HoldReply, HoldRequest, Proof, ProvenProof
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import outcomes
from actors.gateway.calls.account_prices import AccountPrices
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.outcomes import Reply
from actors.upstream.account_view import AccountView, under
from actors.upstream.replies import NodeAnswer, QuotedAnswer, QuoteHandler

QUOTES_AT_ONCE_MAX = 64  # Quotes of one account; as many as it may have calls in flight by default.
_OF_KEY_AT_ONCE_MAX = QUOTES_AT_ONCE_MAX // 2
QUOTES_PER_BATCH = 16
_PAYERS_MAX = 20_000  # Payers with quotes in one second; beyond this number, new ones wait for the next second.

# A call with its price and answer, or the free end of a call.
QuotedEnd = AdmittedCall | NodeAnswer | Refusal


class QuotedCalls:
    """handlers: by method. take_operations: takes this many operations, and returns the first one."""

    def __init__(
        self,
        accounts: AccountsClient,
        handlers: Mapping[str, QuoteHandler],
        clock: Clock,
        take_operations: Callable[[int], bytes],
        prices: AccountPrices,
    ) -> None:
        self._accounts, self._handlers, self._clock = accounts, handlers, clock
        self._take_operations, self._prices = take_operations, prices
        self._second = 0
        self._in_second: dict[ProvenProof, int] = {}
        self._at_once: Counter[ProvenProof | bytes] = Counter()  # By payer; and by account, for all its named keys.

    async def price(self, proof: Proof, verdicts: Sequence[QuotedEnd]) -> tuple[HoldReply, Sequence[QuotedEnd]]:
        """Prove the credential, then answer and price the quoted calls of one payer, at the same time.

        Returns the owner's reply, and the verdicts with the ends of the quoted calls; if the owner refuses the request,
        nothing was asked. Raises OwnerUnavailable.
        """
        quoted = [end for end in verdicts if is_quoted(end)]
        items = tuple(map(judged_item, quoted))
        reads_view = any(call.monotonic for call in quoted)
        operation = self._take_operations(max(1, len(items)))
        held = await self._accounts.hold(HoldRequest(operation, proof, items, reads_view=reads_view))
        if held.refusal is not None:
            return held, verdicts
        verdicts = self._by_list(proof, held, verdicts)
        quoted = [end for end in verdicts if is_quoted(end)]
        places = asyncio.Semaphore(QUOTES_PER_BATCH)

        async def end_of(call: AdmittedCall, verdict: str | None) -> QuotedEnd:
            async with places:
                return await self.one(call, held, verdict)

        ends = iter(await asyncio.gather(*map(end_of, quoted, held.verdicts)))
        return held, [next(ends) if is_quoted(end) else end for end in verdicts]

    def _by_list(self, proof: Proof, held: HoldReply, verdicts: Sequence[QuotedEnd]) -> Sequence[QuotedEnd]:
        """The calls at the prices of the list that the owner has just told, those with a fixed price too: they are held
        together."""
        if held.price_list or self._prices.told.names:
            self._prices.told.learn(proof, held.price_list)
        return [self._prices.told_by(held, end) if isinstance(end, AdmittedCall) else end for end in verdicts]

    async def one(self, call: AdmittedCall, held: HoldReply, verdict: str | None) -> QuotedEnd:
        """Answer and price one call. held: the reply by which the owner has proven the credential. verdict: of it, on
        the item that `judged_item` made of the call."""
        assert held.figures is not None
        refusal = self._limited(call, held.payer, held.figures, verdict)
        if refusal is not None:
            return refusal
        names = [name for name, _ in _at_once_of(held.payer)]
        self._at_once.update(names)
        try:
            # The answer names no slot, so it does not raise the floor.
            view = AccountView(held.view) if call.monotonic else None
            asked = call.params, held.pubkey, call.plan.timeout_ms
            if call.plan.public is None:
                answer = await under(view, self._handlers[call.plan.method], *asked)
            else:
                prices = self._prices.list_of(call.plan.price_list or PUBLIC_PRICES)
                answer = await under(view, self._handlers[call.plan.method], *asked, prices)
        finally:
            self._at_once.subtract(names)
            for name in names:
                if not self._at_once[name]:
                    del self._at_once[name]
        if isinstance(answer, QuotedAnswer):
            priced = _priced(call, answer)
            if isinstance(priced, Refusal):
                await self.count_unpaid(held.payer, (call.plan.method,))
            return priced
        return answer if isinstance(answer, Refusal) else outcomes.refusal_of(answer) or answer

    async def count_unpaid_of(self, proven: Proof, calls: Sequence[AdmittedCall], items: Sequence[Reply]) -> None:
        """Count the calls that were answered and priced, and then refused for lack of credits."""
        pairs = zip(calls, items, strict=True)
        unpaid = [call.plan.method for call, item in pairs if is_unpaid_quote(call, item.refusal)]
        if unpaid and isinstance(proven, ProvenProof):
            await self.count_unpaid(proven, unpaid)

    async def count_unpaid(self, payer: ProvenProof, methods: Sequence[str]) -> Figures | None:
        """Take a rate unit for each unpaid quote, and return the figures afterwards."""
        items = tuple(HoldItem(method, 0) for method in methods)
        with contextlib.suppress(OwnerUnavailable):  # An unavailable owner admits no other quote either.
            counted = await self._accounts.hold(HoldRequest(self._take_operations(len(items)), payer, items))
            return counted.figures
        return None

    def _limited(self, call: AdmittedCall, payer: ProvenProof, figures: Figures, verdict: str | None) -> Refusal | None:
        """Count a quote, or refuse it. plan.ceiling is the smallest price of the method."""
        if verdict is not None:
            return outcomes.not_held(verdict, call.plan.ceiling, figures.credits_remaining)
        now = self._clock.now()
        if now != self._second:
            self._second, self._in_second = now, {}
        used = self._in_second.get(payer, 0)
        is_full = not used and len(self._in_second) >= _PAYERS_MAX
        if figures.rate_remaining < 1 or used >= figures.rate_limit or is_full:
            return Refusal(Err.RATE_LIMITED)
        if any(self._at_once[name] >= most for name, most in _at_once_of(payer)):
            return Refusal(Err.CONCURRENCY_LIMITED)
        if figures.credits_remaining < call.plan.ceiling:
            if payer.key:
                return Refusal(Err.KEY_BUDGET_EXCEEDED)
            return Refusal(Err.INSUFFICIENT_CREDITS, credits=(call.plan.ceiling, figures.credits_remaining))
        self._in_second[payer] = used + 1
        return None


def _at_once_of(payer: ProvenProof) -> Sequence[tuple[ProvenProof | bytes, int]]:
    """Return the names under which this payer's quotes count, with the most at once of each."""
    if not payer.key:
        return [(payer, QUOTES_AT_ONCE_MAX)]
    return [(payer, _OF_KEY_AT_ONCE_MAX), (payer.pubkey, QUOTES_AT_ONCE_MAX)]


def is_quoted(end: QuotedEnd) -> TypeGuard[AdmittedCall]:
    """Return whether this call waits for its price."""
    return isinstance(end, AdmittedCall) and end.plan.quoted


def judged_item(call: AdmittedCall) -> HoldItem:
    """Return the item of a hold with which the owner judges a call without a price."""
    return HoldItem(call.plan.method, 0, takes_unit=False)


def is_unpaid_quote(call: AdmittedCall, refusal: Refusal | None) -> bool:
    """Return whether this call was answered and priced, and then refused for lack of credits."""
    lacks = (Err.INSUFFICIENT_CREDITS, Err.KEY_BUDGET_EXCEEDED, Err.HOURLY_LIMIT_EXCEEDED)
    return call.answer is not None and refusal is not None and refusal.err in lacks


def _priced(call: AdmittedCall, answer: QuotedAnswer) -> AdmittedCall | Refusal:
    if call.credits_max is not None and answer.credits > call.credits_max:
        return Refusal(Err.INSUFFICIENT_CREDITS, credits=(answer.credits, call.credits_max))
    if call.cost_max is not None and answer.credits > call.cost_max:
        return Refusal(Err.MAX_CREDITS_EXCEEDED, f"{answer.credits} credits, and {call.cost_max} are allowed")
    plan = msgspec.structs.replace(
        call.plan, ceiling=answer.credits, items=(HoldItem(call.plan.method, answer.credits),), quoted=False
    )
    return msgspec.structs.replace(call, plan=plan, answer=answer)
