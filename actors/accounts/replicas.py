"""The owner's side of the hot links: handles the requests of replicas, and cleans up when a replica goes away.

Implements: money rule 2; threats 57 (a replica that comes back after its charges were voided) and 66
(a replica and its owner die together).
A shell. A replica is a process that answers clients; it names itself in the first half of each operation id. A replica
that goes away leaves charges for answers that perhaps never left. They are refunded, in this order:

1. The replica is fenced: from then on nothing that it asks under this id is granted, posted or taken as delivered. It
   is told to start over under another id.
2. Its holds are released.
3. Its charges whose answers it did not report as delivered are voided, as many in one turn as fit one group commit. An
   answer that left in the replica's last moments, before it was reported, is refunded too: in doubt the customer keeps
   the credits.

So a replica that was only disconnected, and returns, cannot send an answer whose charge is being refunded: before a
late answer leaves it asks for the charge again (client.py, `may_leave`), and is refused.

Fences are in memory. A restarted owner needs none: voided charges are marked in the ledger. It reads the undelivered
charges that its predecessor listed with each group commit (undelivered.py). A replica that links to it reports which of
them are still undelivered. One that does not within RECALLED_SECONDS is given up like any other. Answers that left
after the last list was written are refunded then as well: those of the time between two groups, or of the second
between two beats of an owner without calls.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from actors.accounts.activations import NotHeld
from actors.accounts.actor import AccountShard
from actors.accounts.api import OwnerUnavailable
from actors.accounts.stored import StoreUnavailable
from actors.calls import (
    REPLICA_ID_BYTES,
    ChargeReply,
    ChargeRequest,
    DeliveredNotice,
    HoldRequest,
    Noted,
    Outcome,
    SettleReply,
    SettleRequest,
    StreamTime,
    UndeliveredNotice,
    is_lasting,
)
from actors.hotlink.owner import StartOver

logger = logging.getLogger(__name__)

FENCED_MAX = 10_000  # Fenced replicas kept. The oldest is forgotten: its charges were voided long ago.
# A replica finds a restarted owner within a second or two; a loaded machine takes longer. It must not be less than the
# time for which the former owner's confirmation lets answers leave (hotlink/replica.py, 4 s).
RECALLED_SECONDS = 10.0
_VOIDED_AT_ONCE_MAX = 250  # Voids in one turn, which takes some milliseconds; calls wait for it.
_AGAIN_SECONDS = 0.5
Ended = TypeVar("Ended", SettleReply, ChargeReply)


class Replicas:
    """Handlers of the link server, and `gone`, which it calls once a replica has been disconnected for too long."""

    def __init__(self, shard: AccountShard, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._shard, self._sleep = shard, sleep
        self._undelivered = shard.undelivered
        self._awaited: set[bytes] = set()  # Replicas with recalled charges that have not linked to this owner yet.
        self._none_awaited = asyncio.Event()
        self._none_awaited.set()
        self._fenced: dict[bytes, None] = {}  # Ordered by age.
        # Referenced here, because the event loop keeps no reference to its tasks.
        self._voiding: set[asyncio.Task[None]] = set()
        self._giving_up: set[asyncio.Task[None]] = set()

    def is_fenced(self, replica: bytes) -> bool:
        return replica in self._fenced

    def hold(self, request: HoldRequest) -> Any:
        if self._fenced and request.operation[:REPLICA_ID_BYTES] in self._fenced:
            return StartOver()
        return self._shard.hold_now(request)

    def settle(self, request: SettleRequest) -> Any:
        if self._fenced and request.operation[:REPLICA_ID_BYTES] in self._fenced:
            return StartOver()
        result = self._shard.settle_now(request)
        if request.charged == 0:
            return result
        if isinstance(result, tuple):
            if result[0].ok:
                self._undelivered.posted(request)
            return result
        return self._end_slowly(request, result, lambda reply: reply.ok)

    def charge(self, request: ChargeRequest) -> Any:
        settle = request.settle
        if self._fenced and settle.operation[:REPLICA_ID_BYTES] in self._fenced:
            return StartOver()
        result = self._shard.charge_now(request)
        if settle.charged == 0:
            return result
        if isinstance(result, tuple):
            settled = result[0].settled
            if settled is not None and settled.ok:
                self._undelivered.posted(settle)
            return result
        return self._end_slowly(settle, result, lambda reply: reply.settled is not None and reply.settled.ok)

    def stream_time(self, request: StreamTime) -> Any:
        if request.operation[:REPLICA_ID_BYTES] in self._fenced:
            return StartOver()
        return self._shard.stream_time(request)

    def void(self, request: SettleRequest) -> Any:
        """Void an operation, also of a fenced replica, whose charges are voided anyway."""
        result = self._shard.void_now(request)
        if not isinstance(result, tuple):
            return self._void_slowly(request, result)
        reply, future = result
        if reply.ok:
            if future is None:
                self._undelivered.delivered((request.operation,))
            else:
                future.add_done_callback(functools.partial(self._voided, request.operation))
        return result

    async def _void_slowly(self, request: SettleRequest, result: Awaitable[SettleReply]) -> SettleReply:
        reply = await result
        if reply.ok:
            self._undelivered.delivered((request.operation,))
        return reply

    def _voided(self, operation: bytes, future: "asyncio.Future[None]") -> None:
        if not future.cancelled() and future.exception() is None:
            self._undelivered.delivered((operation,))

    def delivered(self, notice: DeliveredNotice) -> Noted | StartOver:
        self._undelivered.delivered(notice.operations)
        if self._fenced:
            late = sum(operation[:REPLICA_ID_BYTES] in self._fenced for operation in notice.operations)
            if late:
                logger.warning("a fenced replica reports %d answers as delivered; their charges stay refunded", late)
                return StartOver()
        return Noted()

    def undelivered(self, notice: UndeliveredNotice) -> Any:
        """Record which answers of a replica have not left; it reports them after a reconnect and before its end.
        Answered when that is durable."""
        if notice.replica in self._fenced:
            return StartOver()
        self._await_no_more((notice.replica,))
        self._undelivered.told(notice.replica, notice.operations)
        return Noted(), self._shard.listed()

    def await_recalled(self) -> None:
        """Give up replicas that left undelivered charges and do not link in time. Call it once replicas can link."""
        expected = self.expect(self._undelivered.recalled())
        if expected:
            logger.info("the former owner listed undelivered charges of %d replicas, which may link", len(expected))
            self.give_up_later(expected)

    def expect(self, replicas: Iterable[bytes]) -> set[bytes]:
        # Lasting ids belong to no process, and never link.
        names = {replica for replica in replicas if not is_lasting(replica)}
        expected = {replica for replica in names if replica not in self._fenced} - self._awaited
        self._awaited |= expected
        if expected:
            self._none_awaited.clear()
        return expected

    def expect_no_more(self, replicas: Iterable[bytes]) -> None:
        self._await_no_more(replicas)

    def _await_no_more(self, replicas: Iterable[bytes]) -> None:
        self._awaited.difference_update(replicas)
        if not self._awaited:
            self._none_awaited.set()

    def give_up_later(self, replicas: Iterable[bytes]) -> None:
        self._in_background(self._give_up(set(replicas)), self._giving_up)

    async def _give_up(self, replicas: set[bytes]) -> None:
        await self._sleep(RECALLED_SECONDS)
        for replica in replicas & self._awaited:
            self.gone(replica)

    def fenced(self) -> tuple[bytes, ...]:
        """Return the replicas that this owner has given up; a taker of its shards must refuse them too."""
        return tuple(self._fenced)

    def gone(self, replica: bytes) -> None:
        """Fence the replica, then void its undelivered charges in the background. Repeating it changes nothing."""
        if replica in self._fenced:
            return
        self._fenced[replica] = None
        if len(self._fenced) > FENCED_MAX:
            del self._fenced[next(iter(self._fenced))]
        self._shard.release_holds(replica)
        logger.info("replica %s is gone and fenced", replica.hex())
        self._in_background(self._end(replica), self._voiding)
        self._await_no_more((replica,))

    def _in_background(self, work: Coroutine[Any, Any, None], tasks: "set[asyncio.Task[None]]") -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def voided(self) -> None:
        """Wait until all voids are done, and each awaited replica has linked or was given up. Takes seconds when all
        are alive; then all undelivered charges are known."""
        while self._voiding or self._awaited:
            if self._awaited:
                await self._none_awaited.wait()
            else:
                await asyncio.wait(self._voiding)

    async def _end_slowly(
        self, request: SettleRequest, result: Awaitable[Ended], is_posted: Callable[[Ended], bool]
    ) -> Ended:
        # Recorded before the decision, and continued without its replica: if the replica dies meanwhile, the charge is
        # voided.
        self._undelivered.posted(request)
        try:
            reply = await asyncio.shield(asyncio.ensure_future(result))
        except NotHeld:
            self._undelivered.delivered((request.operation,))  # Another owner charged it, and lists it.
            raise
        if not is_posted(reply):
            self._undelivered.delivered((request.operation,))
        return reply

    async def _end(self, replica: bytes) -> None:
        """Void undelivered charges.

        A void that the ledger cannot confirm is repeated, which is harmless. Until a void is done its charge stays
        listed for a successor of this owner."""
        undelivered = self._undelivered.of(replica)
        left = await self._with_accounts(undelivered)
        if left:  # A replica that stops in order leaves none.
            count = len(left)
            while left:
                again: list[SettleRequest] = []
                for start in range(0, len(left), _VOIDED_AT_ONCE_MAX):
                    again += await self._void_group(left[start : start + _VOIDED_AT_ONCE_MAX])
                left = again
                if left:
                    await self._sleep(_AGAIN_SECONDS)
            logger.warning("replica %s: %d undelivered charges have been voided", replica.hex(), count)
        self._undelivered.delivered(undelivered)
        try:
            await self._shard.forget_replica(replica)
        except StoreUnavailable as error:
            logger.info("replica %s: its list stays until the next owner starts: %s", replica.hex(), error)

    async def _with_accounts(self, undelivered: dict[bytes, SettleRequest | None]) -> list[SettleRequest]:
        """Return the charges to void. For recalled operations, the ledger says whether and to which account they were
        charged."""
        recalled = [operation for operation, settle in undelivered.items() if settle is None]
        found: dict[bytes, bytes] = {}
        while recalled:
            try:
                found = await self._shard.charged(recalled)
                break
            except StoreUnavailable as error:
                logger.warning("%d charges wait for the ledger to be voided: %s", len(recalled), error)
                await self._sleep(_AGAIN_SECONDS)
        charges = [settle for settle in undelivered.values() if settle is not None]
        released = int(Outcome.RELEASED)
        return charges + [
            SettleRequest(name, found[name], 0, "", 0, 0, released, 0) for name in recalled if name in found
        ]

    def _begin_void(self, request: SettleRequest) -> Any:
        try:
            return self._shard.void_now(request)
        except NotHeld as error:
            return error

    async def _void_group(self, requests: list[SettleRequest]) -> list[SettleRequest]:
        """Decide all in one turn, so that one group commit takes them. Returns those that must be tried again."""
        results = [self._begin_void(request) for request in requests]
        ends = await asyncio.gather(*map(_end_of, results), return_exceptions=True)
        again = []
        for request, end in zip(requests, ends, strict=True):
            if not isinstance(end, BaseException):
                self._undelivered.delivered((request.operation,))
                continue
            if isinstance(end, NotHeld) and not self._undelivered.has(request.operation):
                continue  # Its shard has moved, and the new owner voids it.
            again.append(request)
            if not isinstance(end, OwnerUnavailable):
                logger.error("operation %s could not be voided", request.operation.hex(), exc_info=end)
        return again


async def _end_of(result: Any) -> None:
    if isinstance(result, NotHeld):
        raise result
    if not isinstance(result, tuple):
        await result
    elif result[1] is not None:
        await asyncio.shield(result[1])  # All entries of the group share this future.
