"""The door for JSON-RPC calls over HTTP: POST / and POST /rpc, from a request whose body is whole to its answer.

Implements: interface, "JSON-RPC gateway"; decisions, "Two ways to pay by x402" and "batch replies"; threats 11 and 51.
The order of checks: credential and too many refusals (or the payment), JSON-RPC, then the pipeline's own order.
Without a payment nothing here awaits but the pipeline: this is the path of nearly every call.
"""

from collections.abc import Mapping

import msgspec

from actors.calls import Proof
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import answers, headers, jsonrpc
from actors.gateway.calls.admission import PLANS, Plan
from actors.gateway.calls.consistency import with_consistency
from actors.gateway.calls.cost_limits import Calls, within_limit
from actors.gateway.calls.disconnects import unless_disconnected
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.large_requests import LARGE_BYTES
from actors.gateway.calls.limited_calls import LimitedCalls
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refused_work import cost_of
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import AsgiClient, Caller, Request
from actors.gateway.payments.authentication import Authenticator
from actors.gateway.payments.x402 import refused_for_free, within

PATHS = (b"/", b"/rpc")
KEY_OF_BATCH = Refusal(Err.INVALID_REQUEST, "an Idempotency-Key belongs to one call; send a batch without it")
# The fee is part of the signed transaction, so it cannot change here; suggestPriorityFee tells what to sign.
_URGENCY_WITHOUT_EFFECT = (b"x-priority-fee-urgency", b"without effect: the transaction is signed")
_STRANGERS_BODY_MAX = 4_096  # Of a refused request, only a small body is read, to repeat its id.
# Longer bodies are read when their credential is known to be good. Until then reading costs more than refusing them:
# a batch of 100 calls takes 0.5 ms, and so do the signatures of one transaction.
_UNPROVEN_BODY_MAX = 1_024
_BATCH_CALLS_MAX = 100  # Most calls for which an unread batch counts.


class RpcDoor:
    def __init__(
        self,
        authenticator: Authenticator,
        pipeline: Pipeline,
        keyed: IdempotentCalls,
        errors: ErrorReplies,
        clock: Clock,
        limited: LimitedCalls,
        plans: Mapping[str, Plan] = PLANS,
    ) -> None:
        self._authenticator, self._pipeline, self._errors, self._clock = authenticator, pipeline, errors, clock
        self._keyed, self._limited, self._plans = keyed, limited, plans

    async def answer(self, request: Request) -> Response:
        """Answer a POST on one of PATHS. Raises ClientLeftError if the request came over ASGI."""
        client = request.client
        if request.pays and self._authenticator.takes_payments:
            read = await self._read(request, None)
            if isinstance(read, Refusal):
                return self._errors.reply(read, request)
            calls = with_consistency(within_limit(read, request.max_credits, self._plans), request.consistency)
            raw_id = None if isinstance(calls, list) else calls.id
            free = refused_for_free(calls, self._plans)
            if free is not None:  # No payment is taken for a request that costs nothing.
                wait = self._authenticator.count_refusals(free.errs(), client, cost_of(body_bytes=len(request.body)))
                return self._errors.reply(wait, request, raw_id) if wait else self._response(request, free, raw_id)
            caller = await self._authenticator.authenticate_payment(request)
            if isinstance(caller, Refusal):
                return self._errors.reply(caller, request, raw_id)
            credits = caller.credits_max or 0
            bought = within(calls if isinstance(calls, list) else [calls], credits, self._plans)
            calls = bought if isinstance(calls, list) else bought[0]
        else:
            caller = self._authenticator.authenticate(request)
            if isinstance(caller, Refusal):
                return self._errors.reply(caller, request, jsonrpc.id_of(request.body, _STRANGERS_BODY_MAX))
            size = len(request.body)
            if size <= _UNPROVEN_BODY_MAX or (size <= LARGE_BYTES and self._authenticator.knows(caller.proof)):
                calls = jsonrpc.parse(request.body)
            else:
                proof = await self._pipeline.confirm(caller.proof, client)
                if isinstance(proof, Replies):
                    # The pipeline counted the call; this counts the received bytes.
                    self._authenticator.count_refusals(proof.errs(), client, _unread_cost(request.body))
                    return self._response(request, proof, jsonrpc.id_of(request.body, _STRANGERS_BODY_MAX))
                caller, read = Caller(proof), await self._read(request, proof)
                if isinstance(read, Refusal):
                    return self._errors.reply(read, request)
                calls = read
            if request.max_credits is not None:
                limited = await self._limited.within(caller.proof, calls, request.max_credits, client)
                if isinstance(limited, Replies):
                    return self._response(request, limited, None if isinstance(calls, list) else calls.id)
                caller, calls = msgspec.structs.replace(caller, proof=limited.proof), limited.calls
            if request.consistency is not None:
                calls = with_consistency(calls, request.consistency)
        if request.key is not None and isinstance(calls, list):
            calls = jsonrpc.BadCall(jsonrpc.NO_ID, KEY_OF_BATCH)
        if isinstance(calls, list):
            raw_id, work = None, self._pipeline.batch(caller.proof, calls, client)
        elif request.key is not None:
            raw_id, work = calls.id, self._keyed.single(caller.proof, calls, request.key, client)
        else:
            raw_id, work = calls.id, self._pipeline.single(caller.proof, calls, client)
        done = await (unless_disconnected(client, work) if type(client) is AsgiClient else work)
        response = self._response(request, done, raw_id)
        if caller.headers:
            response.headers += caller.headers
        if type(calls) is jsonrpc.Call and calls.method == "sendSmartTransaction" and _names_an_urgency(calls):
            response.headers.append(_URGENCY_WITHOUT_EFFECT)
        return response

    async def _read(self, request: Request, proof: Proof | None) -> Call | BadCall | Calls | Refusal:
        """Read the body; a large one waits for its turn. proof: None if a payment comes with it."""
        if len(request.body) <= LARGE_BYTES:
            return jsonrpc.parse(request.body)

        async def read() -> Call | BadCall | Calls | Refusal:
            return self._authenticator.wait_of(proof, request.client) or jsonrpc.parse(request.body)

        large, name = self._pipeline.large, self._authenticator.name_of(proof, request.client)
        calls = await large.run(name, len(request.body), read)
        if isinstance(calls, list):  # Their prices may be needed before the pipeline admits them.
            plans = self._plans if proof is None else self._pipeline.prices.plans_of(proof)
            return await large.admitted(lambda: name, calls, plans)
        return calls

    def _response(self, request: Request, done: Replies, raw_id: bytes | None) -> Response:
        """Make the answer from these replies. raw_id: of the single call; None: the request was a batch."""
        refusal = done.refusal if raw_id is None or done.refusal is not None else done.items[0].refusal
        if refusal is not None:
            response = self._errors.reply(refusal, request, raw_id)
        elif raw_id is None:
            response = answers.batch(done.items, request.id, self._errors.deposit)
        else:
            response = answers.single(done.items[0], raw_id)
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        if done.repeated:
            response.headers.append(headers.REPEATED)
        return response


def _unread_cost(body: bytes) -> int:
    """Return the units of a received but unread body: it has at most as many calls as opening braces."""
    return max(cost_of(body_bytes=len(body)), min(_BATCH_CALLS_MAX, body.count(b"{")))


def _names_an_urgency(call: jsonrpc.Call) -> bool:
    config = call.arguments[1] if type(call.arguments) is list and len(call.arguments) > 1 else None
    return type(config) is dict and config.get("priority_fee_urgency") is not None
