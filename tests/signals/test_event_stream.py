"""GET /signals/stream: events with their cursors as ids, charges, bounds, and its end."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import base58
import orjson
import pytest

from actors.calls import KeyProof, Proof, ProvenProof
from actors.errors import Err, Refusal
from actors.pages import PageAnswer, PageRequest
from actors.place_shares import PlaceShares
from actors.signals.event_stream import BUFFER_MAX, SignalEventStream
from actors.signals.hub import SignalHub
from actors.signals.log import NO_CURSOR, SignalLogUnavailable
from tests.signals.test_hub import ACCOUNT, World, settled

_OPEN: list[Any] = []
KEYS = [base58.b58encode(bytes([number]) * 32).decode() for number in range(1, 151)]


class Charge:
    def __init__(self, balance: int) -> None:
        self.balance = balance


class Charges:
    """One account's credits, without an owner behind them: as Meters, and as StandingWatch."""

    def __init__(self, credits: int = 1_000) -> None:
        self.credits, self.stands = credits, True
        self.watched: dict[object, tuple[Proof, Callable[[Refusal], None]]] = {}
        self.opened = MadeMeter(self)

    async def begin(self, proof: Proof, name: str, credits: int) -> Charge | Refusal:
        if self.credits < credits:
            return Refusal(Err.INSUFFICIENT_CREDITS)
        self.credits -= credits
        return Charge(max(10, self.credits))

    async def post(self, charge: Any) -> bool:
        return self.stands

    async def release(self, charge: Any) -> None:
        self.credits += 5

    def open(self, pubkey: bytes, name: str) -> "MadeMeter":
        return self.opened

    def join(self, proof: Proof, payer: ProvenProof, stream: object, on_end: Callable[[Refusal], None]) -> None:
        self.watched[stream] = proof, on_end

    def leave(self, proof: Proof, payer: ProvenProof, stream: object) -> None:
        del self.watched[stream]


class MadeMeter:
    def __init__(self, charges: Charges) -> None:
        self._charges, self.joined = charges, 0
        self.on_end: Callable[[Refusal], None] | None = None

    def join(self, stream: object, on_cover: Callable[[], None], on_end: Callable[[Refusal], None]) -> None:
        self.joined += 1
        self.on_end = on_end

    def leave(self, stream: object) -> None:
        self.joined -= 1

    def spend(self, units: int, stream: object) -> bool:
        if self._charges.credits * 10 < units:
            assert self.on_end is not None
            self.on_end(Refusal(Err.INSUFFICIENT_CREDITS))
            return False
        self._charges.credits -= units // 10
        return True


def stream_of(hub: SignalHub, charges: Charges) -> SignalEventStream:
    parts: Any = charges
    return SignalEventStream(hub, parts, parts)


async def open_stream(world: World, charges: Charges, **sent: Any) -> Any:
    world_hub = await world.hub()
    page = stream_of(world_hub, charges)
    answer = await page.answer(PageRequest(ACCOUNT, **sent))
    if isinstance(answer, Refusal):
        return world_hub, answer
    assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
    assert answer.content_type == "text/event-stream"
    return world_hub, answer.body


async def read(stream: AsyncGenerator[bytes, None], count: int) -> list[bytes]:
    async with asyncio.timeout(5):
        return [await anext(stream) for _ in range(count)]


async def test_events_have_their_cursors_as_ids_and_are_charged() -> None:
    """Interface, "Signal billing": 5 for the beginning, 1 for each event."""
    world, charges = World(), Charges()
    await world.write(2)
    hub, stream = await open_stream(world, charges, query={"since": NO_CURSOR})
    head, first, second = await read(stream, 3)
    assert head.startswith(b"retry:")
    assert first.startswith(b"id: 1700000000000-1\nevent: signal\ndata: {") and b'"M1"' in second
    assert (charges.credits, charges.opened.joined, hub.count) == (1_000 - 5 - 2, 1, 1)
    await stream.aclose()
    assert (charges.opened.joined, hub.count, charges.watched) == (0, 0, {})


async def test_a_client_that_reconnects_goes_on_after_its_last_event() -> None:
    """Standard clients send Last-Event-ID by themselves; what was delivered is free."""
    world, charges = World(), Charges()
    await world.write(3)
    _, stream = await open_stream(world, charges, headers={"last-event-id": "1700000000000-2"})
    assert b'"M2"' in (await read(stream, 2))[1]
    await stream.aclose()


