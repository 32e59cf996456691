"""The bulk paths of the HTTP door: credentials, headers, errors and 402 as for JSON-RPC, and one answer for a list.

Implements: interface specification, "Bulk endpoints"; decisions, shapes of the bulk replies.
A shell. What a request must look like is bulk_requests.py's; holding, asking and settling are the pipeline's, under one
hold for the whole list.
"""

from collections.abc import Awaitable, Callable

from actors.clock import Clock
from actors.config import Config
from actors.errors import Refusal
from actors.gateway import bulk_requests, headers, jsonrpc, replies
from actors.gateway.admission import AdmittedCall
from actors.gateway.answers import served_by
from actors.gateway.authentication import Entrance
from actors.gateway.disconnects import while_there
from actors.gateway.paid_requests import within
from actors.gateway.payment_terms import Terms
from actors.gateway.payments import Paid
from actors.gateway.pipeline import Pipeline, Replies
from actors.gateway.replies import Response
from actors.gateway.requests import AsgiCaller, Looks, Receive, Scope, peer_of, read_body
from actors.identity.proofs import uses_url_key

Pay = Callable[[Scope, bytes, str], Awaitable[Paid | Response | None]]


class BulkDoor:
    """terms: of a path, for its 402. pay: settles a payment that came with a request; None: payments are not taken."""

    def __init__(
        self,
        config: Config,
        entrance: Entrance,
        pipeline: Pipeline,
        clock: Clock,
        terms: Callable[[bytes], Terms],
        pay: Pay,
    ) -> None:
        self._body_bytes_max = config.gateway.body_bytes_max
        self._entrance, self._pipeline, self._clock = entrance, pipeline, clock
        self._terms, self._pay = terms, pay

    async def answer(self, scope: Scope, receive: Receive, path: bytes, looks: Looks, request_id: str) -> Response:
        """To a POST on one of bulk_requests.ROWS. Raises ClientLeftError."""
        sent, query = scope["headers"], scope["query_string"]
        body = looks.fault or await read_body(receive, self._body_bytes_max)
        if isinstance(body, Refusal):
            response = replies.plain(body, request_id)
            response.headers.append(headers.CLOSE)
            return response
        row = bulk_requests.ROWS[path]
        # No payment is taken for a list that is refused whoever asks.
        payable = looks.pays and isinstance(bulk_requests.admit(body, row), AdmittedCall)
        paid = await self._pay(scope, path, request_id) if payable else None
        if isinstance(paid, Response):
            return paid
        caller = AsgiCaller(sent, peer_of(scope))
        entered = paid.proof if paid else self._entrance.enter(sent, query, path, body, caller)
        if isinstance(entered, Replies):
            done = entered
        else:
            admitted = bulk_requests.admit(body, row)
            # A list that is refused for free proves its credential all the same, as a call does.
            call = jsonrpc.BadCall(jsonrpc.NO_ID, admitted) if isinstance(admitted, Refusal) else admitted
            if paid:
                (call,) = within([call], paid.credits)
            done = await while_there(receive, self._pipeline.single(entered, call, caller), caller)
        response = self._response(done, path, request_id)
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        if paid:
            response.headers += paid.headers
        elif query and uses_url_key(sent, query):
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    def _response(self, done: Replies, path: bytes, request_id: str) -> Response:
        refusal = done.refusal
        if refusal is None:
            reply = done.items[0]
            if reply.answer is not None:
                charges = (reply.charge,) if reply.charge is not None else ()
                return Response(200, reply.answer.value(), served_by((reply.answer,)), charges)
            refusal = reply.refusal
        assert refusal is not None
        page = self._terms(path) if refusal.err.row.http == 402 else None
        return replies.plain(refusal, request_id, page)
