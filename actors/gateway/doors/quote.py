"""The door for quotes: POST /quote tells the price of JSON-RPC calls before they are made.

Implements: COSTS.md. A quote is free: it holds nothing, and asks the node about builders alone. Everybody may ask,
within the limit of his address. A large body is read and checked in turns and slices, as at the other doors, but in a
line of its own: strangers' quotes must hold up no call that is paid for. What happens when that line is full: 503.
The price of a builder (executeSnipe, executeSell) depends on the chain, and its
handler works for accounts alone: so such a call needs a credential, and takes a rate unit (calls/quoted.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from actors.accounts.api import OwnerUnavailable
from actors.calls import PUBLIC_PRICES, Figures, Proof
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import headers, jsonrpc, replies
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.consistency import MALFORMED, is_malformed
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.large_requests import LARGE_BYTES, LargeRequests
from actors.gateway.calls.outcomes import Replies, whole
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.gateway.calls.quoted import QuotedEnd, is_quoted
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import Request
from actors.gateway.pages.callers import OWNER_GONE
from actors.gateway.payments.authentication import Authenticator
from actors.upstream.replies import NodeAnswer

PATH = b"/quote"
_FOR_ACCOUNTS = Refusal(
    Err.PAYMENT_REQUIRED, "the price of this method is found by asking the node, which is done for accounts alone"
)
_WAITING_BYTES_MAX, _ADDRESS_WAITING_BYTES_MAX = 16 << 20, 2 << 20  # 64 and 8 bodies of the largest size.
_OF_NOW = "the price at this moment: it follows the curve and the price of SOL, and X-Max-Credits limits it"


class _Price(NamedTuple):
    """Price of one call. reason: why it is not exact; empty if it is. error: JSON, instead of a price."""

    credits: int
    reason: str = ""
    error: bytes = b""


class _Asker(NamedTuple):
    """Who asks for a price. proof None: an unproven caller."""

    proof: Proof | None = None
    price_list: str = PUBLIC_PRICES
    figures: Figures | None = None


_NOBODY = _Asker()


class QuoteDoor:
    def __init__(
        self,
        authenticator: Authenticator,
        pipeline: Pipeline,
        errors: ErrorReplies,
        clock: Clock,
        callers: ProvenCallers,
    ) -> None:
        self._authenticator, self._pipeline, self._errors, self._clock = authenticator, pipeline, errors, clock
        self._prices = pipeline.prices
        self._callers = callers
        self._large = LargeRequests(_WAITING_BYTES_MAX, _ADDRESS_WAITING_BYTES_MAX)

    async def answer(self, request: Request) -> Response:
        """Answer a POST on PATH."""
        if is_malformed(request.consistency):
            return self._errors.reply(MALFORMED, request)  # Refused as the call itself would be; its price is the same.
        parsed = await self._parsed(request)
        if isinstance(parsed, Refusal):
            return self._errors.reply(parsed, request)
        if isinstance(parsed, BadCall) and parsed.refusal.err is Err.INVALID_REQUEST:
            return self._errors.reply(parsed.refusal, request)
        calls = parsed if isinstance(parsed, list) else [parsed]
        asker = await self._asker(request)
        if isinstance(asker, Refusal):
            return self._errors.reply(asker, request)
        plans = self._prices.plans_by(asker.price_list)
        checked = await self._large.admitted(lambda: self._name_of(request), calls, plans)
        if isinstance(checked, Refusal):
            return self._errors.reply(checked, request)
        ends: Sequence[QuotedEnd] = [end.refusal if isinstance(end, BadCall) else end for end in checked]
        figures = asker.figures
        if any(map(is_quoted, ends)):
            built = await self._built(request, ends, asker.proof)
            if isinstance(built, Refusal):
                return self._errors.reply(built, request)
            figures, ends = built
        prices = [self._price(end, request.id) for end in ends]
        items = b",".join(_item(call, price) for call, price in zip(calls, prices, strict=True))
        is_exact = not any(price.reason for price in prices)
        total = sum(price.credits for price in prices)
        body = b'{"credits":%d,"exact":%b,"calls":[%b]}' % (total, b"true" if is_exact else b"false", items)
        response = Response(200, body, [])
        if figures is not None:
            headers.add_figures(response.headers, figures, figures.credits_remaining, self._clock.now())
        return response

    async def _parsed(self, request: Request) -> Call | BadCall | list[Call | BadCall] | Refusal:
        if len(request.body) <= LARGE_BYTES:
            return jsonrpc.parse(request.body)

        async def read() -> Call | BadCall | list[Call | BadCall]:
            return jsonrpc.parse(request.body)

        return await self._large.run(self._name_of(request), len(request.body), read)

    def _name_of(self, request: Request) -> bytes | str:
        return self._authenticator.name_of(None, request.client)

    async def _asker(self, request: Request) -> _Asker | Refusal:
        """Have the owner tell the caller's price list, if there are lists and a credential is presented."""
        if not self._prices.are_listed:
            return _NOBODY
        caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            return caller if caller.err is not Err.PAYMENT_REQUIRED else _NOBODY
        held = await self._callers.proven(caller.proof, request.client)
        if isinstance(held, Replies):
            return held.refusal or OWNER_GONE
        return _Asker(held.payer, held.price_list, held.figures)

    async def _built(
        self, request: Request, ends: Sequence[QuotedEnd], proof: Proof | None
    ) -> tuple[Figures | None, Sequence[QuotedEnd]] | Refusal:
        """Have the builders priced for the caller; without a credential they stay without a price. proof: of the
        caller, where it was proven before."""
        if proof is None:
            caller = self._authenticator.authenticate(request)
            if isinstance(caller, Refusal):
                return caller if caller.err is not Err.PAYMENT_REQUIRED else (None, ends)
            proof = caller.proof
        try:
            held, priced = await self._pipeline.quoted.price(proof, ends)
        except OwnerUnavailable:
            return OWNER_GONE
        if held.refusal is not None:
            refused = self._pipeline.counted(proof, request.client, whole(held)).refusal
            assert refused is not None
            return refused
        built = [end.plan.method for end in priced if isinstance(end, AdmittedCall) and end.answer is not None]
        after = await self._pipeline.quoted.count_unpaid(held.payer, built) if built else None
        return after or held.figures, priced

    def _price(self, end: QuotedEnd, request_id: str) -> _Price:
        if isinstance(end, Refusal):
            return _Price(0, error=orjson.dumps(replies.error_value(end, request_id, {})))
        if isinstance(end, NodeAnswer):  # The builder's call would end in this way, for free.
            return _Price(0, error=end.value())
        if end.plan.quoted:
            error = replies.error_value(_FOR_ACCOUNTS, request_id, self._errors.deposit)
            return _Price(0, _FOR_ACCOUNTS.detail, orjson.dumps(error))
        if end.answer is not None:
            return _Price(end.plan.ceiling, _OF_NOW)
        if end.plan.deferred and end.plan.ceiling != end.plan.base:
            return _Price(end.plan.ceiling, f"{end.plan.ceiling} credits if it lands, else {end.plan.base}")
        if end.plan.cached_ceiling:
            cached = f"{end.plan.cached_ceiling} credits if the cache has the answer, else {end.plan.ceiling}"
            return _Price(end.plan.ceiling, cached)
        return _Price(end.plan.ceiling)


def _item(call: Call | BadCall, price: _Price) -> bytes:
    if price.error:
        return b'{"id":%b,"error":%b}' % (call.id, price.error)
    assert isinstance(call, Call), call
    reason = b',"reason":' + orjson.dumps(price.reason) if price.reason else b""
    exact = b"false" if price.reason else b"true"
    name = orjson.dumps(call.method)
    return b'{"id":%b,"method":%b,"credits":%d,"exact":%b%b}' % (call.id, name, price.credits, exact, reason)
