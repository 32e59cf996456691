"""What a gRPC stream is charged, by a clock that the test moves, with the account's owner in this process."""

import asyncio
import heapq
import itertools

import pytest

from actors.clock import ManualClock
from actors.errors import Refusal
from actors.metering.meters import HeldCharge, Meters
from actors.streams.yellowstone.charges import MINUTE_CREDITS, MINUTE_NAME, GeyserCharges
from actors.streams.yellowstone.ends import NOT_RECORDED, RESOURCE_EXHAUSTED, StreamEnd
from tests.gateway.doubles import PROOF, OneAccount, unavailable

MINUTE = 60.0


class Time:
    """A clock, and sleeps that end when it gets there."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleeping, (self.clock.monotonic() + seconds, next(self._numbers), future))
        await future

    async def go_on(self, seconds: float) -> None:
        until = self.clock.monotonic() + seconds
        while self._sleeping and self._sleeping[0][0] <= until:
            at, _, future = heapq.heappop(self._sleeping)
            self.clock.advance(max(0.0, at - self.clock.monotonic()))
            if not future.done():
                future.set_result(None)
            await self.settle()
        self.clock.advance(until - self.clock.monotonic())
        await self.settle()

    async def settle(self) -> None:
        for _ in range(40):
            await asyncio.sleep(0)


class Replicas:
    """Two replicas, whose streams one owner charges."""

    def __init__(self, credits: int) -> None:
        self.time, self.account = Time(), OneAccount(credits)
        self.meters = [Meters(self.account, self.time.clock, replica) for replica in (b"replica1", b"replica2")]  # type: ignore[arg-type]

    async def begin(self, replica: int = 0) -> GeyserCharges:
        """Hold the charge of a stream whose first request is not there yet."""
        meters = self.meters[replica]
        charge = await meters.hold(PROOF, "grpc/Subscribe", 1)
        assert isinstance(charge, HeldCharge)
        return GeyserCharges(meters, charge, end_of, MINUTE, self.time.sleep)

    async def open(self, replica: int = 0) -> GeyserCharges:
        stream = await self.begin(replica)
        assert await stream.establish() is None
        return stream

    async def close(self, *streams: GeyserCharges) -> None:
        for stream in streams:
            stream.stop()
        await self.time.settle()

    async def stream(self, seconds: float, replica: int = 0) -> None:
        stream = await self.open(replica)
        await self.time.go_on(seconds)
        await self.close(stream)

    @property
    def minutes(self) -> int:
        return self.account.posted.get("grpc/minute", 0) // MINUTE_CREDITS


def end_of(refusal: Refusal) -> StreamEnd:
    return StreamEnd(RESOURCE_EXHAUSTED, refusal.message)


@pytest.mark.parametrize("pieces", [[168], [56, 56, 56], [55, 55, 58], [1] * 168, [61, 107], [120, 48]])
async def test_a_stream_in_pieces_costs_its_minutes_once_whichever_replica_has_them(pieces: list[int]) -> None:
    """Decisions, "Seconds of gRPC streams": 60 for each 60-second interval, and one credit for each stream."""
    both = Replicas(1_000)
    for number, seconds in enumerate(pieces):
        await both.stream(seconds, number % 2)
    assert both.account.posted == {"grpc/Subscribe": len(pieces), "grpc/minute": 120}
    assert both.account.held == {}


async def test_two_streams_at_once_have_their_own_time() -> None:
    both = Replicas(1_000)
    for seconds in (56, 56):
        streams = [await both.open(replica) for replica in (0, 1)]
        await both.time.go_on(seconds)
        await both.close(*streams)
    assert both.minutes == 2  # Each chain has 112 s.


async def test_time_that_was_left_is_taken_by_one_stream_alone() -> None:
    both = Replicas(1_000)
    await both.stream(50)
    streams = [await both.open(replica) for replica in (0, 1)]
    await both.time.go_on(11)
    assert both.minutes == 1
    await both.close(*streams)


async def test_no_key_pays_for_the_time_of_another() -> None:
    """Decisions, "Named keys": what a key has used is bounded by its own budget, and stands in its own entries; the
    account's own streams and those of its keys count apart."""
    both = Replicas(1_000)
    for key in (1, 2, 0):
        both.account.key = key
        await both.stream(50)
    assert both.minutes == 0
    for key, minutes in ((2, 1), (0, 2), (1, 3)):
        both.account.key = key
        await both.stream(11)
        assert both.minutes == minutes
    charged = [end.key for end in both.account.ends.values() if end.method == MINUTE_NAME]
    assert charged == [2, 0, 1]


async def test_a_minute_that_could_not_be_paid_is_due_when_the_next_stream_begins() -> None:
    """An account kept below the price of a minute must not have its streams for a credit each; the refused stream
    costs nothing."""
    both = Replicas(30)
    stream = await both.open()
    ends: list[StreamEnd] = []
    stream.on_end = ends.append
    await both.time.go_on(60)
    assert [end.code for end in ends] == [RESOURCE_EXHAUSTED]
    await both.close(stream)
    refused = await both.begin(1)
    end = await refused.establish()
    assert end is not None and end.code == RESOURCE_EXHAUSTED
    await both.close(refused)
    assert both.account.posted == {"grpc/Subscribe": 1} and both.account.held == {}
    both.account.credits += 100
    await both.stream(1)
    assert both.account.posted == {"grpc/Subscribe": 2, "grpc/minute": 60}


@pytest.mark.parametrize("seconds", [50, 60])
async def test_a_beginning_that_cannot_be_recorded_costs_nothing_and_loses_no_time(seconds: int) -> None:
    """Money rule 9: the stream is refused. The time that it had taken is there for the next one, and so is a minute
    that was due, whose hold is released."""
    both = Replicas(1 + seconds // 60)
    first = await both.open()
    await both.time.go_on(seconds)
    await both.close(first)
    both.account.credits += 1_000
    refused = await both.begin(1)
    both.account.settle_says_no = True
    assert await refused.establish() == NOT_RECORDED
    both.account.settle_says_no = False
    await both.close(refused)
    assert both.account.posted == {"grpc/Subscribe": 1}
    await both.stream(61 - seconds)
    assert both.account.posted == {"grpc/Subscribe": 2, "grpc/minute": 60}


async def test_a_client_that_leaves_while_its_stream_is_established_leaves_the_time_for_the_next() -> None:
    both = Replicas(1_000)
    await both.stream(50)
    stream = await both.begin()
    establishing = asyncio.create_task(stream.establish())
    await asyncio.sleep(0)  # The owner has been asked, and has not answered.
    establishing.cancel()
    await both.close(stream)
    await both.stream(11)
    assert both.minutes == 1


async def test_a_client_that_leaves_in_the_moment_of_a_payment_has_paid_it() -> None:
    both = Replicas(1_000)
    stream, gate = await both.open(), asyncio.Event()

    async def held_up(_request: object) -> None:
        await gate.wait()

    both.account.before_settle = held_up
    await both.time.go_on(60)
    stream.stop()
    gate.set()
    await both.close(stream)
    assert both.minutes == 1 and both.account.held == {}
    await both.stream(59)
    assert both.minutes == 1


async def test_an_owner_that_does_not_answer_costs_the_time_that_was_left_and_nothing_else() -> None:
    """In the customer's favour: a stream begins without it."""
    both = Replicas(1_000)
    both.account.before_stream_time = unavailable
    await both.stream(50)
    await both.stream(50)
    assert both.account.posted == {"grpc/Subscribe": 2}
