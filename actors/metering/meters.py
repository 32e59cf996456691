"""Holds and posts what streams cost, through the owner of each account: by allowance for events, or at once.

Implements: money rules 1 and 10, and 3.11; interface, "WebSocket /ws" and "Signal billing". A shell around
allowance.py. One `Meters` serves all streams of a process, whatever their door.

An allowance belongs to one account and one name in the ledger, and all streams of this process share it, so that a
thousand sockets of one account hold 50 credits and not 50,000. Its operation ids are marked (calls.py): the holds take
no rate unit, and are granted when the account's calls in flight are used up, because an open stream must not be starved
by calls.

A part that cannot be posted, because its owner is away for too long or has given this process up, costs nothing.
"""

import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from actors.accounts.api import AccountsClient, OwnerUnavailable, ReadStanding
from actors.background import Background
from actors.calls import (
    FIRST_ALLOWANCE,
    FIRST_STREAM_CHARGE,
    Figures,
    HoldItem,
    HoldReply,
    HoldRequest,
    Outcome,
    Proof,
    ProvenProof,
    SettleRequest,
    StreamTime,
    operation_at,
)
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.metering.allowance import PART_SECONDS_MAX, Allowance, HeldPart
from actors.metering.standing_watch import BALANCE_MIN
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0  # How often parts are looked at for their age, and a hold that was refused is asked again.
# Other processes may hold the account's last credits ahead; what they do not spend is free again after so long.
_SHORT_SECONDS_MAX = PART_SECONDS_MAX + 2
_POSTED, _RELEASED = int(Outcome.ANSWERED), int(Outcome.RELEASED)
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")
# Refusals that pass by themselves: an open stream waits, and its bounded queue ends it where the wait is too long.
_KEY_LOW = Refusal(
    Err.KEY_BUDGET_EXCEEDED, hint=f"an open stream needs {BALANCE_MIN} credits of its key's budget after the charge"
)
_NOT_FOR_KEY = Refusal(Err.METHOD_NOT_ALLOWED, "this API key may open no streams: its methods do not name STREAMS")
_LACKS = frozenset((Err.INSUFFICIENT_CREDITS, Err.KEY_BUDGET_EXCEEDED, Err.HOURLY_LIMIT_EXCEEDED))
_PASSING = frozenset((Err.SERVICE_TEMPORARILY_UNAVAILABLE, Err.RATE_LIMITED, Err.CONCURRENCY_LIMITED))


@dataclass(frozen=True, slots=True)
class HeldCharge:
    """One charge that is held. Exactly one of Meters.post and Meters.release must follow. figures: for headers."""

    settle: SettleRequest
    figures: Figures

    @property
    def pubkey(self) -> bytes:
        return self.settle.pubkey

    @property
    def balance(self) -> int:
        """The credits beside this charge, where Meters.begin has held it: at least what an open stream needs."""
        return max(BALANCE_MIN, self.figures.credits_remaining)


class Meter:
    """The allowance of one account, or one named key of it, under one name in the ledger, shared by streams. Get it by
    Meters.open.

    spend is synchronous and cheap. When it gives False, nothing was spent: keep the event, and try again when
    `on_cover` of this stream is called; `on_end` is called in place of it when the account cannot pay any more.
    """

    def __init__(self, meters: "Meters", payer: ProvenProof, name: str) -> None:
        self._meters, self.payer, self.name = meters, payer, name
        self._allowance = Allowance()
        self._streams: dict[object, tuple[Callable[[], None], Callable[[Refusal], None]]] = {}
        self._waiting: dict[object, None] = {}
        self._refused_at: float | None = None  # Monotonic; since when holds are refused.

    def join(self, stream: object, on_cover: Callable[[], None], on_end: Callable[[Refusal], None]) -> None:
        """Add a stream. on_cover: events that were not covered may be tried again; on_end: it must end."""
        self._streams[stream] = on_cover, on_end

    def leave(self, stream: object) -> None:
        """Take a stream out. With the last one the allowance is posted."""
        self._streams.pop(stream, None)
        self._waiting.pop(stream, None)
        if not self._streams:
            self._meters.close(self)
            self._end_parts(all_of_them=True)

    def spend(self, units: int, stream: object) -> bool:
        """Spend so many units of a credit for an event that is being delivered."""
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
        """Once a second: post what is used up or old, and ask again where streams wait."""
        self._end_parts()
        if self._waiting:
            self._hold()

    @property
    def spent_credits(self) -> int:
        """Delivered, and not on its way to the owner."""
        return self._allowance.spent_credits

    def post_spent(self) -> None:
        """Post what is delivered now, and not when its part is old."""
        self._end_parts(at_once=True)

    def end(self) -> None:
        """Post everything; for the orderly end of the process."""
        self._end_parts(all_of_them=True)

    def _hold(self) -> None:
        if credits := self._allowance.credits_to_hold():
            self._meters.run(self._hold_part(credits))

    async def _hold_part(self, credits: int) -> None:
        meters = self._meters
        refusal: Refusal | None
        try:
            operation, held_at = meters.next_allowance(), meters.clock.now()
            reply = await meters.ask(operation, self.payer, self.name, credits)
            refusal = _refusal_of(reply)
            left = reply.figures.credits_remaining if reply.figures is not None else 0
            if refusal is not None and refusal.err in _LACKS and 0 < left < credits:
                credits, operation = (left + 1) // 2, meters.next_allowance()  # The rest stays free for calls.
                reply = await meters.ask(operation, self.payer, self.name, credits)
                refusal = _refusal_of(reply)
        except OwnerUnavailable:
            refusal = _AWAY
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

    def _refused(self, refusal: Refusal) -> None:
        """The next look asks again, if streams wait. What is held may still cover every event."""
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


