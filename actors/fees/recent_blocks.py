"""Reads recent blocks for fees on demand, and shares them among all callers.

Implements: README.md, "Landed transactions". A shell around a node. One replica reads one block at a time, and asks for
new ones no more often than every `seconds`, however many clients ask; without requests it reads nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import orjson

from actors.background import Background
from actors.clock import Clock
from actors.fees import landed
from actors.fees.core import WINDOW_SLOTS
from actors.fees.landed import BlockFees, UnreadableBlock
from actors.upstream.account_view import under
from actors.upstream.replies import AnswerKind, Node, NodeAnswer
from actors.upstream.whole_bodies import in_one_part

logger = logging.getLogger(__name__)

_FIRST_BLOCKS = 4  # Blocks read at once if there are none; every later look adds one.
# Longest wait of a call for the first blocks; after it the node's figures for slots are used.
_FIRST_WAIT_SECONDS = 2.0
_FRESH_SECONDS = 60.0  # About WINDOW_SLOTS slots; older blocks do not show present fees.
_CALL_MS = 5_000
_BLOCK_BYTES_MAX = 16 << 20
_SLICE = 25  # Transactions read in one turn of the event loop: half a millisecond.
_CONFIRMED = {"commitment": "confirmed"}
_BLOCK = {
    **_CONFIRMED,
    "encoding": "base64",
    "transactionDetails": "full",
    "rewards": False,
    "maxSupportedTransactionVersion": 1,
}


class RecentBlocks:
    """node: asked for blocks. seconds: between two looks for a new block."""

    def __init__(self, node: Node, clock: Clock, seconds: float) -> None:
        self._node, self._clock, self._seconds = node, clock, seconds
        self._blocks: dict[int, BlockFees] = {}
        self._looked_at = self._newest_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._background = Background(logger, "reading blocks for their fees has crashed")
        self.nodes = ""  # Name of the node that gave the newest block.

    async def blocks(self) -> Sequence[BlockFees]:
        """Return the blocks in memory, after a short wait if there are none. Empty: none could be read. Raises
        nothing."""
        now = self._clock.monotonic()
        if (self._looking is None or self._looking.done()) and now - self._looked_at >= self._seconds:
            self._looked_at = now
            self._looking = self._background.start(under(None, self._look))  # For all callers, not for this one.
        if not self._is_fresh() and self._looking is not None:
            await asyncio.wait((self._looking,), timeout=_FIRST_WAIT_SECONDS)
        return tuple(self._blocks.values()) if self._is_fresh() else ()

    async def close(self) -> None:
        await self._background.stop()

    def _is_fresh(self) -> bool:
        return bool(self._blocks) and self._clock.monotonic() - self._newest_at <= _FRESH_SECONDS

    async def _look(self) -> None:
        """Read the newest block; the first time also some from the rest of the window."""
        head = await self._ask("getSlot", [_CONFIRMED])
        if type(head) is not int or head < 0:
            return
        first = max(0, head - WINDOW_SLOTS + 1)
        found = await self._ask("getBlocks", [first, head, _CONFIRMED])
        if type(found) is not list or not all(type(slot) is int for slot in found):
            return
        slots = sorted(slot for slot in found if first <= slot <= head)
        self._blocks = {slot: block for slot, block in self._blocks.items() if slot >= first}
        wanted = slots[-1:] if self._blocks else spread(slots, _FIRST_BLOCKS)
        for slot in wanted:
            if slot not in self._blocks:
                await self._read(slot)
        while len(self._blocks) > landed.BLOCKS_MAX:
            del self._blocks[min(self._blocks)]

    async def _read(self, slot: int) -> None:
        answer = await self._call("getBlock", [slot, _BLOCK])
        if answer.kind is not AnswerKind.RESULT or answer.size > _BLOCK_BYTES_MAX:
            return
        block, body = BlockFees(slot), (await in_one_part(answer)).body
        try:
            for number, (transaction, loaded) in enumerate(landed.transactions_of(body), 1):
                paid = landed.paid_by(transaction, loaded)
                if paid is not None:
                    block.add(paid)
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
        except UnreadableBlock:
            logger.warning("block %d of node %s is not as nodes write it; its fees are not counted", slot, answer.node)
            return
        block.put_in_order()
        self._blocks[slot] = block
        self._newest_at, self.nodes = self._clock.monotonic(), answer.node

    async def _ask(self, method: str, params: list[Any]) -> Any:
        """Return a small result, or None."""
        answer = await self._call(method, params)
        if answer.kind is not AnswerKind.RESULT:
            return None
        try:
            return orjson.loads(answer.value())
        except orjson.JSONDecodeError:
            return None

    async def _call(self, method: str, params: list[Any]) -> NodeAnswer:
        return await self._node.call(method, orjson.dumps(params), _CALL_MS)


def spread(slots: Sequence[int], count: int) -> list[int]:
    """Select this many slots, the newest first, evenly over all of them."""
    if len(slots) <= count:
        return list(reversed(slots))
    last = len(slots) - 1
    return [slots[last - last * number // (count - 1)] for number in range(count)]
