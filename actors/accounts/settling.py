"""Ends operations: settles, releases or voids them, also when another owner granted their holds.

Implements: design, "One billed call" step 6; money rules 1 and 2; threats 17, 19 and 57.
A shell: core.py decides. An operation that is not in memory is looked up in the store first. Nothing is awaited between
finding the account in memory and recording the event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Optional

from actors.accounts.account import Account, BatchesRecalled, Moment, Moved, apply
from actors.accounts.activations import Activations, NotHeld
from actors.accounts.admission import credits_left
from actors.accounts.api import OwnerUnavailable
from actors.accounts.coalesced_lookup import CoalescedLookup
from actors.accounts.commits import GroupCommit
from actors.accounts.core import Settlement, decide_recall, decide_settle, decide_void, is_due
from actors.accounts.credits import unknown_batches
from actors.accounts.held_shards import HeldShards
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable
from actors.accounts.view import View
from actors.calls import SettleReply, SettleRequest
from actors.units import shard_of

Decide = Callable[[Account, SettleRequest, Moment, bool], Settlement]
Durable = Optional["asyncio.Future[None]"]  # The group commit that the reply waits for, or None.
Settled = tuple[SettleReply, Durable]


class Settling:
    def __init__(self, commits: GroupCommit, activations: Activations, store: AccountStore, held: HeldShards) -> None:
        self._held = held
        self._commits, self._activations, self._store = commits, activations, store
        self._accounts = activations.accounts
        self._past_operations = CoalescedLookup(store.find_ended)

    def settle_now(self, request: SettleRequest) -> Settled | Awaitable[SettleReply]:
        """Post or release. The future is the group commit: the reply may leave when it is done.

        If it fails, the outcome is unknown and the caller must ask again. None: nothing waits for the ledger. Raises
        NotHeld."""
        if self._held.leaving and not self._held.admits(shard_of(request.pubkey)):
            raise NotHeld("the account's shard is on its way to another owner")
        account = self._accounts.get(request.pubkey)
        if not self._commits.open and (account is None or request.charged > 0):
            return SettleReply(False, None), self._commits.closed
        if account is None:
            return self._end_slowly(request, decide_settle)
        if request.shown is not None:
            self._show(account, request)
        return self._end_now(account, request, decide_settle)

    def _show(self, account: Account, request: SettleRequest) -> None:
        """Keep the slots that an answer shows, even if its charge fails: then nobody sees the answer."""
        assert request.shown is not None
        view = account.view = account.view or View()
        is_ours = request.operation in account.holds
        view.show(request.shown, is_ours, self._activations.moment().steady)

    def void_now(self, request: SettleRequest) -> Settled | Awaitable[SettleReply]:
        """End this operation so that it costs nothing; ok when it does. Otherwise as settle_now."""
        if self._held.leaving and not self._held.admits(shard_of(request.pubkey)):
            raise NotHeld("the account's shard is on its way to another owner")
        if not self._commits.open:
            return SettleReply(False, None), self._commits.closed
        account = self._accounts.get(request.pubkey)
        if account is None:
            return self._end_slowly(request, decide_void)
        return self._end_now(account, request, decide_void)

    def _end_now(self, account: Account, request: SettleRequest, decide: Decide) -> Settled | Awaitable[SettleReply]:
        try:
            return self._end(account, request, decide) or self._end_slowly(request, decide)
        except AssertionError:
            self._commits.distrust(account)
            return SettleReply(False, None), self._commits.closed

    def _end(
        self, account: Account, request: SettleRequest, decide: Decide, asked_store: bool = False
    ) -> Settled | None:
        """End an operation in one turn. None: the store must first be asked how the operation ended."""
        moment = self._activations.moment()
        if is_due(account, moment):
            self._activations.end_due(account, moment)
        settlement = decide(account, request, moment, asked_store)
        ok, event = settlement.ok, settlement.event
        if ok is None:
            return None
        future = None
        if event is not None:
            apply(account, event)
            if type(event) is Moved or getattr(event, "mark", None) is not None:
                future = self._commits.record(account, event)
        elif ok:
            future = self._commits.pending(account.pubkey)  # It ended before, perhaps in a group still under way.
        left: int = account.purse.balance - account.purse.held
        if request.key:
            left = credits_left(account, moment, account.keys.path(request.key))
        return SettleReply(ok, left), future

    async def _end_slowly(self, request: SettleRequest, decide: Decide) -> SettleReply:
        """Load the account, ask the store about an operation unknown to memory, and end it. Raises OwnerUnavailable.

        An operation of another owner's account must be retried: it must not count as done before that owner has ended
        it.
        """
        account = await self._activations.load(request.pubkey)
        if account is None:
            return SettleReply(request.charged == 0 or decide is decide_void, None)
        ended = self._end_if_current(account, request, decide)
        if ended is None:
            ended = await self._end_with_store(request, decide)
        reply, future = ended
        if future is not None:
            await asyncio.shield(future)
        return reply

    async def recall(self, pubkey: bytes, operations: Sequence[bytes]) -> Account:
        """Load what the store knows of these operations into memory, as if it had never been forgotten. Returns the
        account in memory; raises OwnerUnavailable, StoreUnavailable."""
        generation = self._commits.generation
        pasts = await asyncio.gather(*(self._past_operations.find((pubkey, operation)) for operation in operations))
        account = await self._current(pubkey, generation)
        for operation, past in zip(operations, pasts, strict=True):
            if account.operations.get(operation) is None:  # Otherwise it ended while the store was read.
                recalled = decide_recall(operation, past, self._activations.moment())
                if recalled is not None:
                    apply(account, recalled)
        return account

    async def _end_with_store(self, request: SettleRequest, decide: Decide) -> Settled:
        generation = self._commits.generation
        pubkey, operation = request.pubkey, request.operation
        try:
            account = await self.recall(pubkey, (operation,))
            ended = account.operations.get(operation)
            voids = decide is decide_void or request.charged == 0
            if voids and ended is not None and (unknown := unknown_batches(account.purse, ended.parcels)):
                # A batch just made may not be in the store yet.
                pending = self._commits.pending(pubkey)
                if pending is not None:
                    await asyncio.shield(pending)
                batches = await self._store.find_batches(pubkey, unknown)
                account = await self._current(pubkey, generation)
                apply(account, BatchesRecalled(tuple(batches)))
        except StoreUnavailable as error:
            raise OwnerUnavailable("the ledger cannot be read") from error
        settled = self._end_if_current(account, request, decide, asked_store=True)
        assert settled is not None, request
        return settled

    async def _current(self, pubkey: bytes, generation: int) -> Account:
        """Return the account in memory after the store was read. Raises OwnerUnavailable when the answer may be
        outdated."""
        account = await self._activations.load(pubkey)
        if account is None or self._commits.generation != generation:
            raise OwnerUnavailable("the ledger did not commit")
        return account

    def _end_if_current(
        self, account: Account, request: SettleRequest, decide: Decide, asked_store: bool = False
    ) -> Settled | None:
        self._activations.check_current(account)
        try:
            return self._end(account, request, decide, asked_store)
        except AssertionError as error:
            self._commits.distrust(account)
            raise OwnerUnavailable("an invariant broke") from error
