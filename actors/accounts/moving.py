"""Moves virtual shards from one running owner to another, with the state of their accounts that only memory has.

Implements: design, "Owners, for every kind of actor"; money rules 1, 2, 5, 11 and 12.
A shell. A move has three steps; the directing process (balancing.py) may end between any two:

1. The giver begins nothing new for the shards, lets running operations end, writes everything, and hands over what only
   memory has: holds, units of the rate limit, undelivered charges, seconds of streams. From then on it neither serves
   nor writes them. Requests for them are answered with "ask again".
2. The taker notes the undelivered charges, makes itself the owner in the database by the next epoch, claims the record
   of nonces, and serves. Only now do replicas learn of the new owner, and send it their unanswered requests.
3. The giver forgets the undelivered charges, which the taker has listed in the database by now.

A giver that hears nothing for KEPT_SECONDS asks the database: if it still owns the shards, it takes them back with the
next epoch, and a later taker is refused. A taker that dies during a move leaves shards that the database assigns to it
and nobody serves; it, or its successor, finds them there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from actors.accounts.account import Account, Admitted, apply
from actors.accounts.activations import Activations
from actors.accounts.api import OwnerUnavailable
from actors.accounts.commands import Commands
from actors.accounts.commits import GroupCommit
from actors.accounts.held_shards import HeldShards
from actors.accounts.holders_store import Giver
from actors.accounts.nonce_writer import NonceWriter
from actors.accounts.rate_window import Window
from actors.accounts.sessions import Sessions
from actors.accounts.store import AccountStore
from actors.accounts.stored import NotGiven, StoreUnavailable
from actors.accounts.stream_times import LeftTime, StreamTimes
from actors.accounts.undelivered import Listed, UndeliveredCharges
from actors.calls import REPLICA_ID_BYTES
from actors.identity.store import IdentityStoreUnavailable
from actors.units import VirtualShard, shard_of

logger = logging.getLogger(__name__)

KEPT_SECONDS = 10  # How long a giver waits for the taker before it asks the database.
_LOOK_SECONDS = 3  # Interval of checks for shards that nobody serves.
_COMMANDS_SECONDS = 1.0  # Commands that take longer are refused with 503 when they need the account again.
_STEP_SECONDS = 0.005


class HeldOperation(msgspec.Struct, frozen=True, array_like=True):
    operation: bytes
    ceiling: int
    seconds_left: int
    is_work: bool
    key: int = 0


class HandedAccount(msgspec.Struct, frozen=True, array_like=True):
    """State of an account that only memory has.

    second, used: window of its rate limit. keys: number, second, used of the windows of its named keys."""

    pubkey: bytes
    holds: tuple[HeldOperation, ...]
    second: int
    used: int
    keys: tuple[tuple[int, int, int], ...] = ()


class Handover(msgspec.Struct, frozen=True):
    """State that a giver hands over with shards. epoch: of its last write. fenced: replicas that it has given up."""

    giver: int
    epoch: int
    accounts: tuple[HandedAccount, ...] = ()
    undelivered: tuple[Listed, ...] = ()
    stream_times: tuple[LeftTime, ...] = ()
    fenced: tuple[bytes, ...] = ()

    def replicas(self) -> set[bytes]:
        """Return the replicas with unfinished operations: each must link to the taker."""
        held = {hold.operation[:REPLICA_ID_BYTES] for each in self.accounts for hold in each.holds if not hold.is_work}
        return held | {listed.replica for listed in self.undelivered}


class MovedParts(NamedTuple):
    """The parts of an owner that keep state of a shard."""

    held: HeldShards
    commits: GroupCommit
    activations: Activations
    commands: Commands
    nonces: NonceWriter
    sessions: Sessions
    stream_times: StreamTimes
    undelivered: UndeliveredCharges
    store: AccountStore


class ExpectedReplicas(Protocol):
    """The replicas that must link to a taker and report their undelivered charges (replicas.py)."""

    def expect(self, replicas: Iterable[bytes]) -> set[bytes]:
        """Expect these replicas to report. Returns those that were not expected before."""
        ...

    def expect_no_more(self, replicas: Iterable[bytes]) -> None: ...

    def give_up_later(self, replicas: Iterable[bytes]) -> None:
        """Give up those of these replicas that have not reported in time."""
        ...


class ShardMoves:
    def __init__(self, parts: MovedParts, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._parts, self._held, self._sleep = parts, parts.held, sleep
        self._given: dict[frozenset[VirtualShard], int] = {}  # When shards were given, in steady seconds.
        self._taking: set[VirtualShard] = set()
        self._unserved: set[VirtualShard] = set()  # As the last check found them.
        self._look_at = 0
        self.replicas: ExpectedReplicas | None = None  # None: no replica links to this owner.

    # --- the giver ------------------------------------------------------------------------------------------------

    async def give(self, shards: Sequence[VirtualShard]) -> Handover:
        """Step 1. Skips shards that are not served here. Raises OwnerUnavailable: the shards stay."""
        held, commits = self._held, self._parts.commits
        leaving = frozenset(shard for shard in shards if held.admits(shard))
        if not leaving:
            raise OwnerUnavailable("none of these shards is served here")
        held.leave(leaving)
        try:
            await self._settled(leaving)
        except (OwnerUnavailable, StoreUnavailable, IdentityStoreUnavailable) as error:
            held.stay(leaving)
            raise OwnerUnavailable(f"the shards stay: {error}") from error
        except BaseException:
            held.stay(leaving)
            raise
        # The turn: from here to the end nothing is awaited.
        steady = self._parts.activations.moment().steady
        handover = Handover(
            held.index,
            commits.epoch,
            tuple(self._handed(leaving)),
            tuple(self._parts.undelivered.leaving(lambda pubkey: shard_of(pubkey) in leaving)),
            tuple(self._parts.stream_times.leave(lambda pubkey: shard_of(pubkey) in leaving, steady)),
        )
        self._parts.activations.forget(self._accounts_of(leaving))
        held.drop(leaving)
        self._given[leaving] = steady
        return handover

    async def _settled(self, leaving: frozenset[VirtualShard]) -> None:
        """Wait until every operation begun for these shards has ended and is written."""
        parts = self._parts
        for _ in range(int(_COMMANDS_SECONDS / _STEP_SECONDS)):
            if not parts.commands.is_busy(leaving):
                break
            await self._sleep(_STEP_SECONDS)
        await parts.sessions.leave(lambda pubkey: shard_of(pubkey) in leaving)
        await parts.nonces.leave(leaving)
        try:
            while waiting := [parts.commits.pending(each.pubkey) for each in self._accounts_of(leaving)]:
                written = next((future for future in waiting if future is not None), None)
                if written is None:
                    break
                await asyncio.shield(written)
            while (naming := parts.commits.naming(leaving)) is not None:
                await asyncio.shield(naming)
            if not parts.commits.open:
                raise OwnerUnavailable("the ledger is not committing")
        except BaseException:
            await parts.nonces.add(tuple(leaving))
            raise

    def _accounts_of(self, shards: frozenset[VirtualShard]) -> list[Account]:
        return [account for account in self._parts.activations.accounts.values() if account.shard in shards]

    def _handed(self, leaving: frozenset[VirtualShard]) -> Iterable[HandedAccount]:
        moment = self._parts.activations.moment()
        second = moment.wall_ms // 1000
        for account in self._accounts_of(leaving):
            window = account.window
            if account.holds or window.second >= second:
                holds = tuple(
                    HeldOperation(
                        operation, hold.ceiling, max(1, hold.expires_at - moment.steady), hold.is_work, hold.key
                    )
                    for operation, hold in account.holds.items()
                )
                windows = ((number, key.window) for number, key in account.keys.by_number.items())
                keys = tuple((number, each.second, each.used) for number, each in windows if each.second >= second)
                yield HandedAccount(account.pubkey, holds, window.second, window.used, keys)

    def given(self, shards: Iterable[VirtualShard]) -> None:
        """Step 3. The shards are another owner's, which has listed their undelivered charges."""
        gone = frozenset(shards)
        self._given = {each: since for each, since in self._given.items() if not each & gone}
        self._parts.undelivered.gone(lambda pubkey: shard_of(pubkey) in gone and not self._held.has_account(pubkey))

    # --- the taker ------------------------------------------------------------------------------------------------

    async def take(self, shards: Sequence[VirtualShard], handover: Handover) -> None:
        """Step 2. Skips shards that are served here. Raises OwnerUnavailable; then nothing was taken, or `tick`
        continues."""
        missing = self._held.missing(shards)
        if not missing or self._taking & set(missing):
            return
        await self._take(missing, Giver(handover.giver, handover.epoch), handover)

    async def _take(self, shards: Sequence[VirtualShard], by: Giver, handover: Handover) -> None:
        parts, replicas = self._parts, self.replicas
        self._taking |= set(shards)
        # Before the database names this owner: a replica that learns of it reports at once what is undelivered.
        recalled = parts.undelivered.recall(handover.undelivered)
        expected = set() if replicas is None else replicas.expect(handover.replicas())
        try:
            try:
                await parts.commits.adopt(shards, by)
            except BaseException:
                parts.undelivered.delivered(recalled)
                if replicas is not None:
                    replicas.expect_no_more(expected)
                raise
            if replicas is not None:
                replicas.give_up_later(expected)
            await self._come(shards, handover)
        except NotGiven:
            raise OwnerUnavailable("the giver of these shards has them again, or somebody else has") from None
        except IdentityStoreUnavailable as error:
            raise OwnerUnavailable(str(error)) from error
        finally:
            self._taking -= set(shards)

    async def _come(self, shards: Sequence[VirtualShard], handover: Handover) -> None:
        """Serve shards that this owner has by now."""
        parts = self._parts
        await parts.nonces.add(shards)
        handed = {each.pubkey: each for each in handover.accounts}
        read = await asyncio.gather(*map(parts.activations.read, handed))
        if not parts.commits.open:
            raise OwnerUnavailable("the ledger did not commit")
        # The turn: from here until the shards are served nothing is awaited.
        parts.activations.forget_unknown()
        parts.sessions.forget_unknown()
        moment = parts.activations.moment()
        for account in read:
            if account is not None:
                parts.activations.insert(account)
                _restore(account, handed[account.pubkey], moment.steady)
        parts.stream_times.come(handover.stream_times, moment.steady)
        self._held.serve(shards)
        await asyncio.shield(parts.commits.listed())

    async def take_back(self, shards: Sequence[VirtualShard]) -> None:
        """Serve shards again that another owner was given and did not take."""
        if missing := self._held.missing(shards):
            await self._take_back(missing)

    # --- what a move left behind ----------------------------------------------------------------------------------

    async def tick(self, steady: int) -> None:
        """Find shards that the database assigns to this owner and that it does not serve; end abandoned moves."""
        late = [shards for shards, since in self._given.items() if steady - since >= KEPT_SECONDS]
        if steady < self._look_at and not late:
            return
        self._look_at = steady + _LOOK_SECONDS
        try:
            routes = await self._parts.store.holders.routes()
        except StoreUnavailable:
            return
        mine = {VirtualShard(shard) for shard, holder in enumerate(routes.owners) if holder == self._held.index}
        for shards in late:
            if not shards & mine:
                self.given(shards)
        waiting = {shard for shards in self._given if shards not in late for shard in shards}
        unserved = mine - set(self._held.all) - waiting - self._taking
        again, self._unserved = unserved & self._unserved, unserved
        stuck = {shard for shard in self._held.missing(self._held.all) if shard not in self._taking}
        returned = {shard for shards in late for shard in shards & mine}
        if wanted := sorted(again | returned | stuck):
            await self._take_back(wanted)

    async def _take_back(self, shards: Sequence[VirtualShard]) -> None:
        logger.warning("%d shards of this owner stand unserved, and are taken by the next epoch", len(shards))
        try:
            lists = await self._parts.store.undelivered.recall_all()
            nothing = Handover(self._held.index, 0, undelivered=tuple(lists))
            await self._take(shards, Giver(self._held.index, None), nothing)
        except (OwnerUnavailable, StoreUnavailable) as error:
            logger.warning("shards stay unserved for now: %s", error)
        else:
            self._given = {each: since for each, since in self._given.items() if not each & set(shards)}


def _restore(account: Account, handed: HandedAccount, steady: int) -> None:
    account.window.second, account.window.used = handed.second, handed.used
    for number, *window in handed.keys:
        if number in account.keys.by_number:
            account.keys.by_number[number].window = Window(*window)
    for hold in sorted(handed.holds, key=lambda hold: hold.seconds_left):
        held, until = ((hold.operation, hold.ceiling),), steady + hold.seconds_left
        apply(account, Admitted(hold.operation, steady, handed.second, 0, held, until, None, hold.is_work, hold.key))
