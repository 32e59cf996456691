"""The allowance of one account under one name in the ledger, shared by all its streams of a process.

Implements: money rules 1 and 10; decisions, "Price lists". A shell around allowance.py. Not here: charges at once, and
who has which meter (meters.py).
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from actors.accounts.api import OwnerUnavailable
from actors.accounts.told_lists import ToldLists
from actors.calls import OTHER_PRICES, HoldReply, Outcome, Proof, ProvenProof, SettleRequest
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.metering.allowance import PART_SECONDS_MAX, UNITS_PER_CREDIT, Allowance, HeldPart
from actors.methods.price_lists import PERCENT, PriceList

# Other processes may hold the account's last credits ahead; unspent ones are free again after this time.
_SHORT_SECONDS_MAX = PART_SECONDS_MAX + 2
_POSTED, _RELEASED = int(Outcome.ANSWERED), int(Outcome.RELEASED)
AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")
_NOT_FOR_KEY = Refusal(Err.METHOD_NOT_ALLOWED, "this API key may open no streams: its methods do not name STREAMS")
_LACKS = frozenset((Err.INSUFFICIENT_CREDITS, Err.KEY_BUDGET_EXCEEDED, Err.HOURLY_LIMIT_EXCEEDED))
# Temporary refusals: an open stream waits, and its bounded queue ends it if that takes too long.
_PASSING = frozenset((Err.SERVICE_TEMPORARILY_UNAVAILABLE, Err.RATE_LIMITED, Err.CONCURRENCY_LIMITED))


class MeterOwner(Protocol):
    """The interface of meters.Meters that a meter uses. told: as there."""

    clock: Clock
    told: ToldLists

    def prices_of(self, proof: Proof) -> PriceList: ...

    async def ask(self, operation: bytes, proof: Proof, name: str, credits: int, price_list: str) -> HoldReply: ...

    async def settle(self, settle: SettleRequest) -> bool: ...

    def next_allowance(self) -> bytes: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None: ...

    def close(self, meter: "Meter") -> None: ...


class Meter:
    """The allowance of one account, or one named key of it, under one name in the ledger, shared by streams. Get it by
    Meters.open.

    Events are priced by the list of the account, as its owner told it with the last hold; a credit is divided into a
    hundred times as many units then, so that a percentage of an event is a whole number of them. Where the owner tells
    another list, what was delivered is posted, and further events are of that one: at most PART_SECONDS_MAX later, as
    that is how long credits that are held by the former list are spent.

    spend is synchronous and cheap. When it gives False, nothing was spent: keep the event, and try again when
    `on_cover` of this stream is called; `on_end` is called in place of it when the account cannot pay any more.
    """

    def __init__(self, meters: MeterOwner, payer: ProvenProof, name: str) -> None:
        self._meters, self.payer, self.name = meters, payer, name
        self._prices = meters.prices_of(payer)
        self._factor, units_per_credit = _division_of(self._prices)
        self._allowance = Allowance(units_per_credit)
        self._streams: dict[object, tuple[Callable[[], None], Callable[[Refusal], None]]] = {}
        self._waiting: dict[object, None] = {}
        self._refused_at: float | None = None  # Monotonic time since when holds are refused.

    def join(self, stream: object, on_cover: Callable[[], None], on_end: Callable[[Refusal], None]) -> None:
        """Add a stream. on_cover: uncovered events may be tried again; on_end: the stream must end."""
        self._streams[stream] = on_cover, on_end

    def leave(self, stream: object) -> None:
        """Remove a stream. With the last one the allowance is posted."""
        self._streams.pop(stream, None)
        self._waiting.pop(stream, None)
        if not self._streams:
            self._meters.close(self)
            self._end_parts(all_of_them=True)

    def spend(self, units: int, stream: object) -> bool:
        """Spend units of a credit for an event that is being delivered. units: at the public price."""
        if self._factor != 1:
            units *= self._factor
        if self._allowance.spend_from_plenty(units):
            return True
        covered = self._allowance.spend(units)
        if not covered:
            self._waiting[stream] = None
        if not covered or self._allowance.has_used_up:
            self._end_parts()
        if self._refused_at is None:
            self._hold()
        return covered

    def look(self) -> None:
        """Run once a second: post used-up and old parts, and try again where streams wait."""
        self._end_parts()
        if self._waiting:
            self._hold()

    @property
    def spent_credits(self) -> int:
        """Return the credits delivered and not yet sent to the owner."""
        return self._allowance.spent_credits

    def post_spent(self) -> None:
        """Post delivered credits now, without waiting until their part is old."""
        self._end_parts(at_once=True)

    def end(self) -> None:
        """Post everything, for the orderly end of the process."""
        self._end_parts(all_of_them=True)

    def _hold(self) -> None:
        if credits := self._allowance.credits_to_hold():
            self._meters.run(self._hold_part(credits))

    async def _hold_part(self, credits: int) -> None:
        meters = self._meters
        refusal: Refusal | None
        try:
            operation, held_at = meters.next_allowance(), meters.clock.now()
            reply = await meters.ask(operation, self.payer, self.name, credits, self._prices.name)
            if reply.refusal == OTHER_PRICES:
                self._allowance.not_held()
                self._price_by(reply.price_list)
                return
            refusal = refusal_of(reply)
            left = reply.figures.credits_remaining if reply.figures is not None else 0
            if refusal is not None and refusal.err in _LACKS and 0 < left < credits:
                credits, operation = (left + 1) // 2, meters.next_allowance()  # The rest stays available for calls.
                reply = await meters.ask(operation, self.payer, self.name, credits, self._prices.name)
                refusal = refusal_of(reply)
        except OwnerUnavailable:
            refusal = AWAY
        if refusal is not None:
            self._allowance.not_held()
            self._refused(refusal)
            return
        self._refused_at = None
        self._allowance.held(HeldPart(operation, reply.epoch, credits, held_at, meters.clock.monotonic(), 0))
        if self._streams:
            self._wake()
        else:
            self._end_parts(all_of_them=True)

    def _price_by(self, name: str) -> None:
        """Price further events by this list, and what was delivered by the one before. Streams that wait ask again."""
        self._meters.told.learn(self.payer, name)
        if name != self._prices.name:  # Otherwise another hold has switched already.
            self._end_parts(all_of_them=True)
            self._prices = self._meters.prices_of(self.payer)
            self._factor, units_per_credit = _division_of(self._prices)
            self._allowance.start_over(units_per_credit)
        self._wake()

    def _refused(self, refusal: Refusal) -> None:
        """Record a refusal; the next look tries again if streams wait. Held credits may still cover every event."""
        now = self._meters.clock.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        is_short = refusal.err in _LACKS and now - self._refused_at < _SHORT_SECONDS_MAX
        if refusal.err in _PASSING or is_short or not self._waiting:
            return
        for _, on_end in list(self._streams.values()):
            on_end(refusal)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for stream in waiting:
            if stream in self._streams:
                self._streams[stream][0]()

    def _end_parts(self, all_of_them: bool = False, at_once: bool = False) -> None:
        for part, credits in self._allowance.parts_to_end(self._meters.clock.monotonic(), all_of_them, at_once):
            self._meters.run(self._end_part(part, credits))

    async def _end_part(self, part: HeldPart, credits: int) -> None:
        outcome = _POSTED if credits else _RELEASED
        settle = SettleRequest(
            *(part.operation, self.payer.pubkey, part.epoch, self.name, part.ceiling, credits, outcome, part.held_at),
            key=self.payer.key,
        )
        try:
            await self._meters.settle(settle)
        finally:
            self._allowance.posted()
        if self._waiting and self._refused_at is None:
            self._hold()


def _division_of(prices: PriceList) -> tuple[int, int]:
    """Return the factor of an event's public units, and the units of a credit."""
    if prices.percent == PERCENT:
        return 1, UNITS_PER_CREDIT
    return prices.percent, PERCENT * UNITS_PER_CREDIT


def refusal_of(reply: HoldReply) -> Refusal | None:
    if reply.refusal == OTHER_PRICES:
        return AWAY  # The prices keep changing: try again later.
    if reply.refusal is not None:
        return Refusal(Err[reply.refusal])
    name = reply.verdicts[0]
    if name == Err.METHOD_NOT_ALLOWED.name:
        return _NOT_FOR_KEY
    return None if name is None else Refusal(Err[name])
