"""The charges of one gRPC stream: a credit when it is established, then its minutes.

Implements: interface, "Signal billing": 1 credit for a stream, and 60 for every further minute in which it is open;
decisions, "Seconds of gRPC streams"; money rules 1 and 10. A stream is established when its first request is accepted;
one that ends before costs nothing. A minute is paid when it begins. The time since the last minute that was paid is
left for the account's next stream, so that a stream cut into short ones costs what the whole one does.
A shell. Not here: when minutes are due (metering/minutes.py), who gets the time that was left
(accounts/stream_times.py).
"""

import asyncio
from collections.abc import Awaitable, Callable

from actors.errors import Err, Refusal
from actors.metering.meters import HeldCharge, Meters
from actors.metering.minutes import Minutes
from actors.methods.prices import STREAMS
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd

MINUTE_CREDITS, REPLAY_CREDITS = STREAMS["grpc"]["interval_credits"], STREAMS["grpc"]["replay_request_credits"]
MINUTE_NAME = "grpc/minute"
_FIRST_REQUEST_SECONDS = 30.0  # A stream without a request is charged after this time, because its hold expires.
_LEDGER_TRIES, _LEDGER_WAIT_SECONDS = 10, 1.0

EndOf = Callable[[Refusal], StreamEnd]  # How a stream ends that the account's owner refuses.


class GeyserCharges:
    """charge: of the stream's credit, held. minute_seconds: of an interval that is paid. stop() must follow.

    Whatever is under way when the stream ends is finished in the background. A client that leaves in the moment of a
    payment would otherwise neither pay it nor leave the time for which it was due.
    """

    def __init__(
        self,
        meters: Meters,
        charge: HeldCharge,
        end_of: EndOf,
        minute_seconds: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._meters, self._charge, self._end_of, self._minute_seconds = meters, charge, end_of, minute_seconds
        self._now, self._sleep = meters.clock.monotonic, sleep
        self._minutes: Minutes | None = None  # Once it is established.
        self._establishing: asyncio.Task[StreamEnd | None] | None = None
        self._paying: asyncio.Task[StreamEnd | None] | None = None
        self._is_stopped = False
        self.on_end: Callable[[StreamEnd], None] | None = None
        self._timer = asyncio.create_task(self._establish_late())

    async def establish(self) -> StreamEnd | None:
        """Charge for the stream, once. A StreamEnd: the account cannot pay, or the charge could not be recorded."""
        if self._establishing is None:
            self._establishing = asyncio.create_task(self._establish())
        return await asyncio.shield(self._establishing)

    async def again(self) -> StreamEnd | None:
        """Charge for a request with from_slot that replaces the filters of an open stream."""
        proof = self._charge.settle.payer
        held = await self._meters.hold(proof, self._charge.settle.method, REPLAY_CREDITS)
        if isinstance(held, Refusal):
            return self._end_of(held)
        return None if await self._meters.post(held) else geyser_ends.NOT_RECORDED

    def stop(self) -> None:
        """The stream has ended."""
        ended_at, self._is_stopped = self._now(), True
        self._timer.cancel()
        if self._establishing is None:
            self._meters.run(self._meters.release(self._charge))
        else:
            self._meters.run(self._leave_time(self._establishing, ended_at))

    async def _leave_time(self, establishing: "asyncio.Task[StreamEnd | None]", ended_at: float) -> None:
        await establishing
        self._timer.cancel()  # The timer of minutes, if it was only now established.
        if self._paying is not None:
            await self._paying
        if self._minutes is not None:
            await self._meters.leave_time(self._charge, self._minutes.unpaid(ended_at))

    async def _establish_late(self) -> None:
        await self._sleep(_FIRST_REQUEST_SECONDS)
        end = await self.establish()
        if end is not None:
            self._finish(end)

    async def _establish(self) -> StreamEnd | None:
        """Establish. A minute is due at once if the previous stream could not pay it; without it nothing is charged."""
        taken = await self._meters.take_time(self._charge)
        minutes = Minutes(self._minute_seconds, taken, self._now())
        minute = await self._hold_minute() if taken >= self._minute_seconds else None
        if isinstance(minute, Refusal):
            await self._meters.release(self._charge)
            await self._meters.leave_time(self._charge, taken)
            return self._end_of(minute)
        if not await self._meters.post(self._charge):
            if minute is not None:
                await self._meters.release(minute)
            await self._meters.leave_time(self._charge, taken)
            return geyser_ends.NOT_RECORDED
        self._minutes = minutes
        if minute is not None:
            if not await self._meters.post(minute):
                return geyser_ends.NOT_RECORDED
            minutes.paid()
        self._timer.cancel()
        self._timer = asyncio.create_task(self._pay_minutes(minutes))
        return None

    async def _pay_minutes(self, minutes: Minutes) -> None:
        while True:
            await self._sleep(minutes.due_at() - self._now())
            self._paying = asyncio.create_task(self._pay_minute(minutes))
            end = await asyncio.shield(self._paying)
            if end is not None:
                self._finish(end)
                return

    async def _pay_minute(self, minutes: Minutes) -> StreamEnd | None:
        for _ in range(_LEDGER_TRIES):
            held = await self._hold_minute()
            if isinstance(held, HeldCharge):
                if await self._meters.post(held):
                    minutes.paid()
                    return None
            elif held.err is not Err.SERVICE_TEMPORARILY_UNAVAILABLE:
                return self._end_of(held)
            if self._is_stopped:
                break
            await self._sleep(_LEDGER_WAIT_SECONDS)
        return geyser_ends.NOT_RECORDED

    async def _hold_minute(self) -> HeldCharge | Refusal:
        proof = self._charge.settle.payer
        return await self._meters.hold(proof, MINUTE_NAME, MINUTE_CREDITS, takes_rate_unit=False)

    def _finish(self, end: StreamEnd) -> None:
        if self.on_end is not None:
            self.on_end(end)
