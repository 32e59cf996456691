"""The stream of a real devnode: launches and trades are told, from now on and from a past slot."""

import asyncio
import contextlib
from collections.abc import Callable

import grpc
import pytest

from actors.signals.classify import PROGRAMS, classify
from actors.signals.events import SignalEvent
from actors.signals.geyser_source import GeyserSource
from actors.signals.sources import ChainSource, SlotSeen, SlotsGone, SlotState, SourceUnavailable, TransactionSeen
from actors.signals.transaction import known_key
from tests.devnode.conftest import Process
from tests.signals import chain_calls

WAIT_SECONDS = 60.0


async def collect(
    source: ChainSource, from_slot: int | None, enough: Callable[[list[SignalEvent]], bool], wallets: frozenset[str]
) -> list[SignalEvent]:
    """Classify what a source tells until it is enough and final."""
    found: list[SignalEvent] = []
    watched = {known_key(text) for text in wallets}
    async with asyncio.timeout(WAIT_SECONDS), contextlib.aclosing(source.updates(from_slot)) as updates:  # type: ignore[type-var]
        async for update in updates:
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
    async with asyncio.timeout(WAIT_SECONDS), contextlib.aclosing(source.updates(None)) as updates:
        async for update in updates:
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


def test_the_text_of_lost_slots_is_understood() -> None:
    """Facts: OUT_OF_RANGE with the first available slot in its text."""
    from actors.signals.geyser_source import _translated

    def error(code: grpc.StatusCode, text: str) -> grpc.aio.AioRpcError:
        return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=text)

    gone = _translated(error(grpc.StatusCode.OUT_OF_RANGE, "broadcast from 5 is not available, last available: 90"))
    assert isinstance(gone, SlotsGone) and gone.first == 90
    assert isinstance(_translated(error(grpc.StatusCode.INTERNAL, "lagged")), SourceUnavailable)
