"""The door for agents: POST /mcp, a Model Context Protocol endpoint without sessions and streams.

Implements: interface, "MCP"; decisions, "MCP tool names", "MCP credentials" and "MCP revisions"; Model Context Protocol
2025-03-26 to 2026-07-28 over streamable HTTP; x402 transport over MCP; threat 38.
A shell. In this folder eras.py says how a request speaks, messages.py reads bodies, tools.py describes tools, and
answers.py shapes answers; a tools/call runs through the same pipeline as a call of POST /, with the same bill and the
same headers.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from actors.clock import Clock
from actors.errors import Refusal
from actors.gateway.calls import headers, replies
from actors.gateway.calls.admission import Plan
from actors.gateway.calls.answers import served_by, tell_cost
from actors.gateway.calls.cost_limits import one_within_limit
from actors.gateway.calls.disconnects import unless_disconnected
from actors.gateway.calls.headers import Header
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.jsonrpc import NO_ID, BadCall, Call
from actors.gateway.calls.large_requests import LARGE_BYTES
from actors.gateway.calls.limited_calls import LimitedCalls
from actors.gateway.calls.outcomes import Replies, Reply
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refused_work import cost_of
from actors.gateway.calls.replies import Response, Terms
from actors.gateway.calls.requests import PAYMENT_V2, AsgiClient, Caller, RefusedCaller, Request
from actors.gateway.doors.mcp import advice, confirmations, transport
from actors.gateway.doors.mcp import answers as mcp_answers
from actors.gateway.doors.mcp import messages as mcp_messages
from actors.gateway.doors.mcp import tools as mcp_tools
from actors.gateway.doors.mcp.confirming import CallConfirmations, Cleared, ConfirmationQuestion
from actors.gateway.doors.mcp.eras import OLDEST, Dialect
from actors.gateway.doors.mcp.long_sends import LongSends, TaskState
from actors.gateway.doors.mcp.messages import BadEnvelope, Free, Ignored, Message, Parsed, TaskCall, ToolCall
from actors.gateway.doors.rpc import KEY_OF_BATCH
from actors.gateway.payments.authentication import Authenticator
from actors.gateway.payments.terms import TermsByPath
from actors.gateway.payments.x402 import refused_for_free, within
from actors.pricing_config import PricingConfig

PATH = b"/mcp"
_End = TypeVar("_End")
_LARGE_BYTES = 1 << 20  # Above, answers are encoded in a thread: that would hold up the event loop for milliseconds.


class McpDoor:
    """origins: pages that may use the endpoint. always_200: for old clients, see mcp_answers.refused()."""

    def __init__(
        self,
        authenticator: Authenticator,
        pipeline: Pipeline,
        keyed: IdempotentCalls,
        terms: TermsByPath,
        clock: Clock,
        plans: Mapping[str, Plan],
        pricing: PricingConfig,
        origins: Collection[str],
        always_200: bool,
        confirming: CallConfirmations,
        long_sends: LongSends,
        limited: LimitedCalls,
    ) -> None:
        self._authenticator, self._pipeline, self._terms, self._clock = authenticator, pipeline, terms, clock
        self._keyed, self._confirming, self._long_sends, self._limited = keyed, confirming, long_sends, limited
        self._plans, self._tools, self._tool_list = plans, frozenset(plans), mcp_tools.list_result(plans, pricing)
        self._examples, self._instructions = mcp_tools.examples(plans), mcp_tools.instructions(plans, pricing)
        self._discovered = mcp_tools.discover_result(self._instructions, long_sends.are_offered)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._always_200 = always_200

    async def answer(self, request: Request) -> Response:
        """Answer a POST on PATH. Raises ClientLeftError if the request came over ASGI."""
        sent: dict[bytes, bytes] = {}
        for name, value in request.headers:
            if name in transport.READ:  # Two lines are one list: no foreign origin is hidden behind another one.
                sent[name] = sent[name] + b", " + value if name in sent else value
        unfit = transport.unfit(sent, self._origins, request.id)
        if unfit is not None:
            return unfit
        unfit_option = transport.unfit_option(request)
        if unfit_option is not None:
            return replies.plain(unfit_option, request.id)
        if request.body.lstrip()[:1] == b"[":
            told = self._authenticator.wait_of_batch(request)
            if told is not None:
                return self._refused(request, told, NO_ID)
        parse = partial(mcp_messages.parse, request.body, sent, self._tools)
        parsed = parse() if len(request.body) <= LARGE_BYTES else await self._parsed_in_turn(request, parse)
        if isinstance(parsed, Refusal):
            return self._refused(request, parsed, NO_ID)
        if isinstance(parsed.content, list):
            if request.key is not None:
                return replies.plain(KEY_OF_BATCH, request.id)
            return await self._batch(request, parsed.content)
        return await self._one(request, parsed.content, parsed.dialect)

    async def _one(self, request: Request, message: Message, dialect: Dialect) -> Response:
        match message:
            case Ignored():
                return Response(202, b"", [])
            case Free():
                body = self._free(message, dialect)
                too_many = self._authenticator.free_answer(request, max(len(body), len(request.body)))
                if too_many is not None:
                    return self._refused(request, too_many, message.id, dialect)
                return Response(200, body, [])
            case BadCall():
                refusal = self._count_refused(request, (message,)) or message.refusal
                return mcp_answers.refused(refusal, message.id, request.id, None, always_200=False, dialect=dialect)
            case BadEnvelope(id=raw_id, refusal=refusal, http=http, data=data):
                wait = self._count_refused(request, (BadCall(raw_id, refusal),))
                if wait is not None:
                    return self._refused(request, wait, raw_id, dialect)
                return mcp_answers.envelope_error(refusal, raw_id, request.id, http, data)
            case ToolCall():
                return await self._call(request, message, dialect)
            case TaskCall():
                return await self._task(request, message, dialect)

    async def _parsed_in_turn(self, request: Request, parse: Callable[[], Parsed]) -> Parsed | Refusal:
        """Read a large body when its turn comes. Whose it is decides for whom it counts; it is proven later."""
        caller = self._authenticator.authenticate(request, counts_refusals=False)
        proof = caller.proof if isinstance(caller, Caller) else None

        async def read() -> Parsed | Refusal:
            return self._authenticator.wait_of(proof, request.client) or parse()

        name = self._authenticator.name_of(proof, request.client)
        return await self._pipeline.large.run(name, len(request.body), read)

    def _count_refused(self, request: Request, refused: Sequence[BadCall]) -> Refusal | None:
        """Count messages refused before authentication. Returns a refusal instead when there were too many."""
        if not refused:
            return None
        errs = [message.refusal.err for message in refused]
        return self._authenticator.count_refusals(errs, request.client, cost_of(body_bytes=len(request.body)))

    def _free(self, asked: Free, dialect: Dialect = OLDEST) -> bytes:
        if asked.method == "initialize":
            agreed = mcp_tools.initialize_result(asked.params.get("protocolVersion"), self._instructions)
            return mcp_answers.result(asked.id, agreed)
        if asked.method == "ping":
            return mcp_answers.result(asked.id, b"{}")
        found = self._discovered if asked.method == "server/discover" else self._tool_list
        return mcp_answers.free_result(asked.id, found, dialect)

    # --- one call

    async def _call(self, request: Request, asked: ToolCall, dialect: Dialect) -> Response:
        call = mcp_messages.consistent(asked, request)
        pays = bool(asked.payment) and self._authenticator.takes_payments
        caller: Caller | Refusal | None = None
        if pays:  # At the public prices, which the terms tell.
            call = one_within_limit(call, request.max_credits, self._plans)
            call = one_within_limit(call, asked.max_credits, self._plans)
        else:
            caller = self._authenticator.authenticate(request)
            if isinstance(caller, Refusal):
                return self._refused_call(request, caller, call.id, asked, dialect)
            most = request.max_credits, asked.max_credits
            limited = await self._limited.one(caller.proof, call, request.client, *most)
            if isinstance(limited, Replies):
                return self._unconfirmed(request, limited, call.id, asked, dialect)
            caller, call = msgspec.structs.replace(caller, proof=limited.proof), limited.calls
        wanted, cleared = self._confirming.wants(asked, call), Cleared(call, request.key)
        if wanted is not None and pays:
            end = self._confirming.of_payment(request, asked, wanted)
            if not isinstance(end, Cleared):
                return self._unconfirmed(request, end, call.id, asked, dialect)
            cleared = end
        caller = caller or await self._payer(request, call, asked.payment)
        if isinstance(caller, Refusal):
            return self._refused_call(request, caller, call.id, asked, dialect)
        if wanted is not None and not pays:
            told = await self._confirming.of_account(request, caller.proof, asked, wanted)
            if not isinstance(told, Cleared):
                return self._unconfirmed(request, told, call.id, asked, dialect)
            cleared = told
        return await self._cleared(request, asked, cleared, caller, dialect)

    def _unconfirmed(
        self,
        request: Request,
        end: ConfirmationQuestion | Replies | Refusal,
        raw_id: bytes,
        asked: ToolCall,
        dialect: Dialect,
    ) -> Response:
        """Make the question whether a call may run, or the answer that says why it may not."""
        if isinstance(end, ConfirmationQuestion):
            left = None if end.figures is None else end.figures.credits_remaining
            body = mcp_answers.input_required(raw_id, end.input_requests, end.state, left)
            too_many = self._authenticator.free_answer(request, len(body)) if end.figures is None else None
            if too_many is not None:
                return self._refused(request, too_many, raw_id, dialect)
            return self._with_headers(Response(200, body, [], is_free=True), Replies((), None, end.figures, left), ())
        if isinstance(end, Refusal):  # The payment was not taken, so nobody is proven.
            end = Replies((), self._authenticator.count_refusals((end.err,), request.client) or end, None)
        done = end
        refusal = done.refusal or done.items[0].refusal
        assert refusal is not None
        if refusal is confirmations.FOREIGN_STATE:  # This error belongs to the protocol, not to the tool.
            response = self._refused(request, refusal, raw_id, dialect)
        else:
            response = self._refused_call(request, refusal, raw_id, asked, dialect, done.credits_remaining)
        return self._with_headers(response, done, ())

    async def _cleared(
        self, request: Request, asked: ToolCall, cleared: Cleared, caller: Caller, dialect: Dialect
    ) -> Response:
        call, proof = cleared.call, cleared.proof or caller.proof
        if caller.credits_max is not None:
            (call,) = within([call], caller.credits_max, self._plans)
        going_on = self._long_sends.may_go_on(proof, call) if asked.takes_tasks else None
        if going_on is None:
            done = await self._run(request, self._keyed.single(proof, call, cleared.key, request.client))
        else:
            end = await self._run(request, self._long_sends.run(proof, going_on, cleared.key, request.client))
            if isinstance(end, TaskState):
                body = mcp_answers.task_created(call.id, end.task, end.done.credits_remaining)
                return self._with_headers(Response(200, body, []), end.done, caller.headers)
            done = end
        refusal = done.refusal or done.items[0].refusal
        if refusal is not None:
            response = self._refused_call(request, refusal, call.id, asked, dialect, done.credits_remaining)
        else:
            receipt = mcp_answers.receipt_of(caller.headers)
            response = await self._answered(request, done.items[0], receipt, dialect)
        return self._with_headers(response, done, caller.headers)

    async def _task(self, request: Request, asked: TaskCall, dialect: Dialect) -> Response:
        """Make the answer to a message about a task, which costs nothing."""
        caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            return self._refused(request, caller, asked.id, dialect)
        end = await self._run(request, self._long_sends.answer(caller.proof, asked, request.client))
        if isinstance(end, Replies):
            refusal = end.refusal or end.items[0].refusal
            assert refusal is not None
            return self._with_headers(self._refused(request, refusal, asked.id, dialect), end, ())
        left = end.done.credits_remaining
        if asked.method == "tasks/get":
            assert end.status is not None, "only a call begins a task"
            body = mcp_answers.task_told(asked.id, end.task, end.status, self._clock.now(), left)
        else:
            body = mcp_answers.acknowledged(asked.id, left)
        return self._with_headers(Response(200, body, [], is_free=True), end.done, ())

    def _refused_call(
        self,
        request: Request,
        refusal: Refusal,
        raw_id: bytes,
        asked: ToolCall,
        dialect: Dialect,
        left: int | None = None,
    ) -> Response:
        """Make the refusal of a call: a result that a model can act on, where the revision has such results."""
        more = refusal if isinstance(refusal, RefusedCaller) else None
        if not mcp_answers.is_result(refusal, dialect, bool(asked.tool)) or (more is not None and more.told_to_wait):
            return self._refused(request, refusal, raw_id, dialect)
        terms = self._terms_of(request, refusal)
        receipt = mcp_answers.receipt_of(() if more is None else more.headers)
        refusal = advice.advised(refusal, self._examples.get(asked.tool, ""))
        left = left if more is None or more.credits_remaining is None else more.credits_remaining
        response = mcp_answers.refused_result(refusal, raw_id, request.id, terms, dialect, left, receipt)
        return self._with_more(response, more)

    async def _payer(self, request: Request, call: Call | BadCall, payment: bytes) -> Caller | Refusal:
        """Return the caller by the payment that came with the call."""
        free = refused_for_free(call, self._plans)
        if free is not None:  # No payment is taken for a call that costs nothing.
            return self._authenticator.count_refusals(free.errs(), request.client) or free.first_refusal()
        paying = msgspec.structs.replace(request, headers=[*request.headers, (PAYMENT_V2, payment)], pays=True)
        # A started payment is completed, even when its client leaves.
        return await asyncio.shield(asyncio.ensure_future(self._authenticator.authenticate_payment(paying)))

    async def _answered(self, request: Request, reply: Reply, receipt: bytes, dialect: Dialect) -> Response:
        answer = reply.answer
        assert answer is not None
        body = await self._encoded(request, [reply], partial(mcp_answers.tool_result, reply, receipt, dialect))
        charges = () if reply.charge is None else (reply.charge,)
        response = Response(200, body, served_by((answer,)), charges)
        tell_cost(response, (reply,))
        return response

    def _terms_of(self, request: Request, refusal: Refusal) -> Terms | None:
        if refusal.err.row.http != 402:
            return None
        terms = self._terms.of(request.path, self._clock.now())
        return terms.bare() if isinstance(refusal, RefusedCaller) and not refusal.offers_payment else terms

    def _refused(self, request: Request, refusal: Refusal, raw_id: bytes, dialect: Dialect = OLDEST) -> Response:
        terms = self._terms_of(request, refusal)
        response = mcp_answers.refused(refusal, raw_id, request.id, terms, self._always_200, dialect)
        return self._with_more(response, refusal if isinstance(refusal, RefusedCaller) else None)

    def _with_more(self, response: Response, more: RefusedCaller | None) -> Response:
        if more is not None:
            response.headers += more.headers
            response.is_delayed = more.told_to_wait
            if more.figures is not None:
                headers.add_figures(response.headers, more.figures, more.credits_remaining, self._clock.now())
        return response

    # --- a batch

    async def _batch(self, request: Request, messages: Sequence[Message]) -> Response:
        """Answer a batch of the older version: the free messages here, all calls in one run of the pipeline."""
        size = sum(len(self._free(message)) for message in messages if isinstance(message, Free))
        too_many = self._authenticator.free_answer(request, size) if size else None
        if too_many is not None:
            messages = [BadCall(one.id, too_many) if isinstance(one, Free) else one for one in messages]
        tools, done = [one for one in messages if isinstance(one, ToolCall)], Replies((), None, None)
        asked_for, added = [mcp_messages.consistent(one, request) for one in tools], ()
        if asked_for:
            caller = self._authenticator.authenticate(request)
            if isinstance(caller, Refusal):
                return self._refused(request, caller, asked_for[0].id)
            name = self._authenticator.name_of(caller.proof, request.client)
            most, ceilings = request.max_credits, [tool.max_credits for tool in tools]
            client, large = request.client, self._pipeline.large
            calls = await self._limited.batch(caller.proof, asked_for, most, client, large, name, ceilings)
            if isinstance(calls, Refusal):
                return self._refused(request, calls, asked_for[0].id)
            done = await self._run(request, self._pipeline.batch(calls.proof, calls.calls, request.client))
            if done.refusal is not None:
                return self._with_headers(self._refused(request, done.refusal, asked_for[0].id), done, added)
        wait = self._count_refused(request, [message for message in messages if isinstance(message, BadCall)])
        if wait is not None and not asked_for:
            return self._refused(request, wait, NO_ID)
        asked = [message for message in messages if not isinstance(message, Ignored)]
        if not asked:
            return Response(202, b"", [])

        def encode() -> bytes:
            ends = iter(done.items)
            return b"[" + b",".join(self._item(message, request.id, ends) for message in asked) + b"]"

        body = await self._encoded(request, done.items, encode)
        answers = [end.answer for end in done.items if end.answer is not None]
        charges = [end.charge for end in done.items if end.charge is not None]
        refused = [end.refusal.err.name for end in done.items if end.refusal is not None]
        response = Response(200, body, served_by(answers), charges, refused=refused)
        tell_cost(response, done.items)
        if len(asked) == len(done.items):
            response.headers += replies.retry_after_of([end.refusal for end in done.items])
        return self._with_headers(response, done, added)

    def _item(self, message: Message, request_id: str, ends: Iterator[Reply]) -> bytes:
        match message:
            case Free():
                return self._free(message)
            case BadCall():
                return replies.error_object(message.refusal, message.id, request_id, self._terms.deposit)
        end = next(ends)
        if end.refusal is not None:
            return replies.error_object(end.refusal, end.id, request_id, self._terms.deposit)
        return mcp_answers.tool_result(end)

    # --- shared

    async def _encoded(self, request: Request, given: Sequence[Reply], encode: Callable[[], bytes]) -> bytes:
        """Encode answers, large ones in a thread."""
        if sum(reply.answer.size for reply in given if reply.answer is not None) <= _LARGE_BYTES:
            return encode()
        try:
            return await asyncio.to_thread(encode)
        except asyncio.CancelledError:
            self._pipeline.undelivered(given, request.client)
            raise

    @staticmethod
    async def _run(request: Request, work: Coroutine[Any, Any, _End]) -> _End:
        client = request.client
        return await (unless_disconnected(client, work) if type(client) is AsgiClient else work)

    def _with_headers(self, response: Response, done: Replies, added: Sequence[Header]) -> Response:
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        if done.repeated:
            response.headers.append(headers.REPEATED)
        response.headers += added
        return response
