"""The chain as confirmed blocks, fetched by JSON-RPC: the fallback without a stream, and the way to catch up.

Implements: blocks by getBlocksWithLimit and getBlock, as Agave answers them. A confirmed block is practically never
lost, so each is told as final. A shell around one node. Blocks of which the node has no record are told as SlotsGone,
never passed over.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import orjson
from solders.signature import Signature

from actors.signals.from_json import read_json
from actors.signals.sources import BATCH_MAX, SlotSeen, SlotsGone, SlotState, SourceUnavailable, TransactionSeen, Update
from actors.upstream.replies import AnswerKind, Node

POLL_SECONDS = 0.4  # Length of a slot.
_BLOCKS_MAX = 200  # Blocks requested at once; a node allows far more.
_APART_MAX = 300  # Slots; nodes of one pool differ by less, unless one has reported an absurd slot.
_ASK_MS = 10_000
_CONFIRMED = {"commitment": "confirmed"}
_BLOCK = {
    **_CONFIRMED,
    "encoding": "json",
    "transactionDetails": "full",
    "rewards": False,
    "maxSupportedTransactionVersion": 1,
}
# Errors for a slot without a block: it was skipped, or its block is not there yet or no longer.
_SKIPPED = (-32007, -32009)
_CLEANED_UP = "cleaned up"


class BlockSource:
    name = "blocks"

    def __init__(
        self,
        node: Node,
        programs: tuple[str, ...],
        *,
        until: int | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """until: the last slot to read; None: no end."""
        self._node, self._programs, self._until, self._sleep = node, frozenset(programs), until, sleep
        self._wallets: frozenset[str] = frozenset()
        self._is_mine: Callable[[bytes], bool] | None = None
        self._head = 0

    def head(self) -> int:
        return self._head

    def narrow(self, is_mine: Callable[[bytes], bool] | None) -> None:
        self._is_mine = is_mine

    async def watch(self, wallets: frozenset[str]) -> None:
        self._wallets = wallets

    async def updates(self, from_slot: int | None) -> AsyncGenerator[Sequence[Update], None]:
        self._head = await self._slot()
        following = self._head if from_slot is None else from_slot
        first = await self._ask("getFirstAvailableBlock", [])
        if isinstance(first, int) and following < first:
            raise SlotsGone(first)
        while self._until is None or following <= self._until:
            if following > self._head:
                self._head = await self._slot()
            if following > self._head + _APART_MAX:
                raise SourceUnavailable(f"getSlot: {self._head}, when slot {following} was expected")
            # The place moves over blocks that a node lists, never to a slot that is only reported: the next node may be
            # behind, and one absurd slot would skip all later blocks.
            slots = [] if following > self._head else await self._slots(following)
            for slot in slots:
                if self._until is not None and slot > self._until:
                    return
                told = await self._block(slot)
                for start in range(0, len(told), BATCH_MAX):
                    yield told[start : start + BATCH_MAX]
                following = slot + 1
            if not slots:
                self._head = following - 1  # As far as blocks were listed; it is asked again.
                await self._sleep(POLL_SECONDS)

    async def _block(self, slot: int) -> list[Update]:
        block = await self._ask("getBlock", [slot, _BLOCK], skipped=_SKIPPED)
        if block is None:
            return []
        told: list[Update] = []
        block_time = block.get("blockTime")
        for entry in block.get("transactions") or ():
            if self._concerns(entry):
                transaction = read_json(slot, entry, block_time if isinstance(block_time, int) else None)
                if transaction is not None:
                    told.append(TransactionSeen(transaction))
        parent = block.get("parentSlot")
        told.append(SlotSeen(slot, parent if isinstance(parent, int) else None, SlotState.FINALIZED))
        return told

    def _concerns(self, entry: Any) -> bool:
        try:
            keys = entry["transaction"]["message"]["accountKeys"]
            loaded = (entry["meta"] or {}).get("loadedAddresses") or {}
            named = {*keys, *(loaded.get("writable") or ()), *(loaded.get("readonly") or ())}
        except (KeyError, TypeError, AttributeError):
            return False
        if self._programs.isdisjoint(named) and self._wallets.isdisjoint(named):
            return False
        return self._is_mine is None or self._is_mine_by_text(entry)

    def _is_mine_by_text(self, entry: Any) -> bool:
        """Whether to read a transaction of a block, whose state tells how far the source is. One without a signature is
        read, and is found to be malformed there."""
        assert self._is_mine is not None
        try:
            return self._is_mine(bytes(Signature.from_string(entry["transaction"]["signatures"][0])))
        except (KeyError, TypeError, IndexError, ValueError):
            return True

    async def _slot(self) -> int:
        slot = await self._ask("getSlot", [_CONFIRMED])
        if not isinstance(slot, int):
            raise SourceUnavailable("getSlot: not a slot")
        return slot

    async def _slots(self, first: int) -> list[int]:
        """List the next slots that have a block. Empty: there is none yet, or the asked node is behind."""
        found = await self._ask("getBlocksWithLimit", [first, _BLOCKS_MAX, _CONFIRMED])
        if not isinstance(found, list) or not all(isinstance(slot, int) and slot >= first for slot in found):
            raise SourceUnavailable("getBlocksWithLimit: not a list of slots")
        return sorted(found)

    async def _ask(self, method: str, params: list[Any], skipped: tuple[int, ...] = ()) -> Any:
        answer = await self._node.call(method, orjson.dumps(params), _ASK_MS)
        if answer.kind is AnswerKind.ERROR and answer.error_code in skipped:
            return None
        if answer.kind is AnswerKind.ERROR and _CLEANED_UP in answer.error_message:
            first = await self._ask("getFirstAvailableBlock", [])
            raise SlotsGone(int(first))
        if answer.kind is not AnswerKind.RESULT:
            raise SourceUnavailable(f"{method}: {answer.kind.name} {answer.error_message or ''}".rstrip())
        try:
            return orjson.loads(answer.value())
        except orjson.JSONDecodeError as error:
            raise SourceUnavailable(f"{method}: not JSON") from error
