"""The watcher: follows the deposit account and turns every transfer into credits, once.

Implements: interface, "first USDC deposit credited" and `POST /account/confirm-deposit`; decisions, money rule 4;
hostile inputs 22 and 23.
A shell: what a transaction is worth is decided in core.py, and the owner of the account decides that it is credited
once. Two steps, each of which may be repeated after a crash at any point of it:
- list: page from the newest final transaction back to the cursor into the inbox, then move the cursor;
- work: take the oldest of the inbox, read them, have them credited, then record what became of them and take them out.
Nothing leaves the inbox before it is credited and recorded, so nothing is lost; credits and records are unique by
transfer, so nothing is repeated. Memory holds one page and one batch, however long the backlog.

A plain class. host.py makes it a Ray actor; tests use it as it is.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from actors.accounts.api import OwnerUnavailable
from actors.clock import Clock
from actors.deposits.chain import PAGE_MAX, ChainUnavailable, DepositChain, Seen, UnknownPosition
from actors.deposits.core import Finding, Judgment, failed, gone, judge
from actors.deposits.crediting import Credit, Crediting
from actors.deposits.store import Aside, Cursor, DepositStore, DepositStoreUnavailable, Gap
from actors.deposits.transfers import DepositAccount

logger = logging.getLogger(__name__)

BATCH_MAX = 128  # Transactions worked on at once.
_WAITING_MAX = BATCH_MAX // 2  # Of a batch; where more wait for owners that do not answer, they let others pass.
_ASIDE_MS = 60_000
_FRUITLESS_MAX = 16  # Batches in a round of which nothing could be credited: it is the ledger that is away.
READS_IN_FLIGHT_MAX = 16
_LAG_SLOTS = 150  # Behind one address there may be several nodes; one that is further behind is not asked.
_GONE_TRIES = 4  # Nodes take turns, so these reach as many of them.
_READ_SLOT_SECONDS = 60  # How often an idle watcher notes how far it has read.
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
_NOTHING = Cursor(b"", 0, 0)
_ASIDE_FAULT = "many deposits wait for accounts that cannot be credited"
AWAY = (ChainUnavailable, DepositStoreUnavailable, OwnerUnavailable)  # Whoever did not answer is asked again.


class DepositWatcher:
    """wake: set by whoever hears of a new transaction; without it the watcher looks every poll_seconds."""

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
    ) -> None:
        self._account, self._chain, self._store, self._crediting = account, chain, store, crediting
        self._clock, self._sleep = clock, sleep
        self._minimum, self._start_slot, self._poll_seconds = minimum_base_units, start_slot, poll_seconds
        self._reads = asyncio.Semaphore(READS_IN_FLIGHT_MAX)
        self._read_slot_at = 0
        self._aside_until_ms = 0
        self._fruitless = 0  # Batches of this round.
        self.wake = asyncio.Event()
        self.fault = ""  # Why the latest round did not end; empty: it did.
        self.caught_up_at = 0  # Unix seconds.
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        attempt = 0
        while True:
            self.wake.clear()
            try:
                await self.round()
            except AWAY as error:
                self.fault = f"{type(error).__name__}: {error}"
                logger.warning("deposits wait: %s", self.fault)
                await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
                attempt += 1
                continue
            except Exception as error:  # A bug must not end the watching for good; it is told in health and logs.
                self.fault = f"{type(error).__name__}: {error}"
                logger.exception("a round of the deposit watcher failed")
                await self._sleep(_PAUSES[-1])
                continue
            attempt, self.caught_up_at = 0, self._clock.now()
            self.fault = "" if self._clock.now_ms() >= self._aside_until_ms else _ASIDE_FAULT
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):  # wait_for may swallow the cancelling by stop().
                    await self.wake.wait()

    async def round(self) -> None:
        """List what is new, then work until nothing is left. Raises one of AWAY when something does not answer."""
        self._fruitless = 0
        await self.list_new()
        while await self.work():
            pass

    # --- listing --------------------------------------------------------------------------------------------------

    async def list_new(self) -> None:
        """Page from the newest back to what was listed before."""
        cursor = await self._store.cursor(self._account.address)
        known = cursor.signature if cursor is not None and cursor.signature else None
        now = self._clock.now()
        # Asked before the pages: what is final by then is in them, less what a node that is a little behind lacks.
        noting = cursor is None or now >= self._read_slot_at
        read_slot = max(0, await self._chain.slot() - _LAG_SLOTS) if noting else 0
        try:
            newest, ran_out = await self._list(cursor, known)
        except UnknownPosition:
            # The cursor's transaction is older than what the node keeps, or too young for it: by slots instead.
            newest, ran_out = await self._list_by_slots(cursor)
        if newest is None and not noting:
            return
        gap = await self._gap(cursor, ran_out and newest is not None)
        signature, slot = (newest.signature, newest.slot) if newest is not None else (cursor or _NOTHING)[:2]
        moved = Cursor(signature, slot, max(read_slot, slot, cursor.read_slot if cursor is not None else 0))
        await self._store.move_cursor(self._account.address, moved, gap, self._clock.now_ms())
        if noting:
            self._read_slot_at = now + _READ_SLOT_SECONDS

    async def _list_by_slots(self, cursor: Cursor | None) -> tuple[Seen | None, bool]:
        try:
            return await self._list(cursor, None)
        except UnknownPosition as error:  # One page came from a node that is ahead of the one asked for the next.
            raise ChainUnavailable("getSignaturesForAddress: the pages do not fit together") from error

    async def _list(self, cursor: Cursor | None, until: bytes | None) -> tuple[Seen | None, bool]:
        """The newest transaction that is new, and whether the node had no more to tell (else a known slot was met)."""
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
        """Slots between what was read before and what the node still has: their deposits nobody can tell."""
        if cursor is None or not ran_out:
            return None
        first = await self._chain.first_slot()
        if first <= cursor.read_slot + 1:
            return None
        logger.error(
            "the node has nothing of slots %d to %d any more: deposits in them are not seen; give their signatures to "
            "`deposits explain` with a node that has them",
            cursor.read_slot + 1,
            first - 1,
        )
        return Gap(cursor.read_slot, first)

    # --- working --------------------------------------------------------------------------------------------------

    async def work(self) -> bool:
        """One batch, oldest first. False: nothing was left that is due."""
        batch = await self._store.oldest(self._account.address, BATCH_MAX, self._clock.now_ms())
        if not batch:
            return False
        readings = await asyncio.gather(*(self._judged(seen) for seen in batch), return_exceptions=True)
        # What stands before the first that could not be read is done; the rest waits behind it, so order is kept.
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
        aside = await self._step_aside(behind, waiting)
        if obstacle is not None:
            raise obstacle
        self._fruitless += bool(waiting) and not done
        if waiting and not done and (not aside or self._fruitless >= _FRUITLESS_MAX):
            raise OwnerUnavailable(f"{len(waiting)} deposits wait for accounts that cannot be credited")
        return True

    async def _behind(self, ready: Sequence[tuple[Seen, Judgment]]) -> dict[bytes, Aside]:
        """Those of an authority that others stepped aside for: they come with them, so that its order is kept."""
        wanted = {seen.signature: _authorities(judgment) for seen, judgment in ready}
        authorities = sorted(set().union(*wanted.values()))
        if not authorities:
            return {}
        times = await self._store.waited_for(self._account.address, authorities, self._clock.now_ms())
        return {
            signature: Aside(signature, names & times.keys(), max(times[name] for name in names & times.keys()))
            for signature, names in wanted.items()
            if names & times.keys()
        }

    async def _step_aside(self, behind: dict[bytes, Aside], waiting: dict[bytes, frozenset[str]]) -> int:
        """How many make room. A few that wait need not: they are asked for again at once."""
        rows = list(behind.values())
        if len(waiting) > _WAITING_MAX:
            until_ms = self._clock.now_ms() + _ASIDE_MS
            rows += [Aside(signature, names, until_ms) for signature, names in waiting.items()]
            logger.warning("%d deposits of accounts that cannot be credited make room for others", len(waiting))
        if rows:
            await self._store.step_aside(self._account.address, rows)
            self._aside_until_ms = max(self._aside_until_ms, *(row.try_at_ms for row in rows))
        return len(rows)

    async def _credited(
        self, ready: Sequence[tuple[Seen, Judgment]]
    ) -> tuple[list[bytes], list[Finding], dict[bytes, frozenset[str]]]:
        """Signatures and findings of those that are done, and for whom each of the others waits. One account that
        cannot be credited, or one owner that does not answer, holds up its own transactions alone."""
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
                # Another node behind the same address may not be as far: asked again later.
                raise ChainUnavailable("getTransaction: a final transaction is not there yet")
            for _ in range(_GONE_TRIES):
                if transaction is not None:
                    break
                # Another may keep more, and nobody looks again by himself once it is listed as gone.
                transaction = await self._chain.transaction(seen.signature)
        return gone(seen.signature, seen.slot) if transaction is None else self.judge(transaction, seen.signature)

    def judge(self, transaction: dict[str, Any], signature: bytes) -> Judgment:
        return judge(transaction, signature, self._account, self._minimum)

    # --- the operator ---------------------------------------------------------------------------------------------

    async def assign(self, finding: Finding, pubkey: bytes, reason: str) -> Finding | str:
        """Give a listed transfer to an account. The finding as it is then, or what keeps it from being done."""
        assigned = await self._crediting.assign(finding, pubkey, reason)
        if isinstance(assigned, str):
            return assigned
        row = replace(assigned, note=reason)
        await self._store.assign(self._account.address, row, self._clock.now_ms())
        return row


def _authorities(judgment: Judgment) -> frozenset[str]:
    return frozenset(transfer.authority for transfer in judgment.creditable)
