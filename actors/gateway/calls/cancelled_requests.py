"""Ends the holds and charges of requests that were cancelled: their client left, or this server gave them up.

Implements: money rule 2; threats 36 and 54.
A shell: it settles in the background, since no client waits any more. calls/pipeline.py tells how far each call had
come.

Each call is decided by itself, at the moment when its request is cancelled:

| The call                               | The client left                     | This server gave the request up |
|----------------------------------------|-------------------------------------|---------------------------------|
| is not answered by the node yet        | released                            | released                        |
| is answered, and is being posted       | charged; the entry says CLIENT_GONE | voided                          |
| is posted; others of its batch are not | charged; its entry stays as it is   | voided: refunded                |

A send that the node has received is completed in both cases, and charged if it is answered: the node acts on it anyway.
The owner of the account is told that a charged answer is delivered, as no client is left to deliver it to. Otherwise it
would refund the charge when this replica ends.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import ChargeRequest, HoldRequest, Outcome, SettleRequest, operation_at
from actors.clock import Clock
from actors.gateway.calls import outcomes
from actors.gateway.calls.requests import Client
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import DeferredAnswer, NodeAnswer

logger = logging.getLogger(__name__)

_RELEASED = int(Outcome.RELEASED)
_GONE = int(Outcome.CLIENT_GONE)


class CancelledRequests:
    """client: of the request; None: a cancelled request always means that its client left."""

    def __init__(self, accounts: AccountsClient, clock: Clock, metrics: Metrics) -> None:
        self._accounts, self._clock, self._metrics = accounts, clock, metrics
        self._tasks: set[asyncio.Task[Any]] = set()

    async def drain(self) -> None:
        """Wait for running settlements."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def hold(self, request: HoldRequest) -> None:
        """End holds whose request the owner has not answered yet."""
        self._in_background(self._unhold(request))

    def call(self, release: SettleRequest) -> None:
        """Release the hold of a call that the node has not answered."""
        self._in_background(self._settle(release))

    def send(self, answer: "asyncio.Future[NodeAnswer]", ceiling: int, release: SettleRequest) -> None:
        """Settle a send by the answer that the node will give."""
        self._in_background(self._settle_send(answer, ceiling, release))

    def post(self, settle: SettleRequest, client: Client | None) -> None:
        """Settle a call that the node has answered and the owner has not confirmed."""
        if has_left(client):
            # The owner may have the post already; a second one changes nothing.
            self._in_background(self._settle(ended(settle, settle.charged, _GONE)))
        else:
            self._accounts.void(settle)

    def charge(self, request: ChargeRequest, client: Client | None) -> None:
        """Settle an answer whose hold and charge the owner has not confirmed (calls/asked_ahead.py)."""
        if has_left(client):
            self._in_background(self._charge(request))  # Repeating it changes nothing.
        else:
            self._accounts.void(request.settle)

    def unanswered(self, request: ChargeRequest) -> None:
        """Hold and release a call that the node was asked ahead and has not answered: it takes a unit of the rate."""
        self._in_background(self._charge(request))

    def answers(self, charges: Sequence[SettleRequest], client: Client | None) -> None:
        """Settle answers that are charged but undelivered."""
        for charge in charges:
            if has_left(client):
                self._accounts.delivered(charge.pubkey, charge.operation)
            else:
                self._accounts.void(charge)

    async def _unhold(self, request: HoldRequest) -> None:
        """Repeat the hold, which names its account, and release it."""
        try:
            held = await self._accounts.hold(request)
        except OwnerUnavailable:
            return  # Any holds expire by themselves.
        for index, verdict in enumerate(held.verdicts):
            if verdict is None and held.refusal is None:
                item, operation = request.items[index], operation_at(request.operation, index)
                now = self._clock.now()
                ending = (operation, held.pubkey, held.epoch, item.method, item.ceiling, 0, _RELEASED, now)
                await self._settle(SettleRequest(*ending, key=held.key))

    async def _charge(self, request: ChargeRequest) -> None:
        settle = ended(request.settle, request.settle.charged, _GONE if request.settle.charged else _RELEASED)
        try:
            settled = (await self._accounts.charge(msgspec.structs.replace(request, settle=settle))).settled
        except OwnerUnavailable:
            settled = None
        if settled is None:
            if settle.charged:
                self._accounts.void(settle)
        elif settled.ok:
            self._metrics.call_ended(settle.method, settle.outcome, settle.charged, None)
            if settle.charged:
                self._accounts.delivered(settle.pubkey, settle.operation)  # There is no client to deliver it to.

    async def _settle_send(self, answer: "asyncio.Future[NodeAnswer]", ceiling: int, release: SettleRequest) -> None:
        settle: SettleRequest | None = release
        try:
            found = await answer
            if isinstance(found, DeferredAnswer):
                settle = None  # Another process ends this hold.
                return
            ending = outcomes.judge(release.method, ceiling, found)
            settle = ended(release, ending.charged, _GONE if ending.charged else _RELEASED)
        finally:
            if settle is not None:
                await self._settle(settle)

    async def _settle(self, settle: SettleRequest) -> None:
        try:
            settled = await self._accounts.settle(settle)
            if settled.ok:
                self._metrics.call_ended(settle.method, settle.outcome, settle.charged, None)
            if settled.ok and settle.charged:
                self._accounts.delivered(settle.pubkey, settle.operation)  # There is no client to deliver it to.
        except OwnerUnavailable:
            logger.warning("operation %s is left to the expiry of its hold", settle.operation.hex())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def has_left(client: Client | None) -> bool:
    """Return whether a request was cancelled because its client left, not because this server gave it up."""
    return client is None or client.disconnected


def ended(settle: SettleRequest, charged: int, outcome: int) -> SettleRequest:
    """Copy a settlement with another charge and outcome."""
    return SettleRequest(
        settle.operation,
        settle.pubkey,
        settle.epoch,
        settle.method,
        settle.ceiling,
        charged,
        outcome,
        settle.held_at,
        key=settle.key,
    )
