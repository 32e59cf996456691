"""Replays past slots to a client from the hub's window, and hands over to the live subscription without a seam.

Implements: from_slot: every update from that slot on, once, with the same filters, then live ones. The client is in
its live feed from the beginning. The replay sends what the window has, in the order in which it would have come live:
the updates of a slot when the slot has reached the subscription's level, and statuses as they came. Near the present
the reader keeps live updates, and tells up to which slot it may have missed the beginning. When the replay has sent all
slots up to there, the reader goes on, and leaves out what the replay has sent (yellowstone/reader.py).
When full: the replay waits while much is queued for the client; blocks that this replica has read are kept up to
BLOCKS_BYTES_MAX, so that many clients that come back together read each block once.
Blocks are read and filters evaluated in turns of the account (yellowstone/work.py), whether or not anything matches.
A shell. Not here: the window (hub/), updates of a block (yellowstone/blocks.py).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from actors.geyser_proto import geyser_pb2
from actors.grpc_http2.links import joined
from actors.hotlink.replica import LinkFull, LinkGivenUp, LinkTimeout
from actors.streams.api import BLOCK, WINDOW, AskBlock, AskWindow, BlockPart, WindowEntry, WindowPart
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.blocks import WholeBlock
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.match import LEVEL_STATUSES, StreamFilter
from actors.streams.yellowstone.outbox import GeyserOutbox
from actors.streams.yellowstone.reader import GeyserReader
from actors.streams.yellowstone.requests import SMALL_BYTES, WATCH, WantedStream
from actors.streams.yellowstone.work import GeyserWork, Turn

BLOCKS_BYTES_MAX = 64 << 20
_ASK_MS = 2_000
_ASK_TRIES = 8
_WAIT_MS = 200
# A client may ask for slots that the hub has not heard of yet; what is further away is not a slot of this chain.
_AHEAD_SLOTS_MAX = 64
_LATE_SECONDS = 8.0  # Wait for a block that comes after the statuses of its slot, or for a boundary that never comes.
_ROOM_UPDATES = 50  # Updates after which the replay checks whether the client reads.
NOBODY = b""  # Takes the place of an account: a block is read for all who replay it.
_FAILURES = (LinkFull, LinkTimeout, LinkGivenUp)

Ask = Callable[[Any, Any, int], "asyncio.Future[Any]"]  # Link.call


class WindowLost(Exception):
    """The window was replaced, or has dropped what the replay still needs."""


class GeyserReplays:
    """A replica's side of the window. Belongs to one event loop. ask: sends one message to the hub."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.work = GeyserWork()
        self._blocks: OrderedDict[tuple[int, int], WholeBlock] = OrderedDict()
        self._bytes = 0
        self._reading: dict[tuple[int, int], asyncio.Task[WholeBlock]] = {}

    async def bounds(self) -> WindowPart | None:
        """The first and the last slot of the window. None: there is no window at the moment."""
        try:
            part: WindowPart = await self._ask(WINDOW, AskWindow(0, 1 << 62, 1 << 62, 1 << 62, 0), _ASK_MS)
        except _FAILURES:
            return None
        return None if part.first is None else part

    async def find(self, from_slot: int) -> "tuple[int | None, Replay | None]":
        """The first slot of the window, and the replay; None: the window does not have this slot."""
        part = await self.bounds()
        if part is None:
            return None, None
        assert part.first is not None
        is_here = part.first <= from_slot <= part.last + _AHEAD_SLOTS_MAX
        return part.first, Replay(self, part.epoch, from_slot, part.newest) if is_here else None

    async def part(self, request: AskWindow) -> WindowPart:
        """Entries of a window. Raises WindowLost."""
        part: WindowPart = await self._ask_patiently(WINDOW, request, _ASK_MS + request.wait_ms)
        if part.epoch != request.epoch or part.dropped > request.after > 0:
            raise WindowLost
        return part

    async def _ask_patiently(self, kind: Any, request: AskWindow | AskBlock, wait_ms: int) -> Any:
        """Retry while the hub does not answer: a client whose replay breaks off would pay for another one."""
        for _ in range(_ASK_TRIES):
            try:
                return await self._ask(kind, request, wait_ms)
            except LinkTimeout:
                continue
            except _FAILURES:
                await asyncio.sleep(_WAIT_MS / 1000)
        raise WindowLost

    async def block(self, epoch: int, slot: int) -> WholeBlock:
        """Return a whole block, read once for all concurrent requests. Raises WindowLost."""
        key = epoch, slot
        found = self._blocks.get(key)
        if found is not None:
            self._blocks.move_to_end(key)
            return found
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(epoch, slot))
            reading.add_done_callback(lambda task: self._read_done(key, task))
        return await asyncio.shield(reading)

    async def _read(self, epoch: int, slot: int) -> WholeBlock:
        parts, size = [], 0
        while True:
            part: BlockPart = await self._ask_patiently(BLOCK, AskBlock(epoch, slot, size), _ASK_MS)
            if part.size is None:
                raise WindowLost
            parts.append(part.data)
            size += len(part.data)
            if size >= part.size:
                break
        block, turn = WholeBlock(b"".join(parts)), Turn(self.work, NOBODY)
        try:
            for _ in block.read():
                await turn.step()
        except DecodeError as error:
            raise WindowLost from error
        finally:
            turn.end()
        return block

    def _read_done(self, key: tuple[int, int], task: "asyncio.Task[WholeBlock]") -> None:
        del self._reading[key]
        if task.cancelled() or task.exception() is not None:
            return
        block = self._blocks[key] = task.result()
        self._bytes += block.size
        while self._bytes > BLOCKS_BYTES_MAX and len(self._blocks) > 1:
            self._bytes -= self._blocks.popitem(last=False)[1].size


