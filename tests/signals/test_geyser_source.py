"""The stream of a real devnode: launches and trades are told, from now on and from a past slot."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import pytest

from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import SubscribeRequest, SubscribeUpdate
from actors.grpc_http2.client_call import CallFailed
from actors.signals import geyser_source
from actors.signals.classify import PROGRAMS, classify
from actors.signals.events import SignalEvent
from actors.signals.geyser_source import GeyserSource
from actors.signals.sources import (
    BATCH_MAX,
    ChainSource,
    SlotSeen,
    SlotsGone,
    SlotState,
    SourceUnavailable,
    TransactionSeen,
    Update,
)
from actors.signals.transaction import known_key
from bench.yellowstone_servers import trade
from tests.devnode.conftest import Process
from tests.signals import chain_calls

WAIT_SECONDS = 60.0


def each(batches: AsyncIterator[Sequence[Update]]) -> AsyncIterator[Update]:
    return (update async for updates in batches for update in updates)


async def collect(
    source: ChainSource, from_slot: int | None, enough: Callable[[list[SignalEvent]], bool], wallets: frozenset[str]
) -> list[SignalEvent]:
    """Classify what a source tells until it is enough and final."""
    found: list[SignalEvent] = []
    watched = {known_key(text) for text in wallets}
    async with asyncio.timeout(WAIT_SECONDS), contextlib.aclosing(source.updates(from_slot)) as batches:
        async for update in each(batches):
            if isinstance(update, TransactionSeen):
                found += classify(update.transaction, large_swap_lamports=1, watched_wallets=watched)
            elif update.state is SlotState.FINALIZED and enough(found):
                return found
    raise AssertionError("the source ended")


async def test_launches_are_streamed_live_and_replayed(chain: Process) -> None:
    """The same signals live and from a past slot; a wallet's transactions once it is watched."""
    source = GeyserSource(chain.facts["grpc_url"], PROGRAMS)
    start = chain_calls.rpc(chain.url, "getSlot", {"commitment": "processed"})
    launched = await asyncio.to_thread(chain_calls.launch, chain.url, trades=3)
    wanted = {("newPair", launched["mint"]), ("largeSwap", launched["mint"])}

    def enough(found: list[SignalEvent]) -> bool:
        return wanted <= {(event.kind, event.mint) for event in found}

    replayed = await collect(source, start, enough, frozenset())
    again = await collect(source, start, enough, frozenset())
    assert [event.identity for event in replayed] == [event.identity for event in again]
    pair = next(event for event in replayed if event.kind == "newPair")
    assert pair.accounts == (launched["bonding_curve"], launched["mint"], launched["creator"])
    assert (pair.quote_asset, pair.curve_type, pair.complete) == (
        launched["quote_asset"],
        launched["curve_type"],
        False,
    )


async def test_slots_tell_their_parents_and_states(chain: Process) -> None:
    """Forks are told from them."""
    source, states = GeyserSource(chain.facts["grpc_url"], PROGRAMS), set()
    async with asyncio.timeout(WAIT_SECONDS), contextlib.aclosing(source.updates(None)) as batches:
        async for update in each(batches):
            if isinstance(update, SlotSeen):
                states.add(update.state)
                assert update.parent is None or update.parent < update.slot
            if {SlotState.PROCESSED, SlotState.CONFIRMED, SlotState.FINALIZED} <= states:
                break
    assert source.head() > 0


async def test_slots_that_are_not_kept_and_endpoints_that_are_away_are_told_apart(chain: Process) -> None:
    """The first are read as blocks, for the second the stream is tried again."""
    with pytest.raises((SlotsGone, SourceUnavailable)):
        await anext(GeyserSource(chain.facts["grpc_url"], PROGRAMS).updates(10**12))
    with pytest.raises(SourceUnavailable):
        await anext(GeyserSource("http://127.0.0.1:1", PROGRAMS).updates(None))


class _Node:
    """Sends so many transactions and pings as fast as they are taken, then says nothing more, or breaks off."""

    def __init__(self, count: int, *, breaks_off: bool, slots: int = 0) -> None:
        """slots: transactions are of slots from 1 to this one; 0: each of its own."""
        self._count, self._breaks_off, self._slots, self.pongs = count, breaks_off, slots, 0
        self.requests: list[SubscribeRequest] = []
        self.knows_wallets = asyncio.Event()

    async def subscribe(self, requests: AsyncIterator[SubscribeRequest], context: Any) -> None:
        async def hear() -> None:
            async for request in requests:
                self.pongs += request.HasField("ping")
                self.requests.append(request)
                if "wallets" in request.transactions:
                    self.knows_wallets.set()

        hearing = asyncio.create_task(hear())
        for number in range(self._count):
            slot = 1 + number * self._slots // self._count if self._slots else number
            await context.write(trade(slot, number, 5))
            if number % 100 == 0 and not self._breaks_off:  # An answer to a stream that has ended hides how it ended.
                await context.write(SubscribeUpdate(ping={}))
        if self._breaks_off:
            hearing.cancel()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "lagged")
        await hearing

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self.subscribe, SubscribeRequest.FromString, SubscribeUpdate.SerializeToString
        )
        methods = {api.SUBSCRIBE.name: handler}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE, methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield f"http://127.0.0.1:{port}"
        await server.stop(0)


