"""One client's Subscribe, over real connections."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
from solders.keypair import Keypair
from solders.signature import Signature

from actors.geyser_proto import api
from tests.gateway.doubles import PROOF
from tests.streams.geyser_world import (
    Client,
    GeyserWorld,
    Request,
    everything,
    geyser_world,
    numbered,
    settled,
    traffic,
    world_has_switched,
)


async def test_a_request_that_replaces_another_leaves_nothing_out_and_repeats_nothing(world: GeyserWorld) -> None:
    """Replace, not merge: each update comes once, under the names of the old request or of the new."""
    payer = world.local.wallet()
    client = world.client()
    request = traffic()
    await client.ask(request)
    await settled(world, client)
    landed: list[str] = []

    def land() -> None:
        landed.append(world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7)).signature)

    for round_number in range(6):
        for _ in range(3):
            land()
            await asyncio.sleep(0)
        request = Request()
        request.transactions[f"tx {round_number}"].account_include.append(str(payer.pubkey()))
        request.slots["levels"].filter_by_commitment = bool(round_number % 2)
        await client.ask(request)
        land()
        world.local.beat()
        await world.until(lambda name=f"tx {round_number}": world_has_switched(world, name))  # type: ignore[misc]
    land()
    world.local.beat()
    found: list[str] = []
    while not found or found[-1] != landed[-1]:
        update = await client.next()
        if update.HasField("transaction"):
            found.append(str(Signature(update.transaction.transaction.signature)))
    assert found == landed


async def test_headers_and_a_ping_come_before_any_request(world: GeyserWorld) -> None:
    """Some clients wait for the headers before they write; a client that closes its side still gets updates."""
    client = world.client()
    await asyncio.wait_for(client.call.initial_metadata(), 10)
    assert await client.until_pong(-7) == []
    assert client.pings >= 1
    await client.ask(traffic())
    await client.call.done_writing()
    await settled(world, client)


@pytest.mark.threat(30)
async def test_a_client_that_reads_nothing_costs_bounded_memory_and_is_ended(tmp_path: Path) -> None:
    """Threat 30: the queue is bounded, and the end names the last slot that was sent."""
    async with geyser_world(tmp_path, queue_updates_max=50, end_seconds=1.0) as world:
        payer = world.local.wallet(10**12)
        client = Client(world.channel(window_bytes=1 << 16), reads=False)
        request = everything()
        request.accounts_data_slice.add(offset=0, length=0)
        await client.ask(request)
        await world.until(lambda: "grpc/Subscribe" in world.account.posted)

        def fill() -> bool:
            for _ in range(20):
                world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**6))
            return world.feeds.feeds_open == 0

        await world.until(fill)
        # What gRPC holds for it counts until the client has read it, however long that takes.
        assert (world.service.queues.bytes, world.service.streams_open) == (0, 1)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            while await client.call.read() is not grpc.aio.EOF:
                pass
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "subscribe again with from_slot" in (ended.value.details() or "")
        await world.until(lambda: world.service.streams_open == 0)


class Silent:
    """The context of a call whose client takes nothing that is written."""

    def __init__(self) -> None:
        self.end: tuple[Any, str] | None = None

    async def send_initial_metadata(self, _metadata: object) -> None: ...

    async def write(self, _update: bytes) -> None:
        await asyncio.Event().wait()

    async def abort(self, code: Any, text: str) -> NoReturn:
        self.end = code, text
        raise grpc.aio.AbortError


@pytest.mark.threat(30)
async def test_slow_streams_of_an_account_are_bounded_together(tmp_path: Path) -> None:
    """Threat 30: those that take nothing end with the reason, and one that reads gets every update."""

    async def asked() -> AsyncIterator[bytes]:
        yield everything().SerializeToString()
        await asyncio.Event().wait()

    async with geyser_world(tmp_path, account_queues_bytes_max=1 << 16, end_seconds=0.05) as world:
        payer, reading = world.local.wallet(10**12), world.client()
        await reading.ask(traffic())
        await settled(world, reading)
        silent = [Silent() for _ in range(2)]
        nobody: Any = None
        running = [
            asyncio.create_task(world.service.subscribe(api.SUBSCRIBE, asked(), one, PROOF, nobody, nobody))
            for one in silent
        ]
        landed: set[str] = set()

        def fill() -> bool:
            assert world.service.queues.bytes <= 1 << 16
            record = world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**6))
            landed.add(str(record.signature))
            return all(task.done() for task in running)

        await world.until(fill)
        await asyncio.gather(*running, return_exceptions=True)
        assert [one.end[0] for one in silent if one.end] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
        assert all("of this account's streams wait" in one.end[1] for one in silent if one.end)
        assert (world.service.queues.bytes, world.service.queues.accounts, world.service.streams_open) == (0, 0, 1)
        while landed:
            world.local.beat()
            update = await reading.next()
            assert not isinstance(update, tuple), update
            if update.HasField("transaction"):
                landed.remove(str(Signature(update.transaction.transaction.signature)))


async def test_more_requests_than_allowed_in_a_second_end_the_stream(tmp_path: Path) -> None:
    """With the reason."""
    async with geyser_world(tmp_path, requests_per_second=5) as world:
        client = world.client()
        for number in range(6):
            await client.ask(numbered(number))
        code, text = await client.end()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "too many requests on this stream" in text
        large = world.client()  # Each 64 KiB count as one more.
        request = Request()
        request.accounts["large"].filters.add(memcmp={"offset": 0, "bytes": bytes(5 << 16)})
        await large.ask(request)
        code, text = await large.end()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "too many requests on this stream" in text


async def test_a_flood_of_requests_ends_the_stream(world: GeyserWorld) -> None:
    """Hostile: 100,000 requests on one stream are not 100,000 subscriptions at the node."""
    flood = world.client()
    with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
        for number in range(100_000):
            await flood.ask(numbered(number))
    await world.until(lambda: world.service.streams_open == 0)
    assert world.feeds.feeds_open == 0


@pytest.mark.parametrize(
    ("request_of", "code", "says"),
    [
        (lambda: Request(commitment=9), grpc.StatusCode.INVALID_ARGUMENT, "failed to create filter"),
        (lambda: b"\xff\xff", grpc.StatusCode.INTERNAL, "failed to decode Protobuf message"),
        (lambda: b"\x0a\x04\x0a\x02\xff\xfe", grpc.StatusCode.INTERNAL, "failed to decode Protobuf message"),
    ],
)
async def test_a_bad_request_is_free(world: GeyserWorld, request_of: Any, code: Any, says: str) -> None:
    """Every bad input gets a clear error before any charge: no credit is charged, and none stays held."""
    made = request_of()
    stub: Any = world.channel().stream_stream(api.SUBSCRIBE.path)
    call = stub()
    await call.write(made if isinstance(made, bytes) else made.SerializeToString())
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        while await call.read() is not grpc.aio.EOF:
            pass
    assert refused.value.code() is code and says in (refused.value.details() or "")
    await world.until(lambda: not world.account.held)
    assert world.account.posted == {}
    assert [size for size, _ in world.bad] == [len(made if isinstance(made, bytes) else made.SerializeToString())]


@pytest.mark.threat(62)
async def test_a_bad_request_of_many_filters_is_told_with_their_number(world: GeyserWorld) -> None:
    """Threat 62: refusals count by the work on them, and not by their number."""
    client, request = world.client(), Request()
    for number in range(500):
        request.slots[str(number)].SetInParent()
    request.accounts["bad"].account.append("no key")
    await client.ask(request)
    assert (await client.end())[0] is grpc.StatusCode.INVALID_ARGUMENT
    await world.until(lambda: bool(world.bad))
    assert world.bad == [(len(request.SerializeToString()), 501)]


async def test_a_large_request_is_read_beside_the_loop(world: GeyserWorld) -> None:
    """Two megabytes of keys take half a second to read, in which other streams go on; the newest request counts, and a
    bad one ends the stream."""
    payer = world.local.wallet()
    keys = [str(Keypair().pubkey()) for _ in range(3_000)]
    client = world.client()
    for name in ("first", "second"):
        request = Request()
        request.transactions[name].account_include.extend([*keys, str(payer.pubkey())])
        await client.ask(request)
    await client.until_pong(1)
    world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7))
    assert list((await client.next()).filters) == ["second"]
    request.transactions["second"].account_include.append("no key")
    await client.ask(request)
    code, text = await client.end()
    assert code is grpc.StatusCode.INVALID_ARGUMENT and text.startswith("failed to create filter")
