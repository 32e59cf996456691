"""The owner of many accounts: one turn per message, one group commit for all turns during a write.

Implements: design, "One billed call", "What must survive what"; money rules 1, 2, 5, 9, 11 and 12.
A shell: it waits, stores and wires; core.py decides, and account.apply changes the state. From finding an account in
memory to recording its events nothing is awaited, so no message sees half of a turn. After an await an account is
looked up again, because it may have been dropped meanwhile.

A plain class. host.py makes it a Ray actor; tests use it as it is.
"""

import asyncio
import functools
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from actors.accounts.account import Account, Defaults, Moment, apply
from actors.accounts.activations import Activations, NotHeld, WrongOwner
from actors.accounts.admission import decide_hold, decide_withdrawal, figures, hour_left_of, slots_left_of
from actors.accounts.api import OwnerUnavailable
from actors.accounts.charging import Charging
from actors.accounts.child_adoption import ChildRefused
from actors.accounts.commands import Commands
from actors.accounts.commits import GroupCommit
from actors.accounts.core import decide_replica_gone, is_due
from actors.accounts.credentials import Credentials
from actors.accounts.held_shards import HeldShards
from actors.accounts.hour_learning import HourLearning
from actors.accounts.hourly_limit import HOUR_MS, HourStopped
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.maintenance import Maintenance
from actors.accounts.moving import MovedParts, ShardMoves
from actors.accounts.named_keys import number_of
from actors.accounts.nonce_writer import NonceWriter
from actors.accounts.nonces import signed_request
from actors.accounts.sealing import SEAL_SECONDS, Sealing
from actors.accounts.sessions import Sessions
from actors.accounts.settling import Settling
from actors.accounts.store import AccountStore
from actors.accounts.stream_times import StreamTimes
from actors.accounts.undelivered import Place, UndeliveredCharges
from actors.accounts.usage import UsageRollup
from actors.accounts.view import NOTHING
from actors.calls import HoldReply, HoldRequest, KeyProof, StreamTime, StreamTimeReply, WalletProof, shard_of_proof
from actors.clock import Clock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.errors import Err
from actors.identity.store import IdentityStore, IdentityStoreUnavailable
from actors.receipts.root_keys import KeySeal
from actors.request_ids import REQUEST_ID, work_for
from actors.telemetry.metrics import Metrics
from actors.units import VirtualShard, shard_of

logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_DAY_SECONDS = 86_400
_TRIES_MAX = 3  # How often an account may be evicted during one request before the request fails.
_UNAVAILABLE, _AUTH_FAILED = Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, Err.AUTH_FAILED.name


