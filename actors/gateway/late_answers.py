"""Paid answers that leave late: only if their charges still stand.

Implements: decisions, money rule 2; hostile input 57. A shell.
The owner of an account refunds charges whose answers a replica did not deliver in time, when it was out of touch with
that replica. So a replica asks, in the moment before an answer leaves, whether it was in touch; that is a comparison of
times. Only where it was not does it ask the owner, and answers with 503 where the charge is withdrawn.

The remaining doubt is the time between that comparison and the kernel's taking of the answer. A process that is stopped
in that very turn of its loop, for as long as it takes to be given up, may deliver an answer that is refunded.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from actors.calls import SettleRequest
from actors.errors import Err, Refusal
from actors.gateway import answers, replies
from actors.gateway.pipeline import Pipeline
from actors.gateway.replies import Response
from actors.gateway.requests import Looks, Send

logger = logging.getLogger(__name__)

_WITHDRAWN = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger has withdrawn the charge; nothing is charged for this call"
)


class LateAnswers:
    """complete: adds the headers that every answer has."""

    def __init__(self, pipeline: Pipeline, complete: Callable[[Response, str, Looks], None]) -> None:
        self._pipeline, self._complete = pipeline, complete

    def may_leave(self, charges: Sequence[SettleRequest]) -> bool:
        """Whether a paid answer may leave at once. Asked in the moment before it is written."""
        return self._pipeline.may_leave(charges)

    async def confirmed(self, response: Response, looks: Looks) -> Response:
        """Where it may not: the response, if its charges stand, or a 503 in its place. It must be written at once."""
        if await self._pipeline.confirm(response.charges):
            return response
        refused = replies.plain(_WITHDRAWN, response.id)
        self._complete(refused, response.id, looks)
        return refused

    def ending(self, charges: Sequence[SettleRequest]) -> Callable[[], Awaitable[bool]] | None:
        """For an answer that takes a while: to be asked before the last of it leaves. None: nothing was paid for it."""

        async def may_end() -> bool:
            return self._pipeline.may_leave(charges) or await self._pipeline.confirm(charges)

        return may_end if charges else None

    async def send(self, send: Send, response: Response, looks: Looks) -> Sequence[SettleRequest]:
        """Send a response by way of ASGI. Gives the charges whose answers have left."""
        if response.charges and not self.may_leave(response.charges):
            response = await self.confirmed(response, looks)
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        ending = self.ending(response.charges)  # The server may have waited for a slow client before it wrote the head.
        try:
            if response.parts:
                await answers.send_parts(send, response.parts, response.id, ending)
            elif ending is None or await ending():
                await send({"type": "http.response.body", "body": response.body})
            else:
                raise answers.ChargeWithdrawn(response.id)
        except answers.ChargeWithdrawn:
            logger.warning("request %s: its answer is broken off, as its charge was withdrawn", response.id)
            return ()  # The server closes a connection whose response is not complete.
        return response.charges
