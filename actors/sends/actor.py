"""A racer: carries races to their end, from the first broadcast to the end of every hold.

Implements: interface, "sendAndConfirm outcome"; decisions, "expired send" and "same bytes sent again";
threat 18; design, "What must survive what" ("a sender in the middle of a race").
The shell: it waits and stores. core.py decides each step. A race is stored before its first byte leaves, so a racer
that is killed anywhere is continued by the next one (recovery.py). A racer carries the races of the slices that it
holds; a race whose slice moves away ends here without an outcome, and its callers ask the next racer.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from actors.background import Background
from actors.clock import Clock
from actors.methods.signed_transactions import SignedTransaction, signed_transaction
from actors.ownership.api import SliceLost
from actors.ownership.held import HeldSlices
from actors.sends import core
from actors.sends.api import NO_ROOM, RaceRefused, RaceResult, SliceMoved, WantedRace
from actors.sends.broadcasts import Broadcasts, RunningRace
from actors.sends.chain import SendChain
from actors.sends.core import Race, RaceState, RaceStep, Ticket
from actors.sends.fault_switch import Reached, pass_by
from actors.sends.hold_endings import HoldEndings, Settles
from actors.sends.legs import LEG_MS, Leg
from actors.sends.notices import SignatureNotices
from actors.sends.slices import slice_of
from actors.sends.statistics import LandingStatistics
from actors.sends.store import KeptRace, RaceStore, RacesUnavailable
from actors.start_line import StartLine
from actors.telemetry.metrics import Metrics
from actors.units import base58_text
from actors.upstream.signature_status import STATUSES_MAX, SignatureStatus

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.15  # Under half a slot, so that a landing is reported within the slot that confirms it.
_POLL_SECONDS_WITH_NOTICES = 0.4  # One slot: notices report landings, and the slot tells when to send again.
_MORE_NOTICES_SECONDS = 0.01  # A block confirms many transactions; one query serves all of them.
_IDLE_SECONDS = 0.8  # Two slots.
_LAG_SLOTS_MAX = 512  # Four times the lag that makes a node unhealthy.
# Questions of one look at that pace. With more races looks are rarer, so that they take the node the same time however
# many there are: 5,000 races are looked at every 0.75 s.
_QUICK_QUESTIONS = 4
_TICKED_AT_ONCE = 32  # Races advanced in one turn of the event loop, which must stay below 5 ms.
_BEGUN_AT_ONCE = 4  # Calls of `race` begun at once, of 1 ms each.
_LOOKED_AT_ONCE = 512  # Races examined at once, which may have nothing to do.
RACES_MAX = 5_000  # Concurrent races of one racer.
OPEN_MAX = 500  # Races of one account whose outcome or charge is open.
# Until recovery looks at a race that is being driven here: the longest window, and time to store its end.
LEASE_MS = (core.WINDOW_SECONDS_MAX + 6) * 1000
FINISH_SECONDS = LEG_MS / 1000 + 1  # By then a running broadcast has ended, and its reports are stored.


class SendRacer:
    """held: the slices whose races it carries; it refuses others' races as moved."""

    def __init__(
        self,
        chain: SendChain,
        legs: Sequence[Leg],
        store: RaceStore,
        accounts: Settles,
        clock: Clock,
        held: HeldSlices,
        *,
        notices: SignatureNotices | None = None,
        metrics: Metrics | None = None,
        open_max: int = OPEN_MAX,
        reached: Reached = pass_by,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._chain, self._legs, self._store, self._clock, self._sleep = chain, legs, store, clock, sleep
        self._held, self._notices = held, notices or SignatureNotices(None)
        self._metrics, self._open_max, self._reached = metrics or Metrics(), open_max, reached
        self._running: dict[bytes, RunningRace] = {}
        self._calls = 0  # Running calls of `race`.
        self._starts = StartLine(_BEGUN_AT_ONCE, RACES_MAX)
        self._background = Background(logger, "a step of a send failed")
        self._needed = asyncio.Event()
        self.slot: int | None = None  # The newest slot that a node has reported.
        self.statistics = LandingStatistics(clock.now_ms())
        self.broadcasts = Broadcasts(legs, store, clock, self.statistics, self._metrics, reached)
        self.endings = HoldEndings(accounts, store, clock, self._metrics, reached)

    # --- what the doors ask

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused | SliceMoved:
        """Carry a signed transaction to its outcome, or to the end of its window. From here on the hold is the racer's:
        it ends however the caller fares."""
        if max(len(self._running), self._calls) >= RACES_MAX:
            self._metrics.send_refusals.add(("no_room",))
            return RaceRefused(NO_ROOM)
        self._calls += 1
        try:
            # A batch comes as a hundred calls in one turn of the event loop; fewer wait than there is room for.
            await self._starts.enter(wanted.pubkey)
            transaction = signed_transaction(wanted.transaction)
            if not self._held.serves(slice_of(transaction.signature)):
                return SliceMoved()
            return await self._race(wanted, transaction)
        finally:
            self._calls -= 1

    async def _race(self, wanted: WantedRace, transaction: SignedTransaction) -> RaceResult | RaceRefused | SliceMoved:
        signature = transaction.signature
        present, landed = await asyncio.gather(
            self._chain.present(transaction.blockhash), self._chain.status(signature)
        )
        if present is None:
            return RaceRefused("the node does not answer at the moment")
        if landed is None and (transaction.nonce_account or not present.knows):
            # It may have landed long ago. With a known blockhash it cannot: nodes keep the statuses of its lifetime.
            landed = await self._chain.status(signature, history=True)
        self._learn(present.slot)
        now_ms = self._clock.now_ms()
        race = core.began(transaction, present, now_ms, landed)
        ticket = Ticket(
            *(wanted.operation, wanted.pubkey, wanted.epoch, wanted.method, wanted.landing, wanted.base),
            *(signature, now_ms),
            key=wanted.key,
        )
        stored: Race | None = race
        try:
            stored = await self._store.open(race, ticket, now_ms + LEASE_MS, self._open_max)
            if stored is None:
                self._metrics.send_refusals.add(("open_sends",))
                return RaceRefused("too many sends of this account have no outcome yet", crowded=True)
            self._reached("stored")
            if stored.state.open:
                running = await self._take_part(stored, transaction, landed)
                return SliceMoved(in_doubt=True) if running.moved else await self._result(ticket, running)
            await self.endings.settle_all(stored)
            return await self._result(ticket)
        except SliceLost:
            return SliceMoved(in_doubt=True)
        except RacesUnavailable as error:
            # Not a refusal: it may be on its way, or be stored, and then a racer that starts now sends it.
            logger.warning("the outcome of send %s waits for the store: %s", _name(race), error)
            return RaceResult(stored or race, ticket, (), over=True)

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        """Return the newest call of this account for this signature, or None. Raises RacesUnavailable."""
        kept = await self._store.find(signature, pubkey)
        return None if kept is None else await self._told(kept)

    async def has_sent(self, signature: bytes) -> bool | SliceMoved:
        """Return whether a leg took it in the window open here, or it has landed. Raises RacesUnavailable."""
        if not self._held.serves(slice_of(signature)):
            return SliceMoved()
        running = self._running.get(signature)
        if running is not None:
            return running.sent_here
        race = await self._store.race(signature)
        return race is not None and race.slot > 0

    # --- the window of one race

    async def _take_part(
        self, stored: Race, transaction: SignedTransaction, landed: SignatureStatus | None = None
    ) -> RunningRace:
        """Join the race, or drive it; returns when the outcome is known or the window is over."""
        running = self._running.get(stored.signature)
        if running is None:
            if core.is_over(stored, self.slot, self._clock.now_ms()):
                stored = await self._open_window(stored)
            running = self.drive(stored, transaction, landed)
        await running.done.wait()
        return running

    async def _open_window(self, race: Race) -> Race:
        now_ms = self._clock.now_ms()
        again = core.window_opens(race, race.last_slot if self.slot is None else self.slot, now_ms)
        if await self._store.broadcast(race, again, now_ms + LEASE_MS):
            return again
        # Another call has opened the window, or the race has ended.
        return await self._store.race(race.signature) or race

    def drive(
        self, race: Race, transaction: SignedTransaction | None = None, seen: SignatureStatus | None = None
    ) -> RunningRace:
        """Run the window of a stored race, unless it is already running. seen: its status, if it was just read."""
        running = self._running.get(race.signature)
        if running is None:
            running = RunningRace(race, transaction or signed_transaction(race.transaction), seen=seen)
            self._running[race.signature] = running
            self._notices.follow(race.signature)
            self._needed.set()
            self._background.start(self._drive(running))
        return running

    @property
    def under_way(self) -> int:
        """Return the number of races whose window is open here."""
        return len(self._running)

    @property
    def oldest_window_seconds(self) -> float:
        """Return for how long the oldest window has been open here; 0 without one."""
        now_ms = self._clock.now_ms()
        return max((now_ms - each.race.window_at_ms for each in self._running.values()), default=0) / 1_000

    def drives(self, signature: bytes) -> bool:
        return signature in self._running

    async def finish(self, slices: Collection[int]) -> None:
        """Do nothing more for the races of these slices, and wait until their broadcasts under way are reported, so
        that the next racer finds what was sent. What takes longer than a leg may take is not waited for."""
        leaving = [each for each in self._running.values() if slice_of(each.race.signature) in slices]
        for each in leaving:
            each.moved = True
            each.ticked.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                for each in leaving:
                    await each.done.wait()
                    await each.quiet()

    async def _drive(self, running: RunningRace) -> None:
        try:
            while running.race.state.open and not running.moved:
                running.ticked.clear()
                with contextlib.suppress(RacesUnavailable):  # Nothing leaves; the next tick tries again.
                    if await self._step(running):
                        break
                await running.ticked.wait()
        except SliceLost:
            running.moved = True
        finally:
            del self._running[running.race.signature]
            self._notices.drop(running.race.signature)
            running.done.set()

    async def _step(self, running: RunningRace) -> bool:
        """Take the next step. Returns whether the window has ended."""
        race, seen, now_ms = running.race, running.seen, self._clock.now_ms()
        if not race.state.open:
            return True
        step = core.next_step(race, self.slot, now_ms, seen)
        if step is RaceStep.BROADCAST:
            after = core.broadcast_begins(race, self.slot)
            if await self._store.broadcast(race, after, race.window_at_ms + LEASE_MS):
                self._reached("claimed")
                running.race = replace(after, sent=running.race.sent)
                running.sends(self._background.start(self.broadcasts.send(running, after.retries + 1)))
                return False
            running.race = await self._store.race(race.signature) or running.race
            return False
        if step in (RaceStep.CONFIRM, RaceStep.FAIL):
            self._reached("proven")
            running.race = await self.end(race, step, seen)
            return True
        return core.is_over(race, self.slot, now_ms)

    # --- ends

    async def end(self, race: Race, step: RaceStep, seen: SignatureStatus | None) -> Race:
        """Store the outcome, then end every hold. Gives the race as it is stored. Raises RacesUnavailable."""
        done = core.ended(race, step, seen, self._clock.now_ms())
        is_new = await self._store.end(done)
        stored = await self._store.race(race.signature)
        if stored is None:
            return done
        if is_new:
            self._count_end(stored)
        self._reached("ended")
        await self.endings.settle_all(stored)
        return stored

    def _count_end(self, race: Race) -> None:
        logger.info("send %s: %s", _name(race), race.state.name.lower())
        landed, took_ms = race.state is RaceState.CONFIRMED, race.ended_at_ms - race.started_at_ms
        running = self._running.get(race.signature)
        legs = [] if running is None else [report.leg for report in running.reports if report.sent]
        self.statistics.race_ended(self._clock.now_ms(), legs, landed, took_ms, race.retries)
        self._metrics.send_races.add((race.state.name.lower(),))
        if landed:
            self._metrics.send_landing_seconds.observe(max(0, took_ms) / 1000)

    async def _result(self, ticket: Ticket, running: RunningRace | None = None) -> RaceResult:
        """Make the result for a call. running: its race, whose reports may not be stored yet."""
        kept = await self._store.find(ticket.signature, ticket.pubkey, ticket.operation)
        assert kept is not None, ticket
        return await self._told(kept, running)

    async def _told(self, kept: KeptRace, running: RunningRace | None = None) -> RaceResult:
        race = kept.race
        running = self._running.get(race.signature, running)
        reports = (running.reports if running is not None else ()) or kept.reports
        over = core.is_over(race, self.slot, self._clock.now_ms())
        seen = running.seen if running is not None else None
        if seen is None and core.may_gain_confirmations(race, self.slot):
            seen = await self._chain.status(race.signature)
        return RaceResult(race, kept.ticket, tuple(reports), over, None if seen is None else seen.confirmations)

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
                        async with asyncio.timeout(_IDLE_SECONDS):
                            await self._needed.wait()
                    continue
                await self.look()
            except Exception:  # A bug must not stop every race.
                logger.exception("looking at the chain failed")
            await self._until_next_look()

    async def _until_next_look(self) -> None:
        """Wait for a notice or the next poll. Without a whole stream of notices polls are frequent."""
        noticed = self._notices.noticed
        if not self._notices.complete:
            questions = -(-len(self._running) // STATUSES_MAX)
            await self._sleep(POLL_SECONDS * max(1.0, questions / _QUICK_QUESTIONS))
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS_WITH_NOTICES):
                await noticed.wait()
        noticed.clear()
        await self._sleep(_MORE_NOTICES_SECONDS)

    async def look(self) -> None:
        """Query the chain once; then each race with a step to take takes it.

        All queries are sent together: if the node is slow, many races wait no longer than one."""
        running = list(self._running.values())
        parts = [running[start : start + STATUSES_MAX] for start in range(0, len(running), STATUSES_MAX)]

        async def ask(part: list[RunningRace]) -> None:
            found = await self._chain.statuses([each.race.signature for each in part])
            for each, seen in zip(part, found or [None] * len(part), strict=True):
                each.seen = seen

        slot, *_ = await asyncio.gather(self._chain.slot(), *(ask(part) for part in parts))
        self._learn(slot)
        now_ms, ticked = self._clock.now_ms(), 0
        for number, each in enumerate(running, 1):
            if core.has_step(each.race, self.slot, now_ms, each.seen):
                each.ticked.set()
                ticked += 1
            if ticked == _TICKED_AT_ONCE or number % _LOOKED_AT_ONCE == 0:
                ticked = 0
                await asyncio.sleep(0)

    def _learn(self, slot: int | None) -> None:
        """Update the slot. A value from a node slightly behind is ignored; one far below shows that the previous one
        was wrong."""
        if slot is not None and (self.slot is None or slot > self.slot or slot < self.slot - _LAG_SLOTS_MAX):
            self.slot = slot

    async def close(self) -> None:
        await self._background.stop()
        await asyncio.gather(*(leg.close() for leg in self._legs))


def _name(race: Race) -> str:
    return base58_text(race.signature)