class AccountShard:
    """virtual_shards: those owned at the start. owner_name: for people; a random suffix makes it unique. index: of this
    owner among all; None: the number of its first shard. seal: opens the keys that sign statements of the ledger; None:
    no statements are made.

    clock: of this process. A LedgerClock made of it gives the ledger's time to everything here. A caller that shares a
    LedgerClock with the identity store passes that one.
    """

    def __init__(
        self,
        config: AccountsConfig,
        identity_config: IdentityConfig,
        payments_config: PaymentsConfig,
        store: AccountStore,
        identity_store: IdentityStore,
        clock: Clock,
        owner_name: str,
        virtual_shards: Sequence[VirtualShard],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        metrics: Metrics | None = None,
        index: int | None = None,
        seal: KeySeal | None = None,
    ) -> None:
        clock = self._clock = clock if isinstance(clock, LedgerClock) else LedgerClock(clock)
        self._store, self._sleep = store, sleep
        batch_seconds = payments_config.credit_expiry_days * _DAY_SECONDS
        defaults = _defaults(config, batch_seconds)
        owner = f"{owner_name} {secrets.token_hex(8)}"
        metrics = metrics or Metrics()
        self.undelivered = UndeliveredCharges()
        held = self.held = HeldShards(min(virtual_shards, default=0) if index is None else index, virtual_shards)
        self._sealing = None
        if seal is not None:
            self._sealing = Sealing(store.seals, clock, held, seal, config.roots_dir, metrics, random_bytes)
        told = None if self._sealing is None else self._sealing.add
        self._commits = GroupCommit(store, clock, owner, held, self._forget, sleep, metrics, self.undelivered, told)
        self._activations = Activations(config, defaults, store, self._commits, clock, held)
        self._activations.report_to(metrics)
        self._accounts = self._activations.accounts
        self._sessions = Sessions(identity_store, clock, identity_config.session_seconds)
        self._nonces = NonceWriter(identity_store, clock, self._commits, virtual_shards)
        self._credentials = Credentials(self._activations, self._sessions, self._nonces, held)
        settling = Settling(self._commits, self._activations, store, held)
        self.settle_now, self.void_now = settling.settle_now, settling.void_now
        self.charge_now = Charging(self.hold_now, settling, self._commits).charge_now
        self._hours = HourLearning(store.usage, clock, self._activations)
        commands = Commands(
            self._activations,
            self._commits,
            self._credentials,
            store,
            settling,
            random_bytes,
            challenge_seconds=identity_config.challenge_seconds,
            credits_per_usdc=payments_config.credits_per_usdc,
            held=held,
            sealing=self._sealing,
        )
        self.ask, self.ask_many = commands.ask, commands.ask_many
        self._maintenance = Maintenance(store, clock, self._commits, self._activations, held)
        self._usage = UsageRollup(store.usage, clock, self._accounts)
        self._stream_times = StreamTimes()
        self.moving = ShardMoves(self._moved_parts(commands), sleep)
        self._tasks: list[asyncio.Task[None]] = []

    def _moved_parts(self, commands: Commands) -> MovedParts:
        return MovedParts(
            self.held,
            self._commits,
            self._activations,
            commands,
            self._nonces,
            self._sessions,
            self._stream_times,
            self.undelivered,
            self._store,
        )

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the shards over from their earlier owner, with its list of undelivered charges. Raises
        StoreUnavailable."""
        await self._commits.start()
        self.undelivered.recall(await self._store.undelivered.recall(Place(self.held.index)))
        self._nonces.start()
        self._tasks = [asyncio.create_task(self._for_ever(self.tick, _TICK_SECONDS))]
        if self._sealing is not None:
            self._tasks.append(asyncio.create_task(self._for_ever(self._seal, SEAL_SECONDS)))

    async def stop(self) -> None:
        """Write all decisions, then end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commits.stop()
        if self._sealing is not None and not self._commits.fenced:
            await self._sealing.finish()
        await self._nonces.stop()
        await self._sessions.flush()
        await self._store.close()

    async def health(self) -> dict[str, Any]:
        """Report the state of this owner.

        fenced: the shards have another owner, and this process must end. committing: paid calls are admitted.
        clock_doubt: why nothing expires for now; None while the clocks agree."""
        return {
            "fenced": self._commits.fenced,
            "committing": self._commits.admits(int(self._clock.monotonic())),
            "signatures": self._nonces.available,
            "epoch": self._commits.epoch,
            "shards": len(self.held.all),
            "clock_doubt": self._clock.doubt,
            "accounts": len(self._accounts),
            "waiting_entries": self._commits.gathered,
            "oldest_hold_seconds": self._activations.oldest_hold_seconds,
        }

    async def tick(self) -> None:
        """Do the work that is due, once a second: end holds and batches past their time, drop idle accounts, forget
        old nonces, prolong sessions, tell events, keep the usage rollup near the ledger, learn usual hours from it."""
        moment = self._activations.moment()
        due = self._activations.due(moment)
        if self._commits.open:
            for account in due:
                self._activations.end_due(account, moment)
        self._activations.evict_idle(moment.steady)
        self._stream_times.forget(moment.steady)
        await self._nonces.tick()
        await self._sessions.flush()
        await self._maintenance.tick()
        await self._usage.tick()
        await self.moving.tick(moment.steady)
        await self._hours.tick()

    async def _seal(self) -> None:
        if self._sealing is not None and not self._commits.fenced:
            await self._sealing.tick()

    async def _for_ever(self, tick: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            await self._sleep(seconds)
            try:
                await tick()
            except Exception:
                logger.exception("a tick failed; the next one tries again")

    # --- calls ----------------------------------------------------------------------------------------------------

    def hold_now(self, request: HoldRequest, needs_slot: bool = True) -> HoldReply | Awaitable[HoldReply]:
        """Admit a call or batch. Returns the reply where everything needed is in memory, else an awaitable of it.
        Raises NotHeld, and so may the awaitable. needs_slot: as in `decide_hold`."""
        moment = self._activations.moment()
        if self.held.leaving and not self.held.admits(shard_of_proof(request.proof)):
            raise NotHeld("the account's shard is on its way to another owner")
        account = self._credentials.known(request.proof)
        if not self._commits.admits(moment.steady):
            return self._unavailable(account)
        if account is None:
            return self._hold_slowly(request, needs_slot)
        try:
            return self._admit(account, request, moment, needs_slot)
        except AssertionError:
            named = work_for(request.request_id)
            self._commits.distrust(account)
            REQUEST_ID.reset(named)
            return self._refused(_UNAVAILABLE)

    def release_holds(self, replica: bytes) -> None:
        """Release all holds of a dead replica, with their slots."""
        moment = self._activations.moment()
        for account in self._accounts.values():
            for ended in decide_replica_gone(account, replica, moment):
                apply(account, ended)

    def listed(self) -> "asyncio.Future[None]":
        """Return a future that is done when the current lists of undelivered charges are durable."""
        return self._commits.listed()

    async def charged(self, operations: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return which accounts of this owner these operations were charged to. Raises StoreUnavailable."""
        return await self._store.undelivered.find_charged(operations, self.held.all)

    async def forget_replica(self, replica: bytes) -> None:
        """Remove the lists of a dead replica once they are empty. Raises StoreUnavailable."""
        self.undelivered.forget(replica)
        await self._store.undelivered.remove(self._commits.epoch, Place(self.held.index), self.held.all, replica)

    def stream_time(self, request: StreamTime) -> StreamTimeReply:
        """Take or leave the unpaid time of streams. Raises NotHeld."""
        if not self.held.admits(shard_of(request.pubkey)):
            raise NotHeld("the account's shard has another owner")
        return self._stream_times.tell(request, self._activations.moment().steady)

    def _admit(
        self, account: Account, request: HoldRequest, moment: Moment, needs_slot: bool
    ) -> HoldReply | Awaitable[HoldReply]:
        """Admit a call. The nonce of a signed request is judged first, and must be stored before admission (money rule
        11)."""
        account.used_at = moment.steady
        if is_due(account, moment):
            self._activations.end_due(account, moment)
        proof, operation, epoch = request.proof, request.operation, self._commits.epoch
        signed = signed_request(proof) if type(proof) is WalletProof else None
        if signed is not None:
            refused = self._nonces.refusal(signed, operation, account.rate_limit)
            if refused is not None:
                return HoldReply(account.pubkey, epoch, refused.name, (), figures(account, moment))
        admission = decide_hold(account, request, moment, needs_slot)
        event, refusal, path = admission.event, admission.refusal, admission.path
        if event is not None:
            apply(account, event)
        if admission.stopped and account.hourly.told_stopped != moment.wall_ms // HOUR_MS:
            self._activations.record(account, HourStopped(moment.wall_ms))
        if refusal == _AUTH_FAILED:
            return self._refused(refusal)
        told = figures(account, moment, path)
        view = None
        if request.reads_view:
            view = NOTHING if account.view is None else account.view.told(moment.steady)
        key, price_list = number_of(path) if path else 0, account.price_list
        slots, hour_left = max(0, slots_left_of(account)), hour_left_of(account, moment)
        reply = HoldReply(
            account.pubkey, epoch, refusal, admission.verdicts, told, key, view, price_list, slots, hour_left
        )
        if signed is None or refusal is not None:
            return reply
        undo = None if event is None else functools.partial(apply, account, decide_withdrawal(event))
        kept = self._nonces.take(signed, operation, undo)
        return reply if kept is None else self._admit_once_kept(kept, account, request, reply)

    async def _admit_once_kept(
        self, kept: "asyncio.Future[None]", account: Account, request: HoldRequest, reply: HoldReply
    ) -> HoldReply:
        """Complete an admission once its nonce is stored.

        kept: done when the nonces of one write are stored; they share it. The nonce stays taken if its caller
        disconnects.
        """
        try:
            await asyncio.shield(kept)
        except IdentityStoreUnavailable:
            return self._unavailable(account)
        if self._activations.is_current(account):
            return reply
        # The account was evicted during the write, with its hold. The nonce belongs to this operation: judge it again.
        return await self._hold_slowly(request)

    async def _hold_slowly(self, request: HoldRequest, needs_slot: bool = True) -> HoldReply:
        work_for(request.request_id)
        try:
            for _ in range(_TRIES_MAX):
                account = await self._credentials.find(request.proof)
                if isinstance(account, Err):
                    proof = request.proof
                    return self._refused(account.name, proof.pubkey if isinstance(proof, WalletProof) else b"")
                if isinstance(account, ChildRefused):
                    refusal, account, path = account
                    told = figures(account, self._activations.moment(), path)
                    return HoldReply(account.pubkey, self._commits.epoch, refusal.err.name, (), told)
                if self._accounts.get(account.pubkey) is account:
                    # The account is in memory now, so this call does not return here.
                    reply = self.hold_now(request, needs_slot)
                    return reply if isinstance(reply, HoldReply) else await reply
        except WrongOwner as error:
            if isinstance(request.proof, KeyProof) and shard_of(error.pubkey) != shard_of_proof(request.proof):
                return self._refused(_UNAVAILABLE, error.pubkey)  # A legacy key: the replica asks that account's owner.
            raise
        except NotHeld:
            raise
        except (OwnerUnavailable, IdentityStoreUnavailable) as error:
            logger.info("a call was not admitted: %s", error)
        return self._refused(_UNAVAILABLE)

    def _refused(self, refusal: str, pubkey: bytes = b"") -> HoldReply:
        return HoldReply(pubkey, self._commits.epoch, refusal, (), None)

    def _unavailable(self, account: Account | None) -> HoldReply:
        """Refuse a call while nothing is admitted. The refusal carries the figures of an account in memory."""
        if account is None:
            return self._refused(_UNAVAILABLE)
        told = figures(account, self._activations.moment())
        return HoldReply(account.pubkey, self._commits.epoch, _UNAVAILABLE, (), told)

    def _forget(self, accounts: Iterable[Account]) -> None:
        self._activations.forget(accounts)


def _defaults(config: AccountsConfig, batch_seconds: int) -> Defaults:
    least = config.hourly_limit_learnt_least_credits
    return Defaults(config.requests_per_second, config.concurrency, config.hold_seconds, batch_seconds, least)
