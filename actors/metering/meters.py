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
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from actors.accounts.api import AccountsClient, OwnerUnavailable, ReadStanding
from actors.accounts.told_lists import ToldLists
from actors.background import Background
from actors.calls import (
    FIRST_ALLOWANCE,
    FIRST_STREAM_CHARGE,
    OTHER_PRICES,
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
from actors.metering.meter import AWAY, Meter, refusal_of
from actors.metering.standing_watch import BALANCE_MIN
from actors.methods.price_lists import PUBLIC, PriceList
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_HOLDS_MAX = 3  # Holds: by a guess, by the list that the owner told, and once more if the list changed meanwhile.
_LOOK_SECONDS = 1.0  # Interval of checking the age of parts, and of retrying refused holds.
_POSTED, _RELEASED = int(Outcome.ANSWERED), int(Outcome.RELEASED)
_KEY_LOW = Refusal(
    Err.KEY_BUDGET_EXCEEDED, hint=f"an open stream needs {BALANCE_MIN} credits of its key's budget after the charge"
)


@dataclass(frozen=True, slots=True)
class HeldCharge:
    """A held charge; call exactly one of Meters.post and Meters.release. figures: for headers."""

    settle: SettleRequest
    figures: Figures

    @property
    def pubkey(self) -> bytes:
        return self.settle.pubkey

    @property
    def balance(self) -> int:
        """The credits beside this charge, where Meters.begin has held it: at least what an open stream needs."""
        return max(BALANCE_MIN, self.figures.credits_remaining)


class Meters:
    """Belongs to one event loop. replica_id: known to owners, which release its holds when this process dies. lists:
    the price lists of the settings. told: which of them accounts have, as far as this process knows."""

    def __init__(
        self,
        accounts: AccountsClient,
        clock: Clock,
        replica_id: bytes,
        metrics: Metrics | None = None,
        lists: Mapping[str, PriceList] | None = None,
        told: ToldLists | None = None,
    ) -> None:
        self.told, self._lists = told or ToldLists(), lists or {}
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
        """Use this replica id for operations from now on: an owner has given up the former one."""
        self._replica_id = replica_id

    def prices_of(self, proof: Proof) -> PriceList:
        """Return the prices that this proof's account pays, as far as is known here."""
        return self.prices_by(self.told.of(proof)) if self.told.names else PUBLIC

    def prices_by(self, name: str) -> PriceList:
        """Return the prices of the list of this name; a list missing from the settings has the public prices."""
        return self._lists.get(name) or PriceList(name)

    # --- events, by allowance

    def open(self, payer: ProvenProof, name: str) -> Meter:
        """Return the meter that all streams of this payer and name share. name: the method in the ledger."""
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
        """Tell the owner now what an account's streams have delivered, because it has few credits left."""
        for meter in self._of(payer):
            meter.post_spent()

    # --- charges at once

    async def hold(
        self, proof: Proof, name: str, credits: int, *, takes_rate_unit: bool = True, pieces: int = 1
    ) -> HeldCharge | Refusal:
        """Hold a charge before the work that it pays for, as for a call, by the price list of the account.

        credits: the public price of each of so many pieces.
        takes_rate_unit: False for a charge that an open stream makes by itself, as gRPC's for a minute: it is granted
        however many calls the account makes. Refuses with the owner's refusals: AUTH_FAILED, PAYMENT_REQUIRED,
        METHOD_NOT_ALLOWED, RATE_LIMITED, CONCURRENCY_LIMITED, INSUFFICIENT_CREDITS, SERVICE_TEMPORARILY_UNAVAILABLE.
        """
        for _ in range(_HOLDS_MAX):
            held_at, prices = self.clock.now(), self.prices_of(proof)
            cost = prices.credits(name, credits) * pieces
            operation = self._next_charge() if takes_rate_unit else self.next_allowance()
            try:
                reply = await self.ask(operation, proof, name, cost, prices.name)
            except OwnerUnavailable:
                return AWAY
            if reply.refusal != OTHER_PRICES:
                break
            self.told.learn(proof, reply.price_list)
        refusal = refusal_of(reply)
        if refusal is not None:
            return refusal
        assert reply.figures is not None
        if reply.price_list:
            self.told.learn(reply.payer, reply.price_list)  # For later events.
        settle = SettleRequest(operation, reply.pubkey, reply.epoch, name, cost, cost, _POSTED, held_at, key=reply.key)
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
            left = reply.value.balance - charge.settle.ceiling - self.unposted_credits(charge.settle.payer)
            if left >= BALANCE_MIN:
                return charge
        await self.release(charge)
        if reply is None:
            return AWAY
        if charge.settle.key:
            return _KEY_LOW
        return Refusal(Err.INSUFFICIENT_CREDITS, hint=f"an open stream needs {BALANCE_MIN} credits after the charge")

    async def post(self, charge: HeldCharge) -> bool:
        """Charge a held amount. True: durable, and the paid work may be delivered. False: it costs nothing."""
        return await self.settle(charge.settle)

    async def release(self, charge: HeldCharge) -> None:
        """Release a held charge, because the work failed."""
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
        """Leave the unpaid time of an ended stream. It is lost if the owner does not answer."""
        with contextlib.suppress(OwnerUnavailable):
            await self._accounts.stream_time(_time_of(charge, int(seconds * 1000)))

    # --- of this folder

    async def ask(self, operation: bytes, proof: Proof, name: str, credits: int, price_list: str) -> HoldReply:
        items = (HoldItem(name, credits),)
        return await self._accounts.hold(HoldRequest(operation, proof, items, price_list=price_list))

    async def settle(self, settle: SettleRequest) -> bool:
        """End a hold. A post with unknown outcome is voided, so that it is not charged by accident later."""
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