class Replay:
    """One client's replay. tip: number of the newest entry when it asked."""

    def __init__(self, replays: GeyserReplays, epoch: int, from_slot: int, tip: int) -> None:
        self._replays, self._epoch, self._from_slot, self._tip = replays, epoch, from_slot, tip
        self._blocks: set[int] = set()  # Slots whose block is in the window.
        self._pending: dict[int, float] = {}  # Slots at the level without a block, with the time since when.
        self._reached = 0  # The highest slot at the level.

    async def run(self, wanted: WantedStream, reader: GeyserReader, outbox: GeyserOutbox, work: GeyserWork) -> None:
        """Send until the reader takes over. The reader is in its feed, and passes nothing on yet."""
        assert wanted.key is not None
        self._turn = Turn(work, outbox.account)
        self._level_status = LEVEL_STATUSES[wanted.level]
        self._reader, self._outbox = reader, outbox
        try:
            await self._turn.begin()
            self._filter = await _filter_of(wanted.key)
            end = await self._send_all()
        except WindowLost:
            end = geyser_ends.replay_broke(outbox.last_slot or self._from_slot)
        finally:
            self._turn.end()
        if end is None:
            reader.release()
        else:
            outbox.end(end)

    async def _send_all(self) -> StreamEnd | None:
        after, keeps_since = 0, 0.0
        while True:
            request = AskWindow(self._epoch, after, self._from_slot, self._tip, _WAIT_MS if after >= self._tip else 0)
            self._turn.end()
            part = await self._replays.part(request)
            if not after and (part.first is None or part.first > self._from_slot):
                raise WindowLost
            for entry in part.entries:
                await self._turn.step()
                await self._send(entry)
                after = entry.number
            now = asyncio.get_running_loop().time()
            if not part.entries:
                after = max(after, part.newest)
            if after < self._tip and part.entries:
                continue
            if not keeps_since:
                self._reader.keep()
                keeps_since = now
            boundary = self._reader.boundary
            waits_for = [slot for slot in self._pending if boundary is not None and slot <= boundary]
            if waits_for and now - min(self._pending[slot] for slot in waits_for) > _LATE_SECONDS:
                return geyser_ends.lost(min(waits_for), "the stream source sent no block of this slot")
            if boundary is not None and self._reached >= boundary and not waits_for:
                return None
            if boundary is not None and now - keeps_since > 2 * _LATE_SECONDS and self._reached < boundary:
                raise WindowLost

    async def _send(self, entry: WindowEntry) -> None:
        slot, status = entry.slot, entry.status
        if status is None:
            self._blocks.add(slot)
            if self._level_status == geyser_pb2.SLOT_PROCESSED or slot in self._pending:
                await self._send_block(slot)
            return
        # A node may skip a confirmation when the slot is final at once.
        has_reached = status in (self._level_status, geyser_pb2.SLOT_FINALIZED) and slot >= self._from_slot
        if has_reached and slot in self._blocks:
            await self._send_block(slot)
        elif has_reached:
            self._pending.setdefault(slot, asyncio.get_running_loop().time())
        if status == self._level_status:
            self._reached = max(self._reached, slot)
        names = tuple(name for name in self._filter.of_status(status) if name != WATCH)
        self._reader.replay_status(slot, status, names, entry.body)

    async def _send_block(self, slot: int) -> None:
        self._pending.pop(slot, None)
        if slot < self._from_slot or self._reader.has_replayed(slot):
            return
        self._reader.replays_slot(slot)
        self._turn.end()
        block = await self._replays.block(self._epoch, slot)
        count = 0
        for update in block.updates(self._filter):
            if update is not None:
                names, parts = update
                self._reader.replay(slot, names, await joined(parts))
                count += 1
            if update is not None and count % _ROOM_UPDATES == 0:
                await self._room()
            await self._turn.step()
        await self._room()

    async def _room(self) -> None:
        self._turn.end()
        await self._outbox.room()


async def _filter_of(key: bytes) -> StreamFilter:
    """Make the filters of a request, in a thread if they are many."""

    def made() -> StreamFilter:
        return StreamFilter(geyser_pb2.SubscribeRequest.FromString(key))

    return made() if len(key) <= SMALL_BYTES else await asyncio.to_thread(made)