class Meters:
    """Belongs to one event loop. replica_id: known to owners, which release its holds when this process dies."""

    def __init__(
        self, accounts: AccountsClient, clock: Clock, replica_id: bytes, metrics: Metrics | None = None
    ) -> None:
        self._accounts, self.clock, self._replica_id = accounts, clock, replica_id
        self._metrics = metrics or Metrics()
        self._allowances, self._charges = FIRST_ALLOWANCE, FIRST_STREAM_CHARGE
        self._meters: dict[ProvenProof, dict[str, Meter]] = {}  # By payer, then by name.
        self._posts = Background(logger, "metering failed")
        self._looking = Background(logger, "looking at the meters failed")

    def start(self) -> None:
        self._looking.repeat(self._look, _LOOK_SECONDS)

    async def stop(self) -> None:
        """Post every allowance, and wait for the posts."""
        await self._looking.stop()
        for meter in self._all():
            meter.end()
        await self._posts.finish()

    def start_over(self, replica_id: bytes) -> None:
        """Name operations by this replica id from now on: an owner has given up the one before."""
        self._replica_id = replica_id

    # --- events, by allowance

    def open(self, payer: ProvenProof, name: str) -> Meter:
        """The meter that all streams of this payer and name share. name: the method that the ledger shows."""
        meters = self._meters.setdefault(payer, {})
        meter = meters.get(name)
        if meter is None:
            meter = meters[name] = Meter(self, payer, name)
        return meter

    def close(self, meter: Meter) -> None:
        meters = self._meters.get(meter.payer, {})
        if meters.get(meter.name) is meter:
            del meters[meter.name]
            if not meters:
                del self._meters[meter.payer]

    def look(self) -> None:
        for meter in self._all():
            meter.look()

    def _all(self) -> list[Meter]:
        return [meter for meters in self._meters.values() for meter in meters.values()]

    def unposted_credits(self, payer: ProvenProof) -> int:
        """Credits that all streams of a payer in this process have delivered, and the owner has not been told yet. Of
        an account itself, what those of its named keys have delivered too.

        Credits whose post is on its way do not count: the owner's balance may have them already.
        """
        return sum(meter.spent_credits for meter in self._of(payer))

    def _of(self, payer: ProvenProof) -> list[Meter]:
        if payer.key:
            return list(self._meters.get(payer, {}).values())
        return [meter for meter in self._all() if meter.payer.pubkey == payer.pubkey]

    def post_spent(self, payer: ProvenProof) -> None:
        """Tell the owner now what the streams of an account have delivered: the account has few credits left."""
        for meter in self._of(payer):
            meter.post_spent()

    # --- charges at once

    async def hold(
        self, proof: Proof, name: str, credits: int, *, takes_rate_unit: bool = True
    ) -> HeldCharge | Refusal:
        """Hold a charge before the work that it pays for, as for a call.

        takes_rate_unit: False for a charge that an open stream makes by itself, as gRPC's for a minute: it is granted
        however many calls the account makes. Refuses with the owner's refusals: AUTH_FAILED, PAYMENT_REQUIRED,
        METHOD_NOT_ALLOWED, RATE_LIMITED, CONCURRENCY_LIMITED, INSUFFICIENT_CREDITS, SERVICE_TEMPORARILY_UNAVAILABLE.
        """
        held_at = self.clock.now()
        operation = self._next_charge() if takes_rate_unit else self.next_allowance()
        try:
            reply = await self.ask(operation, proof, name, credits)
        except OwnerUnavailable:
            return _AWAY
        refusal = _refusal_of(reply)
        if refusal is not None:
            return refusal
        assert reply.figures is not None
        settle = SettleRequest(
            operation, reply.pubkey, reply.epoch, name, credits, credits, _POSTED, held_at, key=reply.key
        )
        return HeldCharge(settle, reply.figures)

    async def begin(self, proof: Proof, name: str, credits: int) -> HeldCharge | Refusal:
        """Hold the charge of a stream's beginning, as `hold` does.

        Refuses with INSUFFICIENT_CREDITS too, and holds nothing, where the balance after the charge would be below the
        minimum of an open stream: the standing watch would end the stream that was just paid for.
        """
        charge = await self.hold(proof, name, credits)
        # The owner is asked once more only when little is left: credits that other streams hold ahead still count.
        if isinstance(charge, Refusal) or charge.figures.credits_remaining >= BALANCE_MIN:
            return charge
        try:
            reply = await self._accounts.ask(ReadStanding(charge.settle.payer))
        except OwnerUnavailable:
            reply = None
        if reply is not None and reply.value is not None:
            left = reply.value.balance - credits - self.unposted_credits(charge.settle.payer)
            if left >= BALANCE_MIN:
                return charge
        await self.release(charge)
        if reply is None:
            return _AWAY
        if charge.settle.key:
            return _KEY_LOW
        return Refusal(Err.INSUFFICIENT_CREDITS, hint=f"an open stream needs {BALANCE_MIN} credits after the charge")

    async def post(self, charge: HeldCharge) -> bool:
        """Charge what was held; True: it is durable, and what it pays for may be delivered. False: it costs nothing."""
        return await self.settle(charge.settle)

    async def release(self, charge: HeldCharge) -> None:
        """Let go of what was held: the work failed."""
        settle = charge.settle
        await self.settle(
            SettleRequest(
                *(settle.operation, settle.pubkey, settle.epoch, settle.method, settle.ceiling),
                *(0, _RELEASED, settle.held_at),
                key=settle.key,
            )
        )

    # --- the unpaid time of streams

    async def take_time(self, charge: HeldCharge) -> float:
        """Take the time that an ended stream of the same payer has left, for the stream of this charge; in seconds.

        0 where the owner does not answer, in the customer's favour.
        """
        try:
            reply = await self._accounts.stream_time(_time_of(charge, None))
        except OwnerUnavailable:
            return 0.0
        return reply.taken_ms / 1000

    async def leave_time(self, charge: HeldCharge, seconds: float) -> None:
        """Leave the unpaid time of a stream that has ended. Lost where the owner does not answer."""
        with contextlib.suppress(OwnerUnavailable):
            await self._accounts.stream_time(_time_of(charge, int(seconds * 1000)))

    # --- of this folder

    async def ask(self, operation: bytes, proof: Proof, name: str, credits: int) -> HoldReply:
        return await self._accounts.hold(HoldRequest(operation, proof, (HoldItem(name, credits),)))

    async def settle(self, settle: SettleRequest) -> bool:
        """End a hold. A post that stays unknown is voided: it must not be charged by accident later."""
        try:
            reply = await self._accounts.settle(settle)
        except OwnerUnavailable:
            self._accounts.void(settle)
            return False
        if reply.ok and settle.charged:
            # The events were delivered before, and a stream's start is delivered in this turn.
            self._accounts.delivered(settle.pubkey, settle.operation)
            self._metrics.charged(settle.method, settle.charged)
        return reply.ok

    def next_allowance(self) -> bytes:
        self._allowances += 1
        return operation_at(self._replica_id + bytes(8), self._allowances)

    def _next_charge(self) -> bytes:
        self._charges += 1
        return operation_at(self._replica_id + bytes(8), self._charges)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._posts.start(work)

    async def _look(self) -> None:
        self.look()


def _time_of(charge: HeldCharge, left_ms: int | None) -> StreamTime:
    return StreamTime(charge.settle.operation, charge.pubkey, left_ms, charge.settle.key)


def _refusal_of(reply: HoldReply) -> Refusal | None:
    if reply.refusal is not None:
        return Refusal(Err[reply.refusal])
    name = reply.verdicts[0]
    if name == Err.METHOD_NOT_ALLOWED.name:
        return _NOT_FOR_KEY
    return None if name is None else Refusal(Err[name])