async def test_a_slow_client_keeps_little_here() -> None:
    """What does not fit waits in the log and follows."""
    world, charges = World(), Charges()
    await world.write(3 * BUFFER_MAX)
    _, stream = await open_stream(world, charges, query={"since": NO_CURSOR})
    await read(stream, 1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert charges.credits >= 1_000 - 5 - BUFFER_MAX - 1
    assert b'"M299"' in (await read(stream, 3 * BUFFER_MAX))[-1]
    await stream.aclose()


async def test_without_credits_there_is_no_stream_and_an_open_one_ends() -> None:
    world = World()
    await world.write(3)
    _, refusal = await open_stream(world, Charges(4))
    assert isinstance(refusal, Refusal) and refusal.err is Err.INSUFFICIENT_CREDITS
    _, stream = await open_stream(world, Charges(7), query={"since": NO_CURSOR})
    pieces = [piece async for piece in stream]
    error = orjson.loads(pieces[-1].partition(b"data: ")[2])["error"]
    assert (error["code"], error["constant"]) == ("INSUFFICIENT_CREDITS", "INSUFFICIENT_CREDITS")
    assert len(pieces) == 4


@pytest.mark.parametrize("proof", [None, KeyProof(b"r" * 8, b"h" * 32)])
async def test_a_stream_whose_account_may_not_go_on_ends_with_an_error(proof: Proof | None) -> None:
    """Threat 31, as for a WebSocket: what was charged is delivered, then the reason, and nothing more."""
    world, charges = World(), Charges()
    await world.write(1)
    hub, stream = await open_stream(world, charges, query={"since": NO_CURSOR}, proof=proof)
    await read(stream, 1)
    ((watched, on_end),) = charges.watched.values()
    assert watched == (proof or ProvenProof(ACCOUNT))
    await settled()
    on_end(Refusal(Err.AUTH_FAILED, "the API key was replaced"))
    await world.write(5)
    await world.publish(hub)
    event, error = [piece async for piece in stream]
    assert b'"M0"' in event and charges.credits == 1_000 - 5 - 1
    assert error.startswith(b"event: error\ndata: ") and error.endswith(b"\n\n")
    told = {
        "code": "AUTH_FAILED",
        "source": "gateway",
        "constant": "AUTH_FAILED",
        "message": "the API key was replaced",
    }
    assert orjson.loads(error.partition(b"data: ")[2]) == {"error": told}
    assert charges.watched == {}


async def test_bad_filters_cost_nothing() -> None:
    charges = Charges()
    _, refusal = await open_stream(World(), charges, query={"kinds": "x"})
    assert isinstance(refusal, Refusal) and refusal.err is Err.INVALID_REQUEST and charges.credits == 1_000


async def test_a_stream_that_does_not_begin_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interface, "Proxy error codes": a 503 consumes no credits, whichever step fails."""

    async def away(*_: Any) -> Any:
        raise SignalLogUnavailable("away")

    world, charges = World(), Charges()
    world.deliveries.delivered = away  # type: ignore[method-assign]
    unrecorded = Charges()
    unrecorded.stands = False
    tries: list[tuple[Charges, dict[str, Any]]] = [
        (charges, {"query": {"since": NO_CURSOR}}),
        (charges, {"query": {"wallets": ",".join(KEYS[:100])}}),
        (unrecorded, {}),
    ]
    monkeypatch.setattr("actors.signals.hub.ACCOUNT_WALLETS_MAX", 99)
    for payer, sent in tries:
        _, refusal = await open_stream(world, payer, **sent)
        assert isinstance(refusal, Refusal) and payer.credits == 1_000, refusal
    monkeypatch.setattr("actors.signals.event_stream.ACCOUNT_STREAMS_MAX", 2)
    page = stream_of(await World().hub(), charges)
    for _ in range(2):
        answer = await page.answer(PageRequest(ACCOUNT))
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
        await read(answer.body, 1)
    assert isinstance(await page.answer(PageRequest(ACCOUNT)), Refusal) and charges.credits == 1_000 - 2 * 5
    other = await page.answer(PageRequest(b"o" * 32))
    assert isinstance(other, PageAnswer)  # Its own limit, not the other account's.


@pytest.mark.threat(68)
async def test_streams_are_for_who_can_pay_them_and_some_are_kept_for_newcomers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One for each 10 credits of balance, so that four accounts cannot open all streams of a replica."""
    charges = Charges(24)
    page = stream_of(await World().hub(), charges)
    await begin(page, ACCOUNT)
    refused = await page.answer(PageRequest(ACCOUNT))
    assert isinstance(refused, Refusal) and refused.err is Err.INSUFFICIENT_CREDITS and charges.credits == 19
    assert "2 streams need a balance of 20 credits" in refused.message
    monkeypatch.setattr("actors.signals.event_stream.STREAMS", PlaceShares(total=10, kept=4, base=2, of_one_max=10))
    page = stream_of(await World().hub(), Charges(100_000))
    for account in (b"a" * 32, b"b" * 32, b"c" * 32):
        await begin(page, account)
        await begin(page, account)
    for account in (b"a" * 32, b"b" * 32, b"c" * 32):
        refused = await page.answer(PageRequest(account))
        assert isinstance(refused, Refusal) and refused.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    await begin(page, b"n" * 32)
    await begin(page, b"n" * 32)


async def begin(page: SignalEventStream, account: bytes) -> None:
    answer = await page.answer(PageRequest(account))
    assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes), answer
    await read(answer.body, 1)
    _OPEN.append(answer.body)  # Else it is closed with its generator.


async def test_a_head_answers_like_a_get_and_begins_no_stream() -> None:
    """Its status and headers, a lack of credits included; nothing is charged, as nothing begins."""
    charges = Charges()
    page = stream_of(await World().hub(), charges)
    got = await page.answer(PageRequest(ACCOUNT))
    assert isinstance(got, PageAnswer) and charges.credits == 1_000 - 5
    head = await page.answer(PageRequest(ACCOUNT, is_head=True))
    assert isinstance(head, PageAnswer) and not isinstance(head.body, bytes) and not isinstance(got.body, bytes)
    assert (head.status, head.content_type, head.headers) == (got.status, got.content_type, got.headers)
    assert [piece async for piece in head.body] == [] and charges.credits == 1_000 - 5 and not charges.watched
    await got.body.aclose()
    charges.credits = 4
    assert isinstance(await page.answer(PageRequest(ACCOUNT, is_head=True)), Refusal)


async def test_a_stream_joins_the_meter_that_is_in_use_when_it_begins() -> None:
    """A meter whose last stream has left is looked at by nobody: a stream on it would wait for ever."""
    world, charges = World(), Charges()
    _, stream = await open_stream(world, charges)
    charges.opened = later = MadeMeter(charges)
    await read(stream, 1)
    assert later.joined == 1
    await stream.aclose()
