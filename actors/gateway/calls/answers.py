"""Makes HTTP answers of the node's answers, and sends them while their charges stand; large ones in pieces.

Implements: money rule 2; threat 57; `X-Node` and `X-Cache`; large answers (10 MB blocks pass through
unparsed, with memory bounded).
A shell. An answer is sent only after the node's body has arrived whole and its charge is durable. So nobody pays for an
answer that the node did not finish, and a client that stops reading half way has paid for an answer that was there
(threat 36).

When an account's owner has lost contact with a replica, it refunds the charges whose answers the replica did not
deliver in time. So just before an answer leaves, the replica compares times: was the owner in contact? If not, it asks
the owner, and answers with 503 where the charge is withdrawn.

A gap remains between that comparison and the write to the socket: a process that is suspended in between, until the
owner gives it up, may deliver an answer whose charge is refunded.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

from actors.accounts.api import AccountsClient
from actors.calls import SettleRequest
from actors.errors import Err, Refusal
from actors.gateway.calls import replies
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.outcomes import Reply
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import HeaderFacts, Send
from actors.http_server.exchange import AnswerWithdrawn
from actors.upstream.memory_budget import HeldMemory, being_sent
from actors.upstream.replies import DeferredAnswer, NodeAnswer

logger = logging.getLogger(__name__)

LARGE_BYTES = 256 << 10  # From this size on, copying a body costs more than sending it in three parts.
_PIECE_BYTES = 512 << 10  # As large as the parts that are read from a node (upstream/socket_bodies.py).
# Longest wait for a client to take what was written last, 1.5 MB at most, because its answer occupies memory. One that
# takes nothing at all is let go after 30 s (http_server/answering.py).
_PIECE_SECONDS_MAX = 120.0
_WITHDRAWN = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger has withdrawn the charge; nothing is charged for this call"
)


def single(reply: Reply, raw_id: bytes) -> Response:
    """Make the response to a single call."""
    answer = reply.answer
    assert answer is not None
    charges = (reply.charge,) if reply.charge is not None else ()
    served = list(_served(answer.node, answer.cache))
    if answer.size < LARGE_BYTES:
        response = Response(200, answer.reply(raw_id), served, charges)
    else:
        response = Response(200, b"", served, charges, answer.reply_parts(raw_id), kept=(answer,))
        response.holdings = _holdings((answer,))
    if reply.charge is None:  # Else its charge alone tells the cost.
        tell_cost(response, (reply,))
    return response


def batch(items: Sequence[Reply], request_id: str, deposit: dict[str, str]) -> Response:
    """Make the response to a batch, in order. deposit: where to deposit, for calls that lack credits."""
    answers = [reply.answer for reply in items if reply.answer is not None]
    charges = [reply.charge for reply in items if reply.charge is not None]
    refused = [reply.refusal.err.name for reply in items if reply.refusal is not None]
    if sum(answer.size for answer in answers) < LARGE_BYTES:
        body = b"[" + b",".join(_item(reply, request_id, deposit) for reply in items) + b"]"
        added = served_by(answers) + (replies.retry_after_of([reply.refusal for reply in items]) if refused else [])
        response = Response(200, body, added, charges, refused=refused)
    else:
        parts: list[bytes | memoryview] = []
        for reply in items:
            parts.append(b"," if parts else b"[")
            answer = reply.answer
            parts += (_item(reply, request_id, deposit),) if answer is None else answer.reply_parts(reply.id)
        response = Response(200, b"", served_by(answers), charges, (*parts, b"]"), kept=answers, refused=refused)
        response.holdings = _holdings(answers)
    tell_cost(response, items)
    return response


def tell_cost(response: Response, items: Sequence[Reply]) -> None:
    """Record what others than this replica have posted for these replies, or that they cost nothing."""
    response.posted = sum(reply.posted for reply in items)
    if response.posted:
        named = [reply.operation if reply.charge is None else reply.charge.operation for reply in items]
        response.operations = [operation for operation in named if operation]
    elif not response.charges:  # The charge of a send may be pending.
        response.is_free = not any(isinstance(reply.answer, DeferredAnswer) for reply in items)


def served_by(answers: Sequence[NodeAnswer]) -> HeaderList:
    """Return X-Node and X-Cache: each name once, in the order of the answers; no header without a name."""
    nodes = dict.fromkeys(answer.node for answer in answers if answer.node)
    caches = dict.fromkeys(answer.cache for answer in answers if answer.cache)
    return list(_served(", ".join(nodes), ", ".join(caches)))


@functools.lru_cache(maxsize=256)  # The operator configures few nodes.
def _served(node: str, cache: str) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, said.encode("ascii")) for name, said in ((b"x-node", node), (b"x-cache", cache)) if said)


def _holdings(answers: Sequence[NodeAnswer]) -> list[HeldMemory]:
    leases = (answer.lease for answer in answers)
    return [lease.holding for lease in leases if lease is not None and lease.holding is not None]


async def send_parts(
    send: Send,
    pieces: AsyncIterator[tuple[bytes | memoryview, bool]],
    request_id: str,
    may_end: Callable[[], Awaitable[bool]] | None = None,
) -> bool:
    """Send the body of a response that has begun, piece by piece, as fast as the client takes it.

    pieces: each with whether it is the last one; they end early when the client has left. may_end: asked before the
    last piece, without which the body is no answer: whether its charge still stands. Raises AnswerWithdrawn when it
    does not.
    False: the client took nothing for too long, or left, and the body is not whole.
    """
    is_last = False
    try:
        async for piece, is_last in pieces:
            if is_last and may_end is not None and not await may_end():
                raise AnswerWithdrawn(request_id)
            async with asyncio.timeout(_PIECE_SECONDS_MAX):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not is_last and may_end is not None and not await may_end():
            raise AnswerWithdrawn(request_id)
        if is_last:
            async with asyncio.timeout(_PIECE_SECONDS_MAX):
                await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        logger.info("request %s: its client took too little for %.0f s", request_id, _PIECE_SECONDS_MAX)
        return False  # The server closes a connection whose response is incomplete.
    return is_last


async def cut(parts: Sequence[bytes | memoryview]) -> AsyncIterator[tuple[bytes | memoryview, bool]]:
    last = len(parts) - 1
    for number, part in enumerate(parts):
        for start in range(0, len(part), _PIECE_BYTES):
            yield part[start : start + _PIECE_BYTES], number == last and start + _PIECE_BYTES >= len(part)


def _item(reply: Reply, request_id: str, deposit: dict[str, str]) -> bytes:
    if reply.answer is not None:
        return reply.answer.reply(reply.id)
    assert reply.refusal is not None
    return replies.error_object(reply.refusal, reply.id, request_id, deposit)


class LateAnswers:
    """complete: adds the headers that every answer has."""

    def __init__(self, accounts: AccountsClient, complete: Callable[[Response, str, HeaderFacts], None]) -> None:
        self._accounts, self._complete = accounts, complete

    def may_leave(self, charges: Sequence[SettleRequest]) -> bool:
        """Return whether a paid answer may leave at once. Ask just before it is written."""
        if len(charges) == 1:  # The usual case: a generator would cost more than the check.
            return self._accounts.may_leave(charges[0])
        return all(self._accounts.may_leave(charge) for charge in charges)

    async def stand(self, charges: Sequence[SettleRequest]) -> bool:
        """Whether an answer with these charges may leave now. False: they are void, and it must not."""
        return self.may_leave(charges) or await self._confirm(charges)

    async def confirmed(self, response: Response, facts: HeaderFacts) -> Response:
        """Confirm a response that may not leave yet. Returns it, or a 503 instead; write the result at once."""
        if await self._confirm(response.charges):
            return response
        refused = replies.plain(_WITHDRAWN, response.id)
        self._complete(refused, response.id, facts)
        return refused

    async def _confirm(self, charges: Sequence[SettleRequest]) -> bool:
        """Ask the owner whether these stay charged; the answer then leaves at once. False: they are void, and it must
        not leave."""
        confirmed = await asyncio.gather(*(self._accounts.confirm(charge) for charge in charges))
        if all(confirmed) and self.may_leave(charges):
            return True
        for charge in charges:
            self._accounts.void(charge)
        return False

    async def send_parts(self, send: Send, response: Response) -> bool:
        """As send_parts: the last piece of a paid answer waits for a look at its charges. Raises
        AnswerWithdrawn when they do not stand. False also where it gave way to answers that wait for its memory."""
        charges = response.charges

        async def may_end() -> bool:
            return self.may_leave(charges) or await self._confirm(charges)

        pieces = cut(response.parts) if response.made is None else response.made.pieces()
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as sending:
                with being_sent(response.holdings, partial(sending.reschedule, now)):
                    return await send_parts(send, pieces, response.id, may_end if charges else None)
        except TimeoutError:
            logger.warning("request %s: its answer is broken off, as others wait for the memory", response.id)
            return False

    def delivered(self, charges: Sequence[SettleRequest]) -> None:
        """Tell the owner that the answers to these charges have left."""
        for charge in charges:
            self._accounts.delivered(charge.pubkey, charge.operation)

    async def send(self, send: Send, response: Response, facts: HeaderFacts) -> None:
        """Send a response over ASGI, and tell the owner that it is delivered."""
        try:
            await self._send(send, response, facts)
        finally:
            if response.made is not None:
                response.made.close()

    async def _send(self, send: Send, response: Response, facts: HeaderFacts) -> None:
        charges = response.charges
        if charges and not self.may_leave(charges):
            response = await self.confirmed(response, facts)
            charges = response.charges
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        try:
            if response.parts or response.made is not None:
                await self.send_parts(send, response)
            elif not charges or self.may_leave(charges) or await self._confirm(charges):
                await send({"type": "http.response.body", "body": response.body})
            else:
                raise AnswerWithdrawn(response.id)
        except AnswerWithdrawn as withdrawn:
            logger.warning("request %s: its answer is broken off, as its charge was withdrawn", withdrawn)
            return  # The server closes a connection whose response is incomplete.
        if charges:
            self.delivered(charges)
