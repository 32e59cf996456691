"""Blocks by JSON-RPC tell what the stream tells; what is gone is said."""

import asyncio
from collections import Counter

import pytest

from actors.signals.block_source import BlockSource
from actors.signals.classify import PROGRAMS
from actors.signals.events import SignalEvent
from actors.signals.geyser_source import GeyserSource
from actors.signals.sources import SlotSeen, SlotsGone, SlotState, SourceUnavailable, TransactionSeen, Update
from actors.upstream.client import NodeClient
from actors.upstream.replies import TIMED_OUT, NodeAnswer, made
from tests.devnode.conftest import Process
from tests.signals import chain_calls
from tests.signals.test_geyser_source import collect, each


async def test_the_fallback_tells_what_the_stream_tells(chain: Process, node: NodeClient) -> None:
    """A subscriber must not see which source the gateway has."""
    chain_calls.launch(chain.url, trades=0)  # After it the stream's memory reaches back to this node's start.
    start = chain_calls.rpc(chain.url, "getSlot", {"commitment": "processed"})
    launched = chain_calls.launch(chain.url, trades=4)
    watched = frozenset([launched["creator"]])

    def enough(found: list[SignalEvent]) -> bool:
        return {launched["mint"]} <= {event.mint for event in found if event.kind == "largeSwap"}

    stream = GeyserSource(chain.facts["grpc_url"], PROGRAMS)
    await stream.watch(watched)
    blocks = BlockSource(node, PROGRAMS)
    await blocks.watch(watched)
    by_stream = await collect(stream, start, enough, watched)
    by_blocks = await collect(blocks, start, enough, watched)
    both = set(map(_told, by_stream)) & set(map(_told, by_blocks))
    assert {kind for _, kind, _, _, _ in both} == {"newPair", "largeSwap", "walletActivity"}
    mine = {told for told in map(_told, by_stream) if told[0] in launched["signatures"]}
    assert mine and mine <= both


def _told(event: SignalEvent) -> tuple[object, ...]:
    return event.signature, event.kind, event.mint, event.slot, event.accounts


async def test_blocks_of_a_part_have_its_transactions_and_all_slots(chain: Process, node: NodeClient) -> None:
    start = chain_calls.rpc(chain.url, "getSlot", {"commitment": "confirmed"})
    chain_calls.launch(chain.url, trades=4)
    last = chain_calls.rpc(chain.url, "getSlot", {"commitment": "processed"})
    told = list[list[Update]]()
    for part in (None, 0, 1):
        source = BlockSource(node, PROGRAMS, until=last)
        if part is not None:
            source.narrow(lambda signature, part=part: signature[0] % 2 == part)
        async with asyncio.timeout(30):
            told.append([update async for update in each(source.updates(start))])
    everything, *halves = [[u.transaction.signature for u in one if isinstance(u, TransactionSeen)] for one in told]
    assert sorted(halves[0] + halves[1]) == sorted(everything) and len(everything) > 4
    slots = [[update.slot for update in one if isinstance(update, SlotSeen)] for one in told]
    assert slots[0] == slots[1] == slots[2]


async def test_a_catch_up_ends_at_its_last_slot(chain: Process, node: NodeClient) -> None:
    last = chain_calls.rpc(chain.url, "getSlot", {"commitment": "confirmed"})
    seen = [update async for update in each(BlockSource(node, PROGRAMS, until=last).updates(last - 3))]
    slots = [update.slot for update in seen if isinstance(update, SlotSeen)]
    assert slots and slots == sorted(slots) and slots[-1] <= last
    assert all(update.state is SlotState.FINALIZED for update in seen if isinstance(update, SlotSeen))


class _Answers:
    """A node that answers from a list of functions of the method."""

    def __init__(self, answers: dict[str, NodeAnswer]) -> None:
        self._answers = answers

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        return self._answers.get(method, TIMED_OUT)


_NEAR = {"getFirstAvailableBlock": made(b"0"), "getSlot": made(b"9")}


@pytest.mark.parametrize(
    ("answers", "start"),
    [
        ({"getSlot": made(b'"x"')}, None),
        (_NEAR | {"getBlocksWithLimit": made(b"{}")}, 5),
        (_NEAR | {"getBlocksWithLimit": made(b'["6"]')}, 5),
        (_NEAR | {"getBlocksWithLimit": made(b"[4,6]")}, 5),  # 4 was read before.
    ],
)
async def test_an_answer_that_is_not_what_was_asked_for_is_told_as_such(
    answers: dict[str, NodeAnswer], start: int | None
) -> None:
    with pytest.raises(SourceUnavailable, match="not a"):
        await anext(BlockSource(_Answers(answers), PROGRAMS).updates(start))


async def test_a_node_that_does_not_answer_is_told_as_away() -> None:
    with pytest.raises(SourceUnavailable):
        await anext(BlockSource(_Answers({}), PROGRAMS).updates(5))


class _Told:
    """A node whose answers to getSlot are these, in turn; then its own."""

    def __init__(self, node: NodeClient, *slots: int) -> None:
        self._node, self._slots, self.calls = node, list(slots), Counter[str]()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        self.calls[method] += 1
        if method == "getSlot" and self._slots:
            return made(b"%d" % self._slots.pop(0))
        return await self._node.call(method, params, timeout_ms)


async def test_an_absurd_slot_passes_over_no_block(chain: Process, node: NodeClient) -> None:
    """The place moves over listed blocks alone: a slot that a node only tells, because it is wrong or because the next
    node is behind it, hides nothing. And the node is asked no more often for it."""
    start = chain_calls.rpc(chain.url, "getSlot", {"commitment": "confirmed"})
    told = _Told(node, 10**12)
    seen: list[int] = []
    async with asyncio.timeout(30):
        async for update in each(BlockSource(told, PROGRAMS).updates(start)):
            seen += [update.slot] if isinstance(update, SlotSeen) else []
            if len(seen) == 12:
                break
    assert seen == chain_calls.rpc(chain.url, "getBlocksWithLimit", start, 12, {"commitment": "confirmed"})
    assert told.calls["getBlocksWithLimit"] <= 2 * len(seen)


async def test_an_absurd_slot_at_the_start_is_given_up(node: NodeClient) -> None:
    """Without a place to go on from, the newest slot is the beginning; when it turns out wrong, the source ends."""
    with pytest.raises(SourceUnavailable, match="expected"):
        await anext(BlockSource(_Told(node, 10**12), PROGRAMS).updates(None))


async def test_blocks_that_were_deleted_are_gone_and_not_passed_over(node: NodeClient) -> None:
    """A gap is told of, never hidden."""

    class Later:
        async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            return await node.call("getSlot" if method == "getFirstAvailableBlock" else method, params, timeout_ms)

    with pytest.raises(SlotsGone):
        await anext(BlockSource(Later(), PROGRAMS).updates(0))
