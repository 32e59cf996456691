"""Which blocks are read, how often, and what a node that fails leaves."""

import asyncio
from typing import Any

import pytest
from solders.compute_budget import set_compute_unit_price
from solders.pubkey import Pubkey

from actors.clock import ManualClock
from actors.fees.landed import BLOCKS_MAX
from actors.fees.recent_blocks import RecentBlocks, spread
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.devnode.local_node import LocalNode, give
from tests.fees.test_landed import block, entry, signed
from tests.ported_node import PortedNode, node_error, node_result

SECONDS = 5


class Chain:
    """A node whose blocks have one transaction each. slots: of the blocks that it lists."""

    def __init__(self, slots: range) -> None:
        self.slots = slots
        self.faults: dict[str, NodeAnswer] = {}

    def answer(self, method: str, params: list[Any]) -> NodeAnswer:
        if method in self.faults:
            return self.faults[method]
        if method == "getSlot":
            return node_result(self.slots[-1])
        if method == "getBlocks":
            return node_result([slot for slot in self.slots if params[0] <= slot <= params[1]])
        return replies.judge(block(entry(signed(set_compute_unit_price(params[0])))))


def opened(slots: range) -> tuple[Chain, PortedNode, ManualClock, RecentBlocks]:
    chain, clock = Chain(slots), ManualClock()
    node = PortedNode(interfere=chain.answer)
    return chain, node, clock, RecentBlocks(node, clock, SECONDS)


async def test_the_first_question_reads_some_blocks_of_the_window_and_a_later_one_the_newest():
    """So that a replica that was not asked for long knows more than one moment."""
    chain, node, clock, recent = opened(range(1_000, 1_300))
    assert [held.slot for held in await recent.blocks()] == [1_299, 1_250, 1_200, 1_150]
    clock.advance(SECONDS)
    chain.slots = range(1_000, 1_313)
    await recent.blocks()
    await recent._background.finish()
    assert [held.slot for held in await recent.blocks()] == [1_299, 1_250, 1_200, 1_312]  # 1,150 has left the window.
    assert len(node.asked("getBlock")) == 5


async def test_many_questions_are_one_look():
    """No client decides how many blocks are read."""
    _, node, clock, recent = opened(range(1_000, 1_300))
    answers = await asyncio.gather(*(recent.blocks() for _ in range(200)))
    assert len(node.asked("getSlot")) == 1 and all(len(given) == 4 for given in answers)
    clock.advance(SECONDS - 1)
    await recent.blocks()
    assert len(node.asked("getSlot")) == 1
    assert node.at_once_max == 1


async def test_nobody_asks_and_nothing_is_read():
    """What is older than the window says nothing of now: the next question reads anew."""
    chain, node, clock, recent = opened(range(1_000, 1_300))
    await recent.blocks()
    clock.advance(3_600)
    assert len(node.calls) == 6
    chain.slots = range(9_000, 10_000)
    assert min(held.slot for held in await recent.blocks()) > 9_800


async def test_the_blocks_at_hand_are_bounded():
    """However long somebody asks."""
    chain, _, clock, recent = opened(range(1_000, 1_300))
    for newest in range(1_300, 1_300 + 3 * BLOCKS_MAX):
        chain.slots = range(1_000, newest)
        await recent.blocks()
        await recent._background.finish()
        clock.advance(SECONDS)
    assert len(await recent.blocks()) == BLOCKS_MAX


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("getSlot", replies.UNREACHABLE),
        ("getSlot", node_result("many")),
        ("getBlocks", node_error(-32005, "Node is unhealthy")),
        ("getBlocks", node_result([None])),
        ("getBlock", node_error(-32007, "Slot was skipped")),
        ("getBlock", replies.judge(block(entry(b"no transaction")))),
    ],
)
async def test_a_node_that_fails_leaves_nothing_and_is_not_asked_at_once_again(method, fault):
    """The next look is after the usual pause."""
    chain, node, clock, recent = opened(range(1_000, 1_300))
    chain.faults = {method: fault}
    assert list(await recent.blocks()) == []
    calls = len(node.calls)
    assert list(await recent.blocks()) == [] and len(node.calls) == calls
    chain.faults = {}
    clock.advance(SECONDS)
    assert len(await recent.blocks()) == 4


async def test_blocks_of_a_whole_chain_are_read(tmp_path):
    """Of devnode's own blocks each transaction shows what it paid."""
    local = LocalNode(tmp_path)
    payer = local.wallet()
    for price in (3_000, 0, 250_000) * 4:
        other = give(payer, Pubkey.new_unique(), 10**6)
        local.land(local.signed(payer, set_compute_unit_price(price), other) if price else local.signed(payer, other))
        local.beat()
    recent = RecentBlocks(PortedNode(local), ManualClock(), SECONDS)
    of_payer = [held.by_account.get(bytes(payer.pubkey()), []) for held in await recent.blocks()]
    found = {price for prices in of_payer for price in prices}
    assert found and found <= {3_000, 0, 250_000} and len(of_payer) == 4
    local.close()


def test_slots_are_spread_over_all_of_them():
    """The newest first, and none twice."""
    assert spread(range(150), 4) == [149, 100, 50, 0]
    assert spread([7, 9], 4) == [9, 7]
    assert spread([], 4) == []
