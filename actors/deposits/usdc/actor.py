"""The watcher: follows the deposit account and has every transfer credited once.

Implements: interface, "first USDC deposit credited" and `POST /account/confirm-deposit`; money rule 4;
threats 22 and 23.
A shell: core.py decides what a transaction is worth, and the owner of the account credits a transfer only once. There
are two steps, and each may be repeated after a crash at any point:
- list: page from the newest final transaction back to the cursor, put all into the inbox, then move the cursor;
- work: take the oldest of the inbox, read them, have them credited, record the outcome and remove them from the inbox.
A transaction stays in the inbox until it is credited and recorded, so none is lost. Credits and records are unique by
transfer, so none is repeated. Memory holds one page and one batch, however long the backlog is.

A plain class. host.py makes it a Ray actor; tests use it directly.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from actors.accounts.api import OwnerUnavailable
from actors.background import Background
from actors.clock import Clock
from actors.deposits.usdc.chain import PAGE_MAX, ChainUnavailable, DepositChain, Seen, UnknownPosition
from actors.deposits.usdc.core import Finding, Judgment, failed, gone, judge
from actors.deposits.usdc.crediting import Credit, Crediting
from actors.deposits.usdc.store import (
    Cursor,
    DepositStore,
    DepositStoreUnavailable,
    Gap,
    Postponed,
    WatcherReplaced,
)
from actors.deposits.usdc.transfers import DepositAccount
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

BATCH_MAX = 128  # Transactions worked on at once.
_WAITING_MAX = BATCH_MAX // 2  # When more of a batch wait for accounts that cannot be credited, they are postponed.
_POSTPONED_MS = 60_000
_FRUITLESS_MAX = 16  # After this many batches without one credit in a round, the ledger itself must be unavailable.
READS_IN_FLIGHT_MAX = 16
_LAG_SLOTS = 150  # An address may stand for several nodes; none is expected to be further behind.
_GONE_TRIES = 4  # Nodes take turns, so this reaches up to four of them.
_READ_SLOT_SECONDS = 60  # An idle watcher stores how far it has read this often.
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
_NOTHING = Cursor(b"", 0, 0)
_POSTPONED_FAULT = "many deposits wait for accounts that cannot be credited"
AWAY = (ChainUnavailable, DepositStoreUnavailable, OwnerUnavailable)  # The watcher tries again after each of these.


class DepositWatcher:
    """wake: set on notice of a new transaction; without notices the watcher looks every poll_seconds. replaced: called
    once, when another watcher has begun and this one has ended its work for good."""

    def __init__(
        self,
        account: DepositAccount,
        chain: DepositChain,
        store: DepositStore,
        crediting: Crediting,
        clock: Clock,
        *,
        minimum_base_units: int,
        start_slot: int = 0,
        poll_seconds: float = 5.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        metrics: Metrics | None = None,
        replaced: Callable[[], object] = lambda: None,
    ) -> None:
        self._account, self._chain, self._store, self._crediting = account, chain, store, crediting
        self._clock, self._sleep, self._replaced = clock, sleep, replaced
        self._minimum, self._start_slot, self._poll_seconds = minimum_base_units, start_slot, poll_seconds
        self._reads = asyncio.Semaphore(READS_IN_FLIGHT_MAX)
        self._read_slot_at = 0
        self._postponed_until_ms = 0
        self._fruitless = 0  # Batches of this round without one credit.
        self._waiting = 0  # Transactions in the inbox, as of the latest listing, less those done since.
        self._metrics = metrics or Metrics()
        text = "Transactions in the inbox of the deposit watcher."
        self._metrics.watch("deposits_waiting", text, lambda: self._waiting)
        begun_at = clock.now()
        text = "Seconds since the deposit watcher had last read every finalized transfer, or since its start."
        self._metrics.watch("deposits_behind_seconds", text, lambda: clock.now() - (self.caught_up_at or begun_at))
        self.wake = asyncio.Event()
        self.fault = ""  # Why the latest round failed; empty: it did not.
        self.caught_up_at = 0  # Unix seconds.
        self._background = Background(logger, "the deposit watcher failed")

    def start(self) -> None:
        self._background.start(self._run())

    async def stop(self) -> None:
        await self._background.stop()

    async def _run(self) -> None:
        attempt = 0
        while True:
            self.wake.clear()
            try:
                await self.round()
            except WatcherReplaced as error:
                self.fault = str(error)
                logger.error("%s; this one ends", error)
                self._replaced()
                return
            except AWAY as error:
                self.fault = f"{type(error).__name__}: {error}"
                logger.warning("deposits wait: %s", self.fault)
                await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
                attempt += 1
                continue
            except Exception as error:  # A bug must not end the watcher; health and logs report it.
                self.fault = f"{type(error).__name__}: {error}"
                logger.exception("a round of the deposit watcher failed")
                await self._sleep(_PAUSES[-1])
                continue
            attempt, self.caught_up_at = 0, self._clock.now()
            self.fault = "" if self._clock.now_ms() >= self._postponed_until_ms else _POSTPONED_FAULT
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):  # wait_for may lose the cancellation by stop().
                    await self.wake.wait()

    async def round(self) -> None:
        """List new transactions, then work until the inbox has none that is due. Raises one of AWAY."""
        self._fruitless = 0
        await self.list_new()
        self._waiting = await self._store.waiting(self._account.address)
        while await self.work():
            pass

    # --- listing --------------------------------------------------------------------------------------------------

    async def list_new(self) -> None:
        """Page from the newest transaction back to those that were listed before."""
        cursor = await self._store.cursor(self._account.address)
        known = cursor.signature if cursor is not None and cursor.signature else None
        now = self._clock.now()
        # Read before the pages: they hold everything up to this slot, less what a node that is a little behind lacks.
        noting = cursor is None or now >= self._read_slot_at
        read_slot = await self._read_slot() if noting else 0
        try:
            newest, ran_out = await self._list(cursor, known)
        except UnknownPosition:
            # The node no longer has the cursor's transaction, or does not have it yet: compare slots instead.
            newest, ran_out = await self._list_by_slots(cursor)
        if newest is None and not noting:
            return
        gap = await self._gap(cursor, ran_out and newest is not None)
        signature, slot = (newest.signature, newest.slot) if newest is not None else (cursor or _NOTHING)[:2]
        moved = Cursor(signature, slot, max(read_slot, slot, cursor.read_slot if cursor is not None else 0))
        await self._store.move_cursor(self._account.address, moved, gap, self._clock.now_ms())
        if noting:
            self._read_slot_at = now + _READ_SLOT_SECONDS

    async def _read_slot(self) -> int:
        """Return the slot up to which the pages are whole; 0: not known. It never goes back, so one absurd slot would
        disable the detection of gaps for ever: the slot must have a block."""
        slot = max(0, await self._chain.slot() - _LAG_SLOTS)
        if await self._chain.has_block_from(slot):
            return slot
        logger.warning("deposits: the node tells slot %d, and has no block of about then", slot + _LAG_SLOTS)
        return 0

    async def _list_by_slots(self, cursor: Cursor | None) -> tuple[Seen | None, bool]:
        try:
            return await self._list(cursor, None)
        except UnknownPosition as error:  # Two nodes gave the pages, and the second is behind.
            raise ChainUnavailable("getSignaturesForAddress: the pages do not fit together") from error

    async def _list(self, cursor: Cursor | None, until: bytes | None) -> tuple[Seen | None, bool]:
        """Page through the list; returns (newest new transaction, whether the pages ended before a known slot)."""
        floor = max(self._start_slot, cursor.slot if cursor is not None else 0)
        newest: Seen | None = None
        before: bytes | None = None
        position = 0
        while True:
            page = await self._chain.page(self._account.address, before, until)
            rows = [
                seen for seen in page if seen.slot >= floor and (cursor is None or seen.signature != cursor.signature)
            ]
            if rows:
                await self._store.add(self._account.address, rows, position)
                newest = newest or rows[0]
                position -= len(rows)
            if any(seen.slot < floor for seen in page):
                return newest, False
            if len(page) < PAGE_MAX:
                return newest, True
            before = page[-1].signature

    async def _gap(self, cursor: Cursor | None, ran_out: bool) -> Gap | None:
        """Return the slots that were not read and that the node no longer has: deposits in them cannot be seen."""
        if cursor is None or not ran_out:
            return None
        first = await self._chain.first_slot()
        if first <= cursor.read_slot + 1:
            return None
        logger.error(
            "the node no longer has slots %d to %d: deposits in them are not seen; connect a node that has them and "
            "run `deposits explain` with their signatures",
            cursor.read_slot + 1,
            first - 1,
        )
        return Gap(cursor.read_slot, first)

    # --- working --------------------------------------------------------------------------------------------------

    async def work(self) -> bool:
        """Work on one batch, oldest first. False: the inbox had none that is due."""
        batch = await self._store.oldest(self._account.address, BATCH_MAX, self._clock.now_ms())
        if not batch:
            return False
        readings = await asyncio.gather(*(self._judged(seen) for seen in batch), return_exceptions=True)
        # Those before the first unreadable one are finished; the rest wait behind it, so that the order is kept.
        ready: list[tuple[Seen, Judgment]] = []
        obstacle: BaseException | None = None
        for seen, reading in zip(batch, readings, strict=True):
            if isinstance(reading, BaseException):
                obstacle = reading
                break
            ready.append((seen, reading))
        behind = await self._behind(ready)
        ready = [each for each in ready if each[0].signature not in behind]
        done, findings, waiting = await self._credited(ready)
        if done:
            await self._store.record(self._account.address, findings, done, self._clock.now_ms())
            self._waiting -= len(done)
            for finding in findings:
                self._metrics.deposits.add((finding.status.name.lower(),))
        postponed = await self._postpone(behind, waiting)
        if obstacle is not None:
            raise obstacle
        self._fruitless += bool(waiting) and not done
        if waiting and not done and (not postponed or self._fruitless >= _FRUITLESS_MAX):
            raise OwnerUnavailable(f"{len(waiting)} deposits wait for accounts that cannot be credited")
        return True

    async def _behind(self, ready: Sequence[tuple[Seen, Judgment]]) -> dict[bytes, Postponed]:
        """Return the transactions whose authority has postponed ones; they are postponed too, to keep the order."""
        wanted = {seen.signature: _authorities(judgment) for seen, judgment in ready}
        authorities = sorted(set().union(*wanted.values()))
        if not authorities:
            return {}
        times = await self._store.postponed_for(self._account.address, authorities, self._clock.now_ms())
        return {
            signature: Postponed(signature, names & times.keys(), max(times[name] for name in names & times.keys()))
            for signature, names in wanted.items()
            if names & times.keys()
        }

    async def _postpone(self, behind: dict[bytes, Postponed], waiting: dict[bytes, frozenset[str]]) -> int:
        """Postpone transactions and give their number. A few waiting ones are not postponed but tried again at once."""
        rows = list(behind.values())
        if len(waiting) > _WAITING_MAX:
            until_ms = self._clock.now_ms() + _POSTPONED_MS
            rows += [Postponed(signature, names, until_ms) for signature, names in waiting.items()]
            logger.warning("%d deposits are postponed: their accounts cannot be credited now", len(waiting))
        if rows:
            await self._store.postpone(self._account.address, rows)
            self._postponed_until_ms = max(self._postponed_until_ms, *(row.try_at_ms for row in rows))
        return len(rows)

    async def _credited(
        self, ready: Sequence[tuple[Seen, Judgment]]
    ) -> tuple[list[bytes], list[Finding], dict[bytes, frozenset[str]]]:
        """Credit; returns (signatures of finished transactions, their findings, authorities that each other waits for).

        An account that cannot be credited, or an owner that does not answer, delays its own transactions only.
        """
        wanted = [
            Credit(seen.signature, transfer, seen.slot, seen.block_time)
            for seen, judgment in ready
            for transfer in judgment.creditable
        ]
        credited = await self._crediting.credit_each(wanted)
        waiting: dict[bytes, frozenset[str]] = {}
        for each, row in zip(wanted, credited, strict=True):
            if row is None:
                waiting[each.signature] = waiting.get(each.signature, frozenset()) | {each.transfer.authority}
        done = [(seen, judgment) for seen, judgment in ready if seen.signature not in waiting]
        findings = [row.finding for row in credited if row is not None and row.finding.signature not in waiting]
        findings += [finding for _, judgment in done for finding in judgment.findings]
        return [seen.signature for seen, _ in done], findings, waiting

    async def _judged(self, seen: Seen) -> Judgment:
        if seen.failed:
            return failed(seen.signature, seen.slot, seen.block_time)
        async with self._reads:
            transaction = await self._chain.transaction(seen.signature)
            if transaction is None and await self._chain.first_slot() <= seen.slot:
                # Another node behind the same address may be behind: try again later.
                raise ChainUnavailable("getTransaction: a final transaction is not there yet")
            for _ in range(_GONE_TRIES):
                if transaction is not None:
                    break
                # Another node may keep more history, and a transaction that is listed as gone is not read again.
                transaction = await self._chain.transaction(seen.signature)
        return gone(seen.signature, seen.slot) if transaction is None else self.judge(transaction, seen.signature)

    def judge(self, transaction: dict[str, Any], signature: bytes) -> Judgment:
        return judge(transaction, signature, self._account, self._minimum)

    # --- the operator ---------------------------------------------------------------------------------------------

    async def assign(self, finding: Finding, pubkey: bytes, reason: str) -> Finding | str:
        """Give a listed transfer to an account. Returns the new finding, or one sentence that says why not."""
        assigned = await self._crediting.assign(finding, pubkey, reason)
        if isinstance(assigned, str):
            return assigned
        row = replace(assigned, note=reason)
        await self._store.assign(self._account.address, row, self._clock.now_ms())
        return row


def _authorities(judgment: Judgment) -> frozenset[str]:
    return frozenset(transfer.authority for transfer in judgment.creditable)
