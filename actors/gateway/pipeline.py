"""One billed call, or one batch of them, from a proof to a reply. Every door comes through here.

Implements: design, section 4; decisions, money rules 1, 2, 8 and 9; hostile inputs 11, 17, 35 and 36.
The shell: it awaits and wires. Prices and refusals are admission.py's, endings are outcomes.py's, and whether credits
suffice is the account owner's.

Two promises are kept here and nowhere else. A node's answer leaves only when the ledger has its charge: if that stays
unknown, the answer is withheld, the caller gets 503, and the charge is voided. A hold that this replica was granted is
ended by it whatever happens to the caller: one who leaves before the node answered pays nothing, one who leaves later
pays, and the entry says CLIENT_GONE. Sends are carried to their end without their caller, as the node acts on them
anyway; leaving early is no way to send for free.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import (
    Figures,
    HoldItem,
    HoldReply,
    HoldRequest,
    Outcome,
    Proof,
    ProvenProof,
    SettleReply,
    SettleRequest,
    operation_at,
)
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway import outcomes
from actors.gateway.admission import Admitted, admit
from actors.gateway.batches import Batch, Granted
from actors.gateway.jsonrpc import BadCall, Call
from actors.upstream.replies import NodeAnswer

logger = logging.getLogger(__name__)

EDGE_BYTES = 8
_RELEASED = int(Outcome.RELEASED)
_GONE = int(Outcome.CLIENT_GONE)
_SHED = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many calls in flight here")
_OWNER_GONE = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")
_NOT_RECORDED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the charge could not be recorded; nothing is charged for this call"
)
_HOLD_DETAILS = {
    Err.AUTH_FAILED: "the credential is unknown, replaced or expired",
    Err.METHOD_NOT_ALLOWED: "this account is suspended",
}


class Node(Protocol):
    """What answers calls: upstream.api.Nodes, or methods of our own over it."""

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer: ...


class Reply(msgspec.Struct):
    """To one call: the node's answer, or a refusal. credits_remaining: as newly known as it can be.

    charge: what was posted for the answer; the door says so to delivered() once the answer has left.
    """

    id: bytes
    answer: NodeAnswer | None
    refusal: Refusal | None
    credits_remaining: int = 0
    charge: SettleRequest | None = None


class Replies(msgspec.Struct):
    """To one request. refusal: of the whole of it, and then there are no items. figures: None when not known."""

    items: Sequence[Reply]
    refusal: Refusal | None
    figures: Figures | None
    credits_remaining: int = 0


class Pipeline:
    """Belongs to one event loop. edge: random bytes of this process, which make its operation ids unique."""

    def __init__(self, accounts: AccountsClient, node: Node, clock: Clock, edge: bytes, in_flight_max: int) -> None:
        assert len(edge) == EDGE_BYTES, len(edge)
        self._accounts, self._node, self._clock = accounts, node, clock
        self._edge = edge
        self._operations = 0
        self._in_flight = 0
        self._in_flight_max = in_flight_max
        self._background: set[asyncio.Task[Any]] = set()

    async def single(self, proof: Proof, call: Call | BadCall | Admitted) -> Replies:
        """A single call. Its own refusals are in items[0]; refusals of the request, such as AUTH_FAILED, are not.

        call: also admitted already, by a door whose work is not in the catalog and has a price of its own.
        """
        if isinstance(call, Admitted):
            admitted: Admitted | Refusal = call
        else:
            admitted = admit(call) if type(call) is Call else call.refusal  # type: ignore[union-attr]
        if isinstance(admitted, Refusal):
            return await self._refuse(proof, [Reply(call.id, None, admitted)])
        if self._in_flight >= self._in_flight_max:
            return Replies((), _SHED, None)
        self._in_flight += 1
        try:
            operation = self._take_operations(1)
            held_at = self._clock.now()
            held = await self._hold(HoldRequest(operation, proof, admitted.plan.items))
            if held.refusal is not None:
                return _whole(held)
            verdict = held.verdicts[0]
            if verdict is not None:
                assert held.figures is not None
                reply = Reply(call.id, None, Refusal(Err[verdict]))
                return Replies((reply,), None, held.figures, held.figures.credits_remaining)
            reply = await self._carry_out(admitted, operation, held, held_at)
            return Replies((reply,), None, held.figures, reply.credits_remaining)
        except OwnerUnavailable:
            return Replies((), _OWNER_GONE, None)
        finally:
            self._in_flight -= 1

    async def batch(self, proof: Proof, calls: Sequence[Call | BadCall]) -> Replies:
        """All calls under one hold, worked on at once, each with its own verdict and charge; replies in order."""
        verdicts = [admit(call) if isinstance(call, Call) else call.refusal for call in calls]
        admitted = [verdict for verdict in verdicts if isinstance(verdict, Admitted)]
        replies: list[Reply | None] = [
            Reply(call.id, None, verdict) if isinstance(verdict, Refusal) else None
            for call, verdict in zip(calls, verdicts, strict=True)
        ]
        if not admitted:
            return await self._refuse(proof, [reply for reply in replies if reply is not None])
        if self._in_flight + len(admitted) > self._in_flight_max:
            return Replies((), _SHED, None)
        self._in_flight += len(admitted)
        try:
            done = await self._carry_out_all(proof, admitted)
        except OwnerUnavailable:
            return Replies((), _OWNER_GONE, None)
        finally:
            self._in_flight -= len(admitted)
        ends = iter(done.items)
        return Replies(
            [] if done.refusal is not None else [reply if reply is not None else next(ends) for reply in replies],
            done.refusal,
            done.figures,
            done.credits_remaining,
        )

    def delivered(self, charges: Sequence[SettleRequest]) -> None:
        """The answers that these paid for have left."""
        for charge in charges:
            self._accounts.delivered(charge.pubkey, charge.operation)

    async def drain(self) -> None:
        """Wait for what is still being settled for callers who left."""
        while self._background:
            await asyncio.wait(self._background)

    # --- the steps

    async def _refuse(self, proof: Proof, refused: list[Reply]) -> Replies:
        """Nothing to hold, but the credential still has to be good, and the answer carries the account's figures."""
        if self._in_flight >= self._in_flight_max:
            return Replies((), _SHED, None)
        self._in_flight += 1
        try:
            held = await self._accounts.hold(HoldRequest(self._take_operations(1), proof, ()))
        except OwnerUnavailable:
            return Replies(refused, None, None)
        finally:
            self._in_flight -= 1
        if held.refusal is not None:
            # Telling somebody that a method does not exist serves nothing on trust, so it needs no owner.
            return Replies(refused, None, None) if held.refusal == _OWNER_GONE.err.name else _whole(held)
        figures = held.figures
        return Replies(refused, None, figures, 0 if figures is None else figures.credits_remaining)

    async def _hold(self, request: HoldRequest) -> HoldReply:
        try:
            return await self._accounts.hold(request)
        except asyncio.CancelledError:
            self._in_background(self._unhold(request))
            raise

    async def _carry_out_all(self, proof: Proof, admitted: Sequence[Admitted]) -> Replies:
        async def hold(items: tuple[HoldItem, ...], pubkey: bytes | None) -> Granted:
            operation, held_at = self._take_operations(len(items)), self._clock.now()
            asked = proof if pubkey is None else ProvenProof(pubkey)
            return Granted(operation, await self._hold(HoldRequest(operation, asked, items)), held_at)

        async def carry_out(item: Admitted, granted: Granted, index: int) -> Reply:
            return await self._carry_out(item, operation_at(granted.operation, index), granted.held, granted.held_at)

        def give_up(item: Admitted, granted: Granted, index: int) -> None:
            operation = operation_at(granted.operation, index)
            self._in_background(self._settle_quietly(_release_of(item, operation, granted.held, granted.held_at)))

        batch = Batch(admitted, hold, carry_out, give_up)
        held = await batch.run()
        if held.refusal is not None:
            return _whole(held)
        assert held.figures is not None
        ends = [
            Reply(item.id, None, Refusal(Err[end])) if isinstance(end, str) else end
            for item, end in zip(admitted, batch.ends, strict=True)
        ]
        known = [end.credits_remaining for end in batch.ends if isinstance(end, Reply)]
        return Replies(ends, None, held.figures, min(known, default=held.figures.credits_remaining))

    async def _carry_out(self, admitted: Admitted, operation: bytes, held: HoldReply, held_at: int) -> Reply:
        """Ask the node, judge its answer, settle, and only then let the answer go."""
        plan = admitted.plan
        settle = _release_of(admitted, operation, held, held_at)
        try:
            if plan.sends:
                answer = await self._send(admitted, settle)
            else:
                answer = await self._node.call(plan.method, admitted.params, plan.timeout_ms)
            ending = outcomes.judge(plan.method, plan.ceiling, answer)
        except _TakenOver:
            raise asyncio.CancelledError from None
        except BaseException:
            self._in_background(self._settle_quietly(settle))
            raise
        if ending.charged == 0:
            return await self._release(admitted.id, answer, ending.refusal, settle, held)
        return await self._post(admitted.id, answer, _ended(settle, ending.charged, ending.outcome))

    async def _post(self, raw_id: bytes, answer: NodeAnswer, settle: SettleRequest) -> Reply:
        try:
            settled = await self._accounts.settle(settle)
        except OwnerUnavailable:
            settled = SettleReply(False, 0)
        except asyncio.CancelledError:
            # The request to post may be on its way already; asked again it changes nothing.
            self._in_background(self._settle_quietly(_ended(settle, settle.charged, _GONE)))
            raise
        if settled.ok:
            return Reply(raw_id, answer, None, settled.credits_remaining, settle)
        self._accounts.void(settle)
        return Reply(raw_id, None, _NOT_RECORDED, settled.credits_remaining)

    async def _release(
        self, raw_id: bytes, answer: NodeAnswer, refusal: Refusal | None, settle: SettleRequest, held: HoldReply
    ) -> Reply:
        """The reply is free, so it may leave even if the release stays unknown; the hold then expires by itself."""
        assert held.figures is not None
        remaining = held.figures.credits_remaining
        try:
            settled = await self._accounts.settle(settle)
            remaining = settled.credits_remaining if settled.ok else remaining
        except OwnerUnavailable:
            self._accounts.void(settle)
        except asyncio.CancelledError:
            self._in_background(self._settle_quietly(settle))
            raise
        return Reply(raw_id, answer if refusal is None else None, refusal, remaining)

    async def _send(self, admitted: Admitted, settle: SettleRequest) -> NodeAnswer:
        """As a call, but when the caller leaves the send goes on, and is settled, without it."""
        plan = admitted.plan
        call = asyncio.ensure_future(self._node.call(plan.method, admitted.params, plan.timeout_ms))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            self._in_background(self._settle_send(call, plan.ceiling, settle))
            raise _TakenOver from None

    # --- after the caller left

    async def _settle_send(self, call: "asyncio.Future[NodeAnswer]", ceiling: int, settle: SettleRequest) -> None:
        try:
            ending = outcomes.judge(settle.method, ceiling, await call)
            settle = _ended(settle, ending.charged, _GONE if ending.charged else _RELEASED)
        finally:
            await self._settle_quietly(settle)

    async def _unhold(self, request: HoldRequest) -> None:
        """Asked again, the hold names its account; then it is released."""
        try:
            held = await self._accounts.hold(request)
        except OwnerUnavailable:
            return  # The holds, if there are any, expire by themselves.
        for index, verdict in enumerate(held.verdicts):
            if verdict is None and held.refusal is None:
                item: HoldItem = request.items[index]
                operation = operation_at(request.operation, index)
                await self._settle_quietly(
                    SettleRequest(
                        operation, held.pubkey, held.epoch, item.method, item.ceiling, 0, _RELEASED, self._clock.now()
                    )
                )

    async def _settle_quietly(self, settle: SettleRequest) -> None:
        try:
            settled = await self._accounts.settle(settle)
            if settled.ok and settle.charged:
                self._accounts.delivered(settle.pubkey, settle.operation)  # There is nobody left to deliver it to.
        except OwnerUnavailable:
            logger.warning("operation %s is left to the expiry of its hold", settle.operation.hex())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _take_operations(self, count: int) -> bytes:
        first = self._operations
        self._operations += count
        return self._edge + first.to_bytes(8, "big")


class _TakenOver(Exception):
    """The caller left, and a background task now settles the call."""


def _whole(held: HoldReply) -> Replies:
    assert held.refusal is not None
    err = Err[held.refusal]
    remaining = 0 if held.figures is None else held.figures.credits_remaining
    return Replies((), Refusal(err, _HOLD_DETAILS.get(err, "")), held.figures, remaining)


def _release_of(admitted: Admitted, operation: bytes, held: HoldReply, held_at: int) -> SettleRequest:
    plan = admitted.plan
    return SettleRequest(operation, held.pubkey, held.epoch, plan.method, plan.ceiling, 0, _RELEASED, held_at)


def _ended(settle: SettleRequest, charged: int, outcome: int) -> SettleRequest:
    return SettleRequest(
        settle.operation,
        settle.pubkey,
        settle.epoch,
        settle.method,
        settle.ceiling,
        charged,
        outcome,
        settle.held_at,
    )
