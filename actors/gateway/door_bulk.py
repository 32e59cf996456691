"""The door for bulk lists: credentials, headers, errors and 402 as for JSON-RPC, and one answer for a list.

Implements: interface specification, "Bulk endpoints"; decisions, shapes of the bulk replies.
A shell. The form of a list is bulk_requests.py's; holding, asking and settling are the pipeline's, under one hold for
the whole list.
"""

from actors.clock import Clock
from actors.errors import Refusal
from actors.gateway import bulk_requests, headers, jsonrpc
from actors.gateway.admission import AdmittedCall
from actors.gateway.answers import served_by
from actors.gateway.authentication import Authenticator
from actors.gateway.disconnects import unless_disconnected
from actors.gateway.paid_requests import within
from actors.gateway.pipeline import Pipeline
from actors.gateway.replies import ErrorReplies, Response
from actors.gateway.requests import AsgiClient, Request


class BulkDoor:
    def __init__(self, authenticator: Authenticator, pipeline: Pipeline, errors: ErrorReplies, clock: Clock) -> None:
        self._authenticator, self._pipeline, self._errors, self._clock = authenticator, pipeline, errors, clock

    async def answer(self, request: Request) -> Response:
        """Answer a POST on one of bulk_requests.ROWS. Raises ClientLeftError."""
        client, row = request.client, bulk_requests.ROWS[request.path]
        assert type(client) is AsgiClient
        pays = request.pays and self._authenticator.takes_payments
        if pays and isinstance(bulk_requests.admit(request.body, row), AdmittedCall):  # Else the list costs nothing.
            caller = await self._authenticator.authenticate_payment(request)
        else:
            caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            return self._errors.reply(caller, request)
        admitted = bulk_requests.admit(request.body, row)
        # A list that is refused for free proves its credential all the same, as a call does.
        call = jsonrpc.BadCall(jsonrpc.NO_ID, admitted) if isinstance(admitted, Refusal) else admitted
        if caller.credits_max is not None:
            (call,) = within([call], caller.credits_max)
        done = await unless_disconnected(client, self._pipeline.single(caller.proof, call, client))
        refusal = done.refusal or done.items[0].refusal
        if refusal is not None:
            response = self._errors.reply(refusal, request)
        else:
            answer, charge = done.items[0].answer, done.items[0].charge
            assert answer is not None
            response = Response(200, answer.value(), served_by((answer,)), () if charge is None else (charge,))
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        response.headers += caller.headers
        return response
