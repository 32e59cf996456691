"""Paid answers that leave late: only if their charges still stand.

Implements: decisions, money rule 2; hostile input 57. A shell.
The owner of an account refunds charges whose answers a replica did not deliver in time, when it was out of touch with
that replica. So a replica asks, in the moment before an answer leaves, whether it was in touch; that is a comparison of
times. Only where it was not does it ask the owner, and answers with 503 where the charge is withdrawn.

The remaining doubt is the time between that comparison and the kernel's taking of the answer. A process that is stopped
in that very turn of its loop, for as long as it takes to be given up, may deliver an answer that is refunded.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from actors.accounts.api import AccountsClient
from actors.calls import SettleRequest
from actors.errors import Err, Refusal
from actors.gateway import answers, replies
from actors.gateway.replies import Response
from actors.gateway.requests import HeaderFacts, Send
from actors.http_server.exchange import AnswerWithdrawn

logger = logging.getLogger(__name__)

_WITHDRAWN = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger has withdrawn the charge; nothing is charged for this call"
)


class LateAnswers:
    """complete: adds the headers that every answer has."""

    def __init__(self, accounts: AccountsClient, complete: Callable[[Response, str, HeaderFacts], None]) -> None:
        self._accounts, self._complete = accounts, complete

    def may_leave(self, charges: Sequence[SettleRequest]) -> bool:
        """Whether a paid answer may leave at once. Asked in the moment before it is written."""
        if len(charges) == 1:  # Nearly always: a generator would cost more than the question.
            return self._accounts.may_leave(charges[0])
        return all(self._accounts.may_leave(charge) for charge in charges)

    async def confirmed(self, response: Response, facts: HeaderFacts) -> Response:
        """Where it may not: the response, if its charges stand, or a 503 in its place. It must be written at once."""
        if await self._confirm(response.charges):
            return response
        refused = replies.plain(_WITHDRAWN, response.id)
        self._complete(refused, response.id, facts)
        return refused

    async def _confirm(self, charges: Sequence[SettleRequest]) -> bool:
        """Whether these stay charged, after this process was out of touch with their owner; then the answer leaves at
        once. False: they cost nothing, and the answer must not leave."""
        confirmed = await asyncio.gather(*(self._accounts.confirm(charge) for charge in charges))
        if all(confirmed) and self.may_leave(charges):
            return True
        for charge in charges:
            self._accounts.void(charge)
        return False

    async def send_parts(self, send: Send, response: Response) -> bool:
        """As answers.send_parts: the last part of a paid answer waits for a look at its charges. Raises
        AnswerWithdrawn when they do not stand."""
        charges = response.charges

        async def may_end() -> bool:
            return self.may_leave(charges) or await self._confirm(charges)

        return await answers.send_parts(send, response.parts, response.id, may_end if charges else None)

    def delivered(self, charges: Sequence[SettleRequest]) -> None:
        """The answers that these paid for have left."""
        for charge in charges:
            self._accounts.delivered(charge.pubkey, charge.operation)

    async def send(self, send: Send, response: Response, facts: HeaderFacts) -> None:
        """Send a response by way of ASGI, and say that it was delivered."""
        charges = response.charges
        if charges and not self.may_leave(charges):
            response = await self.confirmed(response, facts)
            charges = response.charges
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        try:
            if response.parts:
                await self.send_parts(send, response)
            elif not charges or self.may_leave(charges) or await self._confirm(charges):
                await send({"type": "http.response.body", "body": response.body})
            else:
                raise AnswerWithdrawn(response.id)
        except AnswerWithdrawn as withdrawn:
            logger.warning("request %s: its answer is broken off, as its charge was withdrawn", withdrawn)
            return  # The server closes a connection whose response is not complete.
        if charges:
            self.delivered(charges)