@pytest.mark.parametrize("breaks_off", [False, True])
async def test_a_slow_reader_holds_the_node_back_and_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, breaks_off: bool
) -> None:
    """Updates that were read and not taken are bounded; those from before the end are told in order; pings answered."""
    monkeypatch.setattr(geyser_source, "QUEUE_MAX", 300)
    monkeypatch.setattr(geyser_source, "_SILENT_SECONDS_MAX", 1.0)
    longest, node, seen = 0, _Node(2_000, breaks_off=breaks_off), []

    class Watched(geyser_source.Inbox):
        def add(self, payload: bytes) -> None:
            nonlocal longest
            super().add(payload)
            longest = max(longest, len(self._payloads))

    monkeypatch.setattr(geyser_source, "Inbox", Watched)
    async with node.serving() as url, asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(SourceUnavailable, match="lagged" if breaks_off else "silent"):
            async for updates in GeyserSource(url, PROGRAMS).updates(None):
                assert len(updates) <= BATCH_MAX
                seen += [update.transaction.slot for update in updates if isinstance(update, TransactionSeen)]
                await asyncio.sleep(0.01)
    assert seen == list(range(2_000))
    assert longest <= 300
    assert node.pongs == (0 if breaks_off else 20)


async def test_what_is_of_other_parts_is_left_out_but_for_the_first_of_each_slot() -> None:
    """The first one tells how far the source is, whatever part it is of."""
    node, seen = _Node(50, breaks_off=True, slots=10), list[tuple[int, bytes]]()
    signatures = {bytes(trade(0, number, 5).transaction.transaction.signature) for number in range(0, 50, 7)}
    async with node.serving() as url, asyncio.timeout(WAIT_SECONDS):
        source = GeyserSource(url, PROGRAMS)
        source.narrow(signatures.__contains__)
        with pytest.raises(SourceUnavailable):
            async for update in each(source.updates(None)):
                if isinstance(update, TransactionSeen):
                    seen.append((update.transaction.slot, update.transaction.signature))
    assert signatures <= {signature for _, signature in seen}
    assert [slot for slot, signature in seen if signature not in signatures] == [2, 3, 4, 5, 6, 7, 9, 10]
    assert {slot for slot, _ in seen} == set(range(1, 11))


@pytest.mark.parametrize("turns", range(1, 6))
async def test_wallets_that_are_named_early_do_not_hide_the_first_slot(turns: int) -> None:
    """The node would tell from now on, and signals between the stored position and now would be lost."""
    node = _Node(1, breaks_off=False)
    async with node.serving() as url, asyncio.timeout(WAIT_SECONDS):
        source = GeyserSource(url, PROGRAMS)
        async with contextlib.aclosing(source.updates(7)) as batches:
            reading = asyncio.create_task(anext(batches))
            for _ in range(turns):
                await asyncio.sleep(0)
            await source.watch(frozenset({PROGRAMS[0]}))
            await reading
            await node.knows_wallets.wait()
    assert node.requests[0].from_slot == 7


async def test_the_inbox_is_bounded_by_bytes_too() -> None:
    inbox = geyser_source.Inbox(10, 1_000)
    inbox.add(b"x" * 1_000)
    assert inbox.is_full
    waiting = asyncio.create_task(inbox.has_room())
    await asyncio.sleep(0)
    assert await inbox.take(5) == [b"x" * 1_000]
    await waiting
    inbox.end()
    assert await inbox.take(5) == []


def test_the_text_of_lost_slots_is_understood() -> None:
    """Facts: OUT_OF_RANGE with the first available slot in its text."""
    from actors.signals.geyser_source import _translated

    text = "broadcast from 5 is not available, last available: 90"
    gone = _translated(CallFailed(grpc.StatusCode.OUT_OF_RANGE, text))
    assert isinstance(gone, SlotsGone) and gone.first == 90
    assert isinstance(_translated(CallFailed(grpc.StatusCode.INTERNAL, "lagged")), SourceUnavailable)
