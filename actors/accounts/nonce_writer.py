"""Writes the nonces of one owner to the identity store: claims their record, reads it, writes and clears it.

Implements: money rule 11; design, "What must survive what" (Redis away: signed requests are refused, others are
served); threat 55. A shell: nonces.py decides whether a nonce may be taken.

The record is claimed and read before the first nonce is taken. The claim comes after the database has confirmed that
the shards are this owner's, and it ends the writes of every earlier owner. From then on memory has all nonces that any
owner took, and the store is only written. All waiting nonces go in one write, and one write is in flight at a time. A
nonce whose write failed stays taken, because the write may have been or may still be made; only the operation that took
it may try again.

A caller that waits for a write may leave at any moment, for example when its link breaks: its nonce stays taken. A
failed write releases the holds of its requests. This is done here, once, before any caller learns of the failure.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from actors.accounts.commits import GroupCommit
from actors.accounts.nonces import SLACK_SECONDS, Nonces, Signed, Taken, stored_form
from actors.clock import Clock
from actors.errors import Err
from actors.identity.store import ClaimedRecord, IdentityStore, IdentityStoreUnavailable, NotTheOwner, TakenNonce
from actors.units import VirtualShard, shard_of

logger = logging.getLogger(__name__)

WAITING_MAX = 10_000
# After a failure requests are refused at once for this long, instead of each waiting for a time-out.
_PAUSE_SECONDS = 1.0
_CLEAR_SECONDS = 30
_TELL_SECONDS = 60  # Interval of log lines about replays, so that many replays do not fill the log.
_RECORDS_AT_ONCE = 128  # Records in one command, so that the store's other callers do not wait behind a long one.

Undo = Callable[[], None]


class _Write:
    """Nonces being written. future: shared by all nonces of one write. undos: release the holds of their requests."""

    __slots__ = ("entry", "future", "key", "taken", "undos")

    def __init__(self, key: tuple[bytes, str], entry: TakenNonce, taken: Taken, future: "asyncio.Future[None]") -> None:
        self.key, self.entry, self.taken, self.future = key, entry, taken, future
        self.undos: list[Undo] = []


class NonceWriter:
    def __init__(
        self, store: IdentityStore, clock: Clock, commits: GroupCommit, shards: Sequence[VirtualShard]
    ) -> None:
        self._store, self._clock, self._commits = store, clock, commits
        self._shards = tuple(shards)  # Shards whose records this owner has, or will have once it is open.
        self._nonces = Nonces()
        self.is_open = False  # True once the record is claimed and memory has all its nonces.
        # Set once: a later epoch of the same owner would tell the store nothing new.
        self._epoch: int | None = None
        self._was_open = False
        self._opening: asyncio.Task[None] | None = None
        self._waiting: list[_Write] = []
        self._writes: dict[tuple[bytes, str], _Write] = {}  # Waiting or being written.
        self._task: asyncio.Task[None] | None = None
        self._closed_until = 0.0
        self._cleared_until = 0
        self._clear_at = self._tell_at = 0.0

    def start(self) -> None:
        """Claim the record in the background. If that fails, the first request that needs it tries again."""
        self._begin_opening()

    async def stop(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        tasks = [task for task in (self._opening, self._task) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def available(self) -> bool:
        return len(self._waiting) < WAITING_MAX and self._clock.monotonic() >= self._closed_until

    async def open(self) -> None:
        """Wait until nonces can be judged. Raises IdentityStoreUnavailable."""
        while not self.is_open:
            if not self.available:
                raise IdentityStoreUnavailable("nonces cannot be kept for now")
            await asyncio.shield(self._begin_opening())

    def refusal(self, signed: Signed, operation: bytes, rate_limit: int) -> Err | None:
        """Return None when the operation may take this nonce, or has it already. Changes nothing. The log must
        be open."""
        assert self.is_open
        refusal = self._nonces.decide(signed, operation, rate_limit, self._clock.now())
        if refusal is None and not self.available:
            taken = self._nonces.find(signed)
            return None if taken is not None and taken.kept else Err.SERVICE_TEMPORARILY_UNAVAILABLE
        if refusal is Err.SERVICE_TEMPORARILY_UNAVAILABLE and self._clock.monotonic() >= self._tell_at:
            self._tell_at = self._clock.monotonic() + _TELL_SECONDS
            logger.warning(
                "a signed request was refused: this clock and the door's differ by more than %d s, its nonce may have"
                " been forgotten or lost, or there are too many nonces",
                SLACK_SECONDS,
            )
        return refusal

    def take(self, signed: Signed, operation: bytes, undo: Undo | None = None) -> "asyncio.Future[None] | None":
        """Take a nonce that refusal() allowed in this turn. Returns None when it is stored already.

        Otherwise returns a future that is done when the nonce is stored, and fails with IdentityStoreUnavailable after
        `undo` was called. All nonces of one write share this future, so a caller must shield it.
        """
        taken = self._nonces.find(signed)
        if taken is not None and taken.kept:
            return None
        key = (signed.pubkey, signed.nonce)
        write = self._writes.get(key)
        if write is None:
            if taken is None:
                taken = self._nonces.take(signed, operation, int(self._clock.monotonic()))
            write = self._writes[key] = self._queue(key, signed, operation, taken)
        if undo is not None:
            write.undos.append(undo)
        return write.future

    async def tick(self) -> None:
        """Forget old nonces: in memory at each call, in the store every 30 s."""
        steady = self._clock.monotonic()
        self._nonces.forget(self._clock.now(), int(steady))
        until = self._nonces.forgotten_until
        if until == self._cleared_until or steady < self._clear_at or not (self.is_open and self.available):
            return
        self._clear_at = steady + _CLEAR_SECONDS
        assert self._epoch is not None
        try:
            for shards in self._portions(self._shards):
                await self._store.forget_nonces(self._epoch, shards, until)
        except IdentityStoreUnavailable as error:
            logger.info("old nonces stay in the store for now: %s", error)
        except NotTheOwner:
            self.is_open = False
        else:
            self._cleared_until = until

    # --- the record -----------------------------------------------------------------------------------------------

    def _begin_opening(self) -> "asyncio.Task[None]":
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return self._opening

    def _opened(self, task: "asyncio.Task[None]") -> None:
        self._opening = None
        _retrieve(task)

    async def _open(self) -> None:
        try:
            await self._claim()
        except Exception as error:
            logger.warning("the record of nonces cannot be claimed, signed requests are refused: %s", error)
            self._pause()
            raise IdentityStoreUnavailable("the record of nonces is not ours") from error

    async def add(self, shards: Sequence[VirtualShard]) -> None:
        """Claim the records of shards taken from another owner. Raises IdentityStoreUnavailable, OwnerUnavailable."""
        if self._opening is not None:
            await asyncio.shield(self._opening)
        fresh = [shard for shard in shards if shard not in self._shards]
        if self._was_open:
            await self._claim(fresh, comes=True)
        self._shards = (*self._shards, *fresh)

    async def leave(self, shards: Collection[VirtualShard]) -> None:
        """Wait until all taken nonces of these shards are stored; then this owner no longer has their records.

        No nonce may be taken for them during the wait. Raises IdentityStoreUnavailable.
        """
        while waiting := [write.future for write in self._writes.values() if write.entry.shard in shards]:
            await asyncio.shield(waiting[0])
        self._shards = tuple(shard for shard in self._shards if shard not in shards)

    async def _claim(self, shards: Sequence[VirtualShard] | None = None, comes: bool = False) -> None:
        """comes: another owner had the records of these shards until now."""
        confirmed = await self._commits.confirm()
        epoch = self._epoch = confirmed if self._epoch is None else self._epoch
        # If the shards never had an owner, no nonce was ever taken, and none can be missing.
        fresh = not (self._was_open or self._commits.inherited)
        # Otherwise an incomplete record may lack nonces used before now, by the clock of the owner that took them.
        lost_until = 0 if fresh else self._clock.now() + 2 * SLACK_SECONDS
        over = 0
        expected = epoch if self._was_open and not comes else None
        for some in self._portions(self._shards if shards is None else shards):
            while True:
                try:
                    records = await self._store.claim_nonces(
                        epoch, some, expected=expected, over=over, lost_until=lost_until
                    )
                    break
                except NotTheOwner as other:
                    # The epoch is a successor's, as the database will confirm, or remains from an older database.
                    await self._commits.confirm()
                    over = other.epoch
            for record in records:
                self._take_in(record)
        if not comes:
            self.is_open = self._was_open = True

    def _take_in(self, record: ClaimedRecord) -> None:
        nonces, steady = self._nonces, int(self._clock.monotonic())
        for pubkey, text, good_until in record.nonces:
            nonces.restore(pubkey, text, good_until, steady)
        nonces.forgotten_until = max(nonces.forgotten_until, record.forgotten_until)
        # If no other owner had the record, memory has every nonce that the record lost.
        if not (self._was_open and record.epoch_before in (0, self._epoch)):
            nonces.lost_until = max(nonces.lost_until, record.lost_until)

    @staticmethod
    def _portions(shards: Sequence[VirtualShard]) -> Iterator[Sequence[VirtualShard]]:
        for first in range(0, len(shards), _RECORDS_AT_ONCE):
            yield shards[first : first + _RECORDS_AT_ONCE]

    # --- writing --------------------------------------------------------------------------------------------------

    def _queue(self, key: tuple[bytes, str], signed: Signed, operation: bytes, taken: Taken) -> _Write:
        if self._waiting:
            future = self._waiting[0].future
        else:
            future = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
        text = stored_form(signed.nonce, operation)
        entry = TakenNonce(shard_of(signed.pubkey), signed.pubkey, text, signed.good_until)
        write = _Write(key, entry, taken, future)
        self._waiting.append(write)
        if self._task is None:
            self._task = asyncio.create_task(self._write_all())
        return write

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                writes, self._waiting = self._waiting, []
                try:
                    await self._write([write.entry for write in writes])
                except IdentityStoreUnavailable as error:
                    logger.warning("nonces cannot be kept, signed requests are refused: %s", error)
                    self._end(writes, error)
                except Exception as error:  # A bug; waiting callers must learn of it.
                    logger.exception("nonces cannot be kept")
                    self._end(writes, error)
                else:
                    self._end(writes, None)
        finally:
            self._task = None

    async def _write(self, entries: list[TakenNonce]) -> None:
        """Write the nonces. If the record was lost or another owner claimed it, claim it and write again: memory has
        all nonces."""
        for _ in range(2):
            await self.open()
            assert self._epoch is not None
            try:
                await self._store.take_nonces(self._epoch, entries)
            except NotTheOwner:
                logger.warning("the record of nonces is gone, or has another owner")
                self.is_open = False
            else:
                return
        raise IdentityStoreUnavailable("the record of nonces is not ours")

    def _end(self, writes: list[_Write], error: Exception | None) -> None:
        if error is not None:
            self._pause()
        for write in writes:
            del self._writes[write.key]
            write.taken.kept = error is None
            if error is not None:
                for undo in write.undos:
                    undo()
        future = writes[0].future
        if future.cancelled():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(IdentityStoreUnavailable(str(error)))

    def _pause(self) -> None:
        self._closed_until = self._clock.monotonic() + _PAUSE_SECONDS


def _retrieve(future: "asyncio.Future[None]") -> None:
    """Mark the exception as retrieved, so that the event loop does not warn when no caller waits."""
    if not future.cancelled():
        future.exception()
