"""The door for bulk lists: credentials, headers, errors and 402 as for JSON-RPC, and one answer for a list.

Implements: interface, "Bulk endpoints"; decisions, "bulk list length" and shapes of the bulk replies.
A list is checked entry by entry, and every refusal of its form is free. The pipeline runs it under one hold. An entry
that occurs twice is looked up, answered and charged once.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import orjson

from actors.calls import HoldItem
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import headers, jsonrpc
from actors.gateway.calls.admission import AdmittedCall, Plan
from actors.gateway.calls.answers import served_by
from actors.gateway.calls.consistency import one_monotonic, parse_consistency
from actors.gateway.calls.cost_limits import one_within_limit
from actors.gateway.calls.disconnects import unless_disconnected
from actors.gateway.calls.limited_calls import LimitedCalls
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refused_work import cost_of
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import AsgiClient, Request
from actors.gateway.payments.authentication import Authenticator
from actors.gateway.payments.x402 import within
from actors.methods import prices
from actors.methods import values as params_values
from actors.methods.accounts import BulkQuestion
from actors.methods.entries import encoded
from actors.methods.prices import BulkRow

ROWS: MappingProxyType[bytes, BulkRow] = MappingProxyType({b"/" + row.name.encode(): row for row in prices.BULK})

_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "address": params_values.pubkey,
    "owner": params_values.pubkey,
    "signature": params_values.signature,
}


class BulkDoor:
    def __init__(
        self,
        authenticator: Authenticator,
        pipeline: Pipeline,
        errors: ErrorReplies,
        clock: Clock,
        limited: LimitedCalls,
    ) -> None:
        self._authenticator, self._pipeline, self._errors, self._clock = authenticator, pipeline, errors, clock
        self._limited = limited

    async def answer(self, request: Request) -> Response:
        """Answer a POST on one of ROWS. Raises ClientLeftError."""
        client, row = request.client, ROWS[request.path]
        assert type(client) is AsgiClient
        pays = request.pays and self._authenticator.takes_payments
        if pays and isinstance(
            one_within_limit(_admit(request, row), request.max_credits), AdmittedCall
        ):  # Otherwise the list costs nothing.
            caller = await self._authenticator.authenticate_payment(request)
        else:
            caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            return self._errors.reply(caller, request)
        proof, call = caller.proof, _admit(request, row)
        if caller.credits_max is not None:
            (call,) = within([one_within_limit(call, request.max_credits)], caller.credits_max)
        else:
            limited = await self._limited.one(proof, call, client, request.max_credits)
            if isinstance(limited, Replies):
                return self._refused(request, limited)
            proof, call = limited.proof, limited.calls
        done = await unless_disconnected(client, self._pipeline.single(proof, call, client))
        if done.refusal is not None or done.items[0].refusal is not None:
            response = self._refused(request, done)
        else:
            answer, charge = done.items[0].answer, done.items[0].charge
            assert answer is not None
            response = Response(200, answer.value(), served_by((answer,)), () if charge is None else (charge,))
            response.is_free = charge is None
            if done.figures is not None:
                headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        response.headers += caller.headers
        return response

    def _refused(self, request: Request, done: Replies) -> Response:
        refusal = done.refusal or done.items[0].refusal
        assert refusal is not None
        response = self._errors.reply(refusal, request)
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        return response


def _admit(request: Request, row: BulkRow) -> AdmittedCall | jsonrpc.BadCall:
    """Admit the list; one refused for free becomes a bad call, so that it proves its credential all the same."""
    admitted = admit(request.body, row)
    if isinstance(admitted, Refusal):
        cost = cost_of(body_bytes=len(request.body), brackets=jsonrpc.brackets_of(request.body))
        return jsonrpc.BadCall(jsonrpc.NO_ID, admitted, cost, row.name)
    if request.consistency is None:
        return admitted
    wanted = parse_consistency(request.consistency)
    if isinstance(wanted, Refusal):
        return jsonrpc.BadCall(jsonrpc.NO_ID, wanted, cost_of(body_bytes=len(request.body)), row.name)
    return one_monotonic(admitted) if wanted else admitted


def admit(body: bytes, row: BulkRow) -> AdmittedCall | Refusal:
    """Check the list. INVALID_REQUEST: with the index of the first bad entry."""
    asked = _asked(body, row)
    if isinstance(asked, Refusal):
        return asked
    pieces = len(asked.items)
    ceiling = row.credits_per_item * pieces
    plan = Plan(row.name, ceiling, row.timeout_ms, (HoldItem(row.name, ceiling),), sends=False, pieces=pieces)
    return AdmittedCall(jsonrpc.NO_ID, plan, encoded(asked))


def _asked(body: bytes, row: BulkRow) -> BulkQuestion | Refusal:
    """Return the list without repetitions, each entry where it occurs first, and the commitment."""
    if jsonrpc.is_intricate(body):
        return jsonrpc.INTRICATE
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _refused("the body is not valid JSON in UTF-8")
    # Other names are refused: an ignored option would be charged, and a second list would be ambiguous.
    if (
        type(value) is not dict
        or not value.keys() <= {row.items, "commitment"}
        or type(value.get(row.items)) is not list
    ):
        return _refused(f'the body must be {{"{row.items}": [...]}}, with an optional "commitment"')
    commitment = value.get("commitment", row.commitments[0])
    if commitment not in row.commitments:
        return _refused(f"commitment: {params_values.shown(commitment)} is none of {', '.join(row.commitments)}")
    listed = value[row.items]
    if not 1 <= len(listed) <= row.items_max:
        return _refused(f"{row.items}: {len(listed)} entries, 1 to {row.items_max} are allowed")
    for index, item in enumerate(listed):
        try:
            _CHECKS[row.item](item, f"{row.items}[{index}]")
        except params_values.InvalidError as fault:
            return _refused(str(fault))
    if body.count(b":") != len(value):  # Entries and commitments have no colons, so each colon follows a name.
        return _refused("a name occurs twice")
    return BulkQuestion(tuple(dict.fromkeys(listed)), commitment)


def _refused(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
