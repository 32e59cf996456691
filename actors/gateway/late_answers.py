"""Sends paid answers that are late only if their charges still stand.

Implements: decisions, money rule 2; hostile input 57. A shell.
When an account's owner has lost contact with a replica, it refunds the charges whose answers the replica did not
deliver in time. So just before an answer leaves, the replica compares times: was the owner in contact? If not, it asks
the owner, and answers with 503 where the charge is withdrawn.

A gap remains between that comparison and the write to the socket: a process that is suspended in between, until the
owner gives it up, may deliver an answer whose charge is refunded.
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
        """Whether a paid answer may leave at once. To be asked just before it is written."""
        if len(charges) == 1:  # Nearly always: a generator would cost more than the question.
            return self._accounts.may_leave(charges[0])
        return all(self._accounts.may_leave(charge) for charge in charges)

    async def stand(self, charges: Sequence[SettleRequest]) -> bool:
        """Whether an answer with these charges may leave now. False: they are void, and it must not."""
        return self.may_leave(charges) or await self._confirm(charges)

    async def confirmed(self, response: Response, facts: HeaderFacts) -> Response:
        """Confirm a response that may not leave yet. Gives it back, or a 503 in its place, to be written at once."""
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
        """As answers.send_parts: the last part of a paid answer waits for a look at its charges. Raises
        AnswerWithdrawn when they do not stand."""
        charges = response.charges

        async def may_end() -> bool:
            return self.may_leave(charges) or await self._confirm(charges)

        return await answers.send_parts(send, response.parts, response.id, may_end if charges else None)

    def delivered(self, charges: Sequence[SettleRequest]) -> None:
        """Tell the owner that the answers to these charges have left."""
        for charge in charges:
            self._accounts.delivered(charge.pubkey, charge.operation)

    async def send(self, send: Send, response: Response, facts: HeaderFacts) -> None:
        """Send a response by way of ASGI, and tell the owner that it is delivered."""
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
