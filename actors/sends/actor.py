"""The racer: carries races to their end, from the first broadcast to the end of every hold.

Implements: interface specification, "sendAndConfirm outcome"; decisions, "expired send" and "same bytes sent again";
hostile input 18; design, section 5 ("a sender in the middle of a race").
The shell: it waits, sends and stores. core.py decides each step. A race is stored before its first byte leaves, so a
racer that is killed anywhere is continued by the next one (recovery.py).
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from actors.accounts.api import OwnerUnavailable
from actors.calls import Outcome, SettleReply, SettleRequest
from actors.clock import Clock
from actors.sends import core
from actors.sends.api import RaceRefused, RaceResult, WantedRace
from actors.sends.chain import STATUSES_MAX, SendChain
from actors.sends.core import Race, RaceStep, SendStatus, Ticket
from actors.sends.legs import Leg, Submission
from actors.sends.statistics import LandingStatistics
from actors.sends.store import LegReport, RaceStore, RacesUnavailable
from actors.units import base58_text
from actors.upstream.signed_transactions import SignedTransaction, signed_transaction

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.15  # Under half a slot, so a landing is told within the slot that confirms it.
_IDLE_SECONDS = 0.8  # Two slots.
_LAG_SLOTS_MAX = 512  # Four times what makes a node unhealthy.
RACES_MAX = 5_000  # At once.
# Until recovery looks at a race that is being driven here: the longest window, and time to store its end.
LEASE_MS = (core.WINDOW_SECONDS_MAX + 6) * 1000


class Settles(Protocol):
    """The part of accounts.api.AccountsClient that ends holds."""

    async def settle(self, request: SettleRequest) -> SettleReply: ...

    def delivered(self, pubkey: bytes, operation: bytes) -> None: ...


@dataclass(slots=True)
class _Running:
    """A race whose window is open. reports: a leg that is under way has no end yet. done: set when the outcome is known
    or the window is over; callers wait for it."""

    race: Race
    transaction: SignedTransaction
    reports: list[LegReport] = field(default_factory=list)
    seen: SendStatus | None = None
    ticked: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class SendRacer:
    """One for the whole cluster. Its rate limits, connections and statistics are the cluster's."""

    def __init__(
        self,
        chain: SendChain,
        legs: Sequence[Leg],
        store: RaceStore,
        accounts: Settles,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._chain, self._legs, self._store, self._accounts = chain, legs, store, accounts
        self._clock, self._sleep = clock, sleep
        self._running: dict[bytes, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._needed = asyncio.Event()
        self.slot: int | None = None  # The newest that a node has told.
        self.statistics = LandingStatistics(clock.now_ms())

    # --- what the doors ask

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused:
        """Carry a signed transaction to its outcome, or to the end of its window. From here on the hold is the racer's:
        it ends however the caller fares."""
        transaction = signed_transaction(wanted.transaction)
        signature = transaction.signature
        if len(self._running) >= RACES_MAX:
            return RaceRefused("too many sends are under way")
        present = await self._chain.present(transaction.blockhash)
        if present is None:
            return RaceRefused("the node does not answer at the moment")
        self._learn(present.slot)
        now_ms = self._clock.now_ms()
        race = core.began(
            signature,
            transaction.raw,
            transaction.blockhash,
            transaction.nonce_account,
            present.height,
            present.knows,
            present.slot,
            now_ms,
        )
        ticket = Ticket(
            wanted.operation, wanted.pubkey, wanted.epoch, wanted.method, wanted.landing, wanted.base, signature, now_ms
        )
        try:
            stored = await self._store.open(race, ticket, now_ms + LEASE_MS)
        except RacesUnavailable as error:
            logger.warning("a send could not be stored: %s", error)
            return RaceRefused("the send cannot be recorded at the moment", stored=True)
        try:
            if stored.state.open:
                running = await self._take_part(stored, transaction)
                return await self._result(signature, wanted.operation, running.reports)
            await self.settle_all(stored)
            return await self._result(signature, wanted.operation)
        except RacesUnavailable as error:  # It may be on its way, so it is not refused.
            logger.warning("the outcome of send %s waits for the store: %s", _name(race), error)
            return RaceResult(stored, ticket, (), over=True)

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        """Of the newest call of this account for this signature. None: there is none. Raises RacesUnavailable."""
        kept = await self._store.find(signature)
        mine = [] if kept is None else [ticket for ticket in kept.tickets if ticket.pubkey == pubkey]
        return await self._result(signature, mine[-1].operation) if mine else None

    # --- the window of one race

    async def _take_part(self, stored: Race, transaction: SignedTransaction) -> _Running:
        """Join the race, or drive it; returns when the outcome is known or the window is over."""
        running = self._running.get(stored.signature)
        if running is None:
            if core.is_over(stored, self.slot, self._clock.now_ms()):
                stored = await self._open_window(stored)
            running = self.drive(stored, transaction)
        await running.done.wait()
        return running

    async def _open_window(self, race: Race) -> Race:
        now_ms = self._clock.now_ms()
        again = core.window_opens(race, race.last_slot if self.slot is None else self.slot, now_ms)
        if await self._store.broadcast(race, again, now_ms + LEASE_MS):
            return again
        kept = await self._store.find(race.signature)  # Another call has opened it, or the race has ended.
        return race if kept is None else kept.race

    def drive(self, race: Race, transaction: SignedTransaction | None = None) -> _Running:
        """Run the window of a stored race, unless it runs already."""
        running = self._running.get(race.signature)
        if running is None:
            running = _Running(race, transaction or signed_transaction(race.transaction))
            self._running[race.signature] = running
            self._needed.set()
            self._in_background(self._drive(running))
        return running

    @property
    def under_way(self) -> int:
        """Races whose window is open here."""
        return len(self._running)

    def drives(self, signature: bytes) -> bool:
        return signature in self._running

    async def _drive(self, running: _Running) -> None:
        try:
            while running.race.state.open:
                running.ticked.clear()
                with contextlib.suppress(RacesUnavailable):  # Nothing leaves; the next tick tries again.
                    if await self._step(running):
                        break
                await running.ticked.wait()
        finally:
            del self._running[running.race.signature]
            running.done.set()

    async def _step(self, running: _Running) -> bool:
        """Whether the window has ended."""
        race, seen, now_ms = running.race, running.seen, self._clock.now_ms()
        if not race.state.open:
            return True
        step = core.next_step(race, self.slot, now_ms, seen)
        if step is RaceStep.BROADCAST:
            after = core.broadcast_begins(race, self.slot)
            if await self._store.broadcast(race, after, race.window_at_ms + LEASE_MS):
                running.race = replace(after, sent=running.race.sent)
                self._in_background(self._broadcast(running, after.retries + 1))
                return False
            kept = await self._store.find(race.signature)
            if kept is not None:
                running.race = kept.race
            return False
        if step in (RaceStep.CONFIRM, RaceStep.FAIL):
            running.race = await self.end(race, step, seen)
            return True
        return core.is_over(race, self.slot, now_ms)

    async def _broadcast(self, running: _Running, number: int) -> None:
        """On all legs at once. What they did is stored when the last has answered."""
        legs = [leg for leg in self._legs if leg.takes(running.transaction)]

        async def send(leg: Leg) -> LegReport:
            place = len(running.reports)
            running.reports.append(LegReport(number, leg.name, self._clock.now_ms()))
            try:
                done = await leg.send(running.transaction)
            except Exception as error:  # A bug in one leg must not end the others.
                logger.exception("the leg %s failed", leg.name)
                done = Submission(None, None, type(error).__name__)
            said = done.error.replace("\0", "")  # The other side's words; PostgreSQL takes no NUL.
            report = LegReport(number, leg.name, done.submitted_ms, done.acknowledged_ms, said)
            running.reports[place] = report
            if done.submitted_ms is not None:
                running.race = replace(running.race, sent=True)
            self.statistics.leg_reported(self._clock.now_ms(), leg.name, done.submitted_ms, done.acknowledged_ms)
            return report

        reports = await asyncio.gather(*(send(leg) for leg in legs))
        try:
            await self._store.report(running.race.signature, reports)
        except RacesUnavailable as error:
            logger.warning("what the legs did for %s is not stored: %s", _name(running.race), error)

    # --- ends

    async def end(self, race: Race, step: RaceStep, seen: SendStatus | None) -> Race:
        """Store the outcome, then end every hold. Gives the race as it is stored. Raises RacesUnavailable."""
        done = core.ended(race, step, seen, self._clock.now_ms())
        if await self._store.end(done):
            logger.info("send %s: %s", _name(race), done.state.name.lower())
        kept = await self._store.find(race.signature)
        if kept is None:
            return done
        running = self._running.get(race.signature)
        reports = kept.reports if running is None else running.reports
        legs = [report.leg for report in reports if report.submitted_ms is not None]
        landing_ms = kept.race.ended_at_ms - kept.race.started_at_ms
        self.statistics.race_ended(self._clock.now_ms(), legs, step is RaceStep.CONFIRM, landing_ms, kept.race.retries)
        await self.settle_all(kept.race)
        return kept.race

    async def settle_all(self, race: Race) -> None:
        """End the holds of a race that has ended. Asked again, nothing changes: each operation ends once."""
        kept = await self._store.find(race.signature)
        if kept is not None:
            waiting = [ticket for ticket in kept.tickets if ticket.charged is None]
            await asyncio.gather(*(self._settle(kept.race, ticket) for ticket in waiting))

    async def _settle(self, race: Race, ticket: Ticket) -> None:
        """Post or release. An owner that cannot be reached leaves it to recovery."""
        charged = core.charge(race, ticket)
        request = SettleRequest(
            ticket.operation,
            ticket.pubkey,
            ticket.epoch,
            ticket.method,
            ticket.landing,
            charged,
            int(Outcome.ANSWERED if charged else Outcome.RELEASED),
            # The owner takes no charge for a hold of long ago. This one is as old as its proof.
            self._clock.now(),
        )
        try:
            settled = await self._accounts.settle(request)
        except OwnerUnavailable:
            logger.warning("the charge of send %s waits for the owner of its account", _name(race))
            return
        if charged and not settled.ok:
            # The hold was voided, or it expired and the credits are spent: in the customer's favour.
            logger.warning("the charge of send %s was refused by the ledger", _name(race))
        await self._store.end_ticket(ticket.operation, charged if settled.ok else 0)
        if charged and settled.ok:
            self._accounts.delivered(ticket.pubkey, ticket.operation)

    async def _result(self, signature: bytes, operation: bytes, reports: Sequence[LegReport] = ()) -> RaceResult:
        """reports: of legs that may not be stored yet."""
        kept = await self._store.find(signature)
        assert kept is not None, signature
        ticket = next(each for each in kept.tickets if each.operation == operation)
        running = self._running.get(signature)
        reports = (running.reports if running is not None else reports) or kept.reports
        over = core.is_over(kept.race, self.slot, self._clock.now_ms())
        confirmations = running.seen.confirmations if running is not None and running.seen is not None else None
        return RaceResult(kept.race, ticket, tuple(reports), over, confirmations)

    # --- the clock of the chain

    async def watch(self) -> None:
        """Follow the chain: the newest slot, and while races run the status of every signature in one question.

        Without races the slot alone is asked, now and then: the legs must know the leaders before a race begins."""
        while True:
            try:
                if not self._running:
                    self._needed.clear()
                    self._learn(await self._chain.slot())
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._needed.wait(), _IDLE_SECONDS)
                    continue
                await self.look()
            except Exception:  # A bug must not stop every race.
                logger.exception("looking at the chain failed")
            await self._sleep(POLL_SECONDS)

    async def look(self) -> None:
        """One look; each race then takes its next step. The questions go out together: where the node is slow, many
        races wait no longer than one."""
        running = list(self._running.values())
        parts = [running[start : start + STATUSES_MAX] for start in range(0, len(running), STATUSES_MAX)]

        async def ask(part: list[_Running]) -> None:
            found = await self._chain.statuses([each.race.signature for each in part])
            for each, seen in zip(part, found or [None] * len(part), strict=True):
                each.seen = seen

        slot, *_ = await asyncio.gather(self._chain.slot(), *(ask(part) for part in parts))
        self._learn(slot)
        for each in running:
            each.ticked.set()

    def _learn(self, slot: int | None) -> None:
        """One told by a node that lags a little does not count. Far behind, it shows that the one before was wrong."""
        if slot is not None and (self.slot is None or slot > self.slot or slot < self.slot - _LAG_SLOTS_MAX):
            self.slot = slot

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(leg.close() for leg in self._legs))


def _name(race: Race) -> str:
    return base58_text(race.signature)
