"""The owner's side of the hot links: handles the requests of edges, and cleans up when an edge goes away.

Implements: decisions, money rule 2; hostile input 57 (an edge that comes back after its charges were voided).
A shell. An edge is a process that answers clients; it names itself in the first half of each operation id. An edge that
goes away leaves charges for answers that perhaps never left. They are refunded, in this order:

1. The edge is fenced: from then on nothing that it asks under this id is granted, posted or taken as delivered. It is
   told to start over under another id.
2. Its holds are released.
3. Its charges whose answers it did not report as delivered are voided, as many in one turn as fit one group commit. An
   answer that left in the edge's last moments, before it was reported, is refunded too: in doubt the customer keeps the
   credits.

So an edge that was only cut off, and comes back, cannot answer for a charge that is being refunded: before it lets a
late answer leave it asks for the charge again (client.py, `may_leave`), and is refused.

Fences and undelivered charges are in memory. An owner that is restarted needs no fences: the charges that were voided
are marked in the ledger. It learns the undelivered charges from the edges: each asks for its own again when its link
stands (client.py). Left is an edge that is killed before it has reached the new owner: its charges stay.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from actors.accounts.actor import AccountShard
from actors.accounts.api import OwnerUnavailable
from actors.calls import EDGE_BYTES, DeliveredNotice, HoldRequest, Noted, SettleReply, SettleRequest
from actors.hotlink.owner import StartOver

logger = logging.getLogger(__name__)

FENCED_MAX = 10_000  # Edges that came and went. The oldest is forgotten: its charges were voided long ago.
UNDELIVERED_MAX = 100_000  # Of one edge; more than it can have in flight. Beyond it the oldest are taken as delivered.
_VOIDED_AT_ONCE_MAX = 250  # In one turn, which takes some milliseconds; calls wait for it.
_AGAIN_SECONDS = 0.5


class UndeliveredCharges:
    """Charges whose answers have not left yet, by the edge that is to deliver them."""

    def __init__(self) -> None:
        self._edges: dict[bytes, dict[bytes, SettleRequest]] = {}

    def posted(self, settle: SettleRequest) -> None:
        """Keep a charge that was decided for this edge. Repeating it changes nothing."""
        edge = self._edges.setdefault(settle.operation[:EDGE_BYTES], {})
        edge[settle.operation] = settle
        if len(edge) > UNDELIVERED_MAX:
            del edge[next(iter(edge))]

    def delivered(self, operations: tuple[bytes, ...]) -> None:
        """Drop the charges of answers that have left their edge. Unknown operations are ignored."""
        for operation in operations:
            edge = self._edges.get(operation[:EDGE_BYTES])
            if edge is not None:
                edge.pop(operation, None)

    def gone(self, edge: bytes) -> list[SettleRequest]:
        """Take out the undelivered charges of an edge that is gone for good."""
        return list(self._edges.pop(edge, {}).values())

    def __len__(self) -> int:
        return sum(map(len, self._edges.values()))


class Edges:
    """The handlers of the link server, and `gone`, which it calls once an edge has been away for too long."""

    def __init__(self, shard: AccountShard, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._shard, self._sleep = shard, sleep
        self._undelivered = UndeliveredCharges()
        self._fenced: dict[bytes, None] = {}  # Oldest first.
        self._voiding: set[asyncio.Task[None]] = set()  # The event loop itself keeps no reference to its tasks.

    def is_fenced(self, edge: bytes) -> bool:
        return edge in self._fenced

    def hold(self, request: HoldRequest) -> Any:
        if self._fenced and request.operation[:EDGE_BYTES] in self._fenced:
            return StartOver()
        return self._shard.hold_now(request)

    def settle(self, request: SettleRequest) -> Any:
        if self._fenced and request.operation[:EDGE_BYTES] in self._fenced:
            return StartOver()
        result = self._shard.settle_now(request)
        if request.charged == 0:
            return result
        if isinstance(result, tuple):
            if result[0].ok:
                self._undelivered.posted(request)
            return result
        return self._settle_slowly(request, result)

    def void(self, request: SettleRequest) -> Any:
        """Void an operation, of a fenced edge too: its charges are voided anyway."""
        return self._shard.void_now(request)

    def delivered(self, notice: DeliveredNotice) -> Noted | StartOver:
        self._undelivered.delivered(notice.operations)
        if self._fenced:
            late = sum(operation[:EDGE_BYTES] in self._fenced for operation in notice.operations)
            if late:
                logger.warning("a fenced edge reports %d answers as delivered; their charges stay refunded", late)
                return StartOver()
        return Noted()

    def gone(self, edge: bytes) -> None:
        """Fence the edge, then void in the background what it did not deliver."""
        self._fenced[edge] = None
        if len(self._fenced) > FENCED_MAX:
            del self._fenced[next(iter(self._fenced))]
        self._shard.release_holds(edge)
        undelivered = self._undelivered.gone(edge)
        level = logging.WARNING if undelivered else logging.INFO  # A replica that is stopped in order leaves none.
        logger.log(level, "edge %s is gone and fenced; %d undelivered charges are voided", edge.hex(), len(undelivered))
        if undelivered:
            task = asyncio.create_task(self._void_all(undelivered))
            self._voiding.add(task)
            task.add_done_callback(self._voiding.discard)

    async def voided(self) -> None:
        """Wait until all voids are done."""
        while self._voiding:
            await asyncio.wait(self._voiding)

    async def _settle_slowly(self, request: SettleRequest, result: Awaitable[SettleReply]) -> SettleReply:
        # Noted before the decision, and continued without its edge: if the edge dies meanwhile, the charge is voided.
        self._undelivered.posted(request)
        reply = await asyncio.shield(asyncio.ensure_future(result))
        if not reply.ok:
            self._undelivered.delivered((request.operation,))
        return reply

    async def _void_all(self, undelivered: list[SettleRequest]) -> None:
        """Void all. A void that the ledger cannot confirm is repeated; repeating it is harmless."""
        left = undelivered
        while left:
            again: list[SettleRequest] = []
            for start in range(0, len(left), _VOIDED_AT_ONCE_MAX):
                again += await self._void_group(left[start : start + _VOIDED_AT_ONCE_MAX])
            left = again
            if left:
                await self._sleep(_AGAIN_SECONDS)

    async def _void_group(self, requests: list[SettleRequest]) -> list[SettleRequest]:
        """Decide all in one turn, so that one group commit takes them. Gives those that must be asked again."""
        results = [self._shard.void_now(request) for request in requests]
        ends = await asyncio.gather(*map(_end_of, results), return_exceptions=True)
        again = []
        for request, end in zip(requests, ends, strict=True):
            if isinstance(end, BaseException):
                again.append(request)
                if not isinstance(end, OwnerUnavailable):
                    logger.error("operation %s could not be voided", request.operation.hex(), exc_info=end)
        return again


async def _end_of(result: Any) -> None:
    if not isinstance(result, tuple):
        await result
    elif result[1] is not None:
        await asyncio.shield(result[1])  # All entries of the group share this future.
