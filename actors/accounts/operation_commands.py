"""Carries out the commands on operations: holds credits before work begins, and posts or releases them after it.

Implements: operations.HoldOperations and ChargeOperations; money rules 1, 2, 3 and 9. A shell: holds_of_work.py and
core.py decide. The store is asked about every operation before it is held: a hold of one that was charged long ago
would be posted a second time, and the database would refuse the group.
"""

import asyncio
from collections.abc import Awaitable

from actors.accounts.account import ACTIVE, apply
from actors.accounts.activations import Activations
from actors.accounts.admission import figures
from actors.accounts.api import OwnerReply, OwnerUnavailable, refused
from actors.accounts.commits import GroupCommit
from actors.accounts.holds_of_work import decide_release, decide_work
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.accounts.settling import Settled, Settling
from actors.calls import OTHER_PRICES, Outcome, SettleReply, SettleRequest
from actors.errors import Err

Charged = OwnerReply[tuple[bool, ...]]


class OperationCommands:
    def __init__(self, activations: Activations, commits: GroupCommit, settling: Settling) -> None:
        self._activations, self._commits, self._settling = activations, commits, settling

    async def hold(self, command: HoldOperations) -> Charged:
        account = await self._activations.load(command.pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        unknown = [each for each in command.operations if each not in account.holds]
        account = await self._settling.recall(command.pubkey, unknown)
        # The turn: nothing is awaited from here on.
        moment = self._activations.moment()
        if not self._commits.admits(moment.steady):
            raise OwnerUnavailable("the ledger is not committing")
        self._activations.check_current(account)
        if account.profile.status != ACTIVE:
            return refused(Err.METHOD_NOT_ALLOWED)
        if command.price_list != account.price_list:
            return OwnerReply(refusal=OTHER_PRICES, detail=account.price_list)
        self._activations.end_due(account, moment)
        verdicts, events = decide_work(account, command.operations, command.credits_each, moment)
        for event in events:
            apply(account, event)
        account.used_at = moment.steady
        return OwnerReply(verdicts, figures=figures(account, moment))

    async def charge(self, command: ChargeOperations) -> Charged:
        self._release(command)
        if not command.operations:
            return OwnerReply(())
        account = await self._activations.load(command.pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        charging = command.operations
        if account.profile.status != ACTIVE:
            charging = tuple(each for each in charging if each in account.holds)
            if not charging:
                return refused(Err.METHOD_NOT_ALLOWED)
        pubkey, epoch, credits = command.pubkey, self._commits.epoch, command.credits_each
        now = self._activations.moment().wall_ms // 1000
        requests = [
            SettleRequest(each, pubkey, epoch, command.method, credits, credits, Outcome.ANSWERED, now)
            for each in charging
        ]
        replies = await asyncio.gather(*(_durable(self._settling.settle_now(request)) for request in requests))
        charged = {each for each, reply in zip(charging, replies, strict=True) if reply.ok}
        told = figures(account, self._activations.moment())
        return OwnerReply(tuple(each in charged for each in command.operations), figures=told)

    def _release(self, command: ChargeOperations) -> None:
        """Release holds; only an account in memory has any."""
        account = self._activations.accounts.get(command.pubkey)
        if account is not None:
            for ended in decide_release(account, command.released, self._activations.moment()):
                apply(account, ended)


async def _durable(settled: Settled | Awaitable[SettleReply]) -> SettleReply:
    """Return the reply of a settle, once it is in the ledger."""
    reply, written = settled if isinstance(settled, tuple) else (await settled, None)
    if written is not None:
        await asyncio.shield(written)
    return reply
