"""Holds and settles, in one turn, a call whose replica asked the node before holding credits.

Implements: decisions, "Calls asked ahead"; money rules 1, 2 and 3. A shell over the hold and the settle of every other
call: nothing is decided here, and both decisions are made without an await between them.

A request may arrive twice, as everything on the link. Memory knows the ends of all operations that were decided under
its epoch. Where the request names another epoch, a former owner, or this one before it lost its memory, may have ended
the operation: so the store is asked first.
"""

import asyncio
from collections.abc import Awaitable, Callable

from actors.accounts.api import OwnerUnavailable
from actors.accounts.commits import GroupCommit
from actors.accounts.settling import Durable, Settling
from actors.accounts.stored import StoreUnavailable
from actors.calls import (
    REPLICA_ID_BYTES,
    ChargeReply,
    ChargeRequest,
    HoldReply,
    HoldRequest,
    Outcome,
    SettleReply,
    SettleRequest,
)
from actors.errors import Err

Charged = tuple[ChargeReply, Durable]
_UNAVAILABLE = Err.SERVICE_TEMPORARILY_UNAVAILABLE.name


class Charging:
    """Holds and settles at once. hold_now: of the owner; False: the hold ends at once, so it needs no slot. settling:
    ends operations."""

    def __init__(
        self,
        hold_now: Callable[[HoldRequest, bool], HoldReply | Awaitable[HoldReply]],
        settling: Settling,
        commits: GroupCommit,
    ) -> None:
        self._hold_now, self._settling, self._commits = hold_now, settling, commits

    def charge_now(self, request: ChargeRequest) -> Charged | Awaitable[ChargeReply]:
        """Hold, then post or release. The future is that of the group commit, as for `settle_now`. Raises NotHeld."""
        if request.settle.epoch != self._commits.epoch:
            return self._charge_slowly(request)
        self._expect(request.operation[:REPLICA_ID_BYTES], request.coming)
        held = self._hold_now(request.hold, False)
        if not isinstance(held, HoldReply):
            return self._charge_held(held, request.settle)
        charged = self._end(held, request.settle)
        return charged if isinstance(charged, tuple) else self._charge_ended(held, charged)

    def _expect(self, replica: bytes, coming: int) -> None:
        """Let the group commit wait for the charges that follow, and no longer than for the last one."""
        if coming:
            self._commits.coming[replica] = coming
        else:
            self._commits.coming.pop(replica, None)

    def _end(self, held: HoldReply, settle: SettleRequest) -> Charged | Awaitable[SettleReply]:
        if held.refusal is not None or held.verdicts[0] is not None:
            return ChargeReply(held, None), None
        if held.pubkey != settle.pubkey:  # The key now belongs to another account, which did not send this call.
            release = SettleRequest(
                settle.operation, held.pubkey, held.epoch, settle.method, settle.ceiling, 0, int(Outcome.RELEASED), 0
            )
            self._settling.settle_now(release)
            return ChargeReply(HoldReply(held.pubkey, held.epoch, _UNAVAILABLE, (), None), None), None
        settled = self._settling.settle_now(settle)
        if not isinstance(settled, tuple):
            return settled
        reply, durable = settled
        return ChargeReply(held, reply), durable

    async def _charge_slowly(self, request: ChargeRequest) -> ChargeReply:
        """As `charge_now`, after asking the store. Raises OwnerUnavailable, so that the replica retries."""
        settle = request.settle
        try:
            await self._settling.recall(settle.pubkey, (settle.operation,))
        except StoreUnavailable as error:
            raise OwnerUnavailable("the ledger cannot be read") from error
        held = self._hold_now(request.hold, False)
        return await self._charge_held(held, settle)

    async def _charge_held(self, hold: HoldReply | Awaitable[HoldReply], settle: SettleRequest) -> ChargeReply:
        held = hold if isinstance(hold, HoldReply) else await hold
        charged = self._end(held, settle)
        if not isinstance(charged, tuple):
            return await self._charge_ended(held, charged)
        reply, durable = charged
        if durable is not None:
            await asyncio.shield(durable)
        return reply

    @staticmethod
    async def _charge_ended(held: HoldReply, settled: Awaitable[SettleReply]) -> ChargeReply:
        return ChargeReply(held, await settled)
