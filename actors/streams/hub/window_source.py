"""Fills the window of the Yellowstone stream from the node, and answers what replicas ask of it.

Implements: from_slot replays from a window of the hub: one subscription to whole blocks and statuses for all replicas,
where each replica could not take in the node's whole stream. It costs a message for each block, and filters are looked
at only when somebody replays (yellowstone/replays.py). The feed repairs a loss of the node from the node's own replay;
what cannot be repaired begins another window of another epoch, so that a hole is never inside one. A shell. Not here:
what is kept (geyser_window.py), the node's stream (yellowstone/feed.py).
"""

import asyncio
import logging
from collections.abc import Awaitable

from google.protobuf.message import DecodeError

from actors.background import Background
from actors.geyser_proto import api, geyser_pb2
from actors.stream_config import GeyserConfig
from actors.streams.api import AskBlock, AskWindow, BlockPart, WindowPart
from actors.streams.hub.geyser_window import GeyserWindow
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.feeds import GeyserFeeds, SourceRefused
from actors.streams.yellowstone.requests import WantedStream, read_request
from actors.streams.yellowstone.updates import SeenUpdate

logger = logging.getLogger(__name__)

_ENTRIES_MAX = 1_000  # Entries in one answer.
_BLOCK_PART_BYTES = 1 << 20
_ASK_SECONDS = 5.0
_AGAIN_SECONDS, _AGAIN_SECONDS_MAX = 0.5, 30.0
_FILL_MARGIN_SLOTS = 4  # The node drops its oldest slots while it is asked for them.


class WindowSource:
    """Belongs to one event loop. first_epoch: above 0, and another one than the hub had that was here before."""

    def __init__(self, feeds: GeyserFeeds, settings: GeyserConfig, first_epoch: int) -> None:
        self._feeds, self._settings = feeds, settings
        self._epoch = first_epoch
        self.window = self._new_window(None)
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[StreamEnd] | None = None
        self._background = Background(logger, "keeping the window of past slots failed")

    def start(self) -> None:
        self._background.start(self._run())

    async def stop(self) -> None:
        await self._background.stop()

    # --- asked by replicas

    def ask_window(self, request: AskWindow) -> WindowPart | Awaitable[WindowPart]:
        part = self._part(request)
        waits = request.wait_ms and not part.entries and part.epoch == request.epoch
        return self._part_later(request) if waits else part

    def ask_block(self, request: AskBlock) -> BlockPart:
        body = self.window.block(request.slot) if request.epoch == self._epoch else None
        if body is None:
            return BlockPart(None)
        return BlockPart(len(body), body[request.offset : request.offset + _BLOCK_PART_BYTES])

    def _part(self, request: AskWindow) -> WindowPart:
        window = self.window
        is_of_this = request.epoch in (0, self._epoch)
        entries = window.after(request.after, request.from_slot, request.every_after, _ENTRIES_MAX)
        return WindowPart(
            *(self._epoch, window.first_slot, window.last_slot, window.newest, window.dropped),
            entries if is_of_this else (),
        )

    async def _part_later(self, request: AskWindow) -> WindowPart:
        try:
            async with asyncio.timeout(request.wait_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass
        return self._part(request)

    # --- the node's stream

    def take(self, names: tuple[str, ...], body: bytes, update: SeenUpdate | None) -> None:
        del names
        if update is None:
            return
        if update.status is None:
            self.window.add_block(update.slot, body)
        else:
            self.window.add_status(update.slot, update.status, body)
        self._wake()

    def feed_ended(self, end: StreamEnd) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(end)

    async def _run(self) -> None:
        pause, fills = _AGAIN_SECONDS, True
        while True:
            from_slot = await self._first_at_node() if fills else None
            end = await self._follow(from_slot)
            had_some = self.window.first_slot is not None
            # If a node refuses to replay, the next request asks only for live updates.
            fills = had_some or from_slot is None
            pause = _AGAIN_SECONDS if had_some else min(pause * 2, _AGAIN_SECONDS_MAX)
            logger.warning("no window for from_slot, trying again in %.1f s: %s", pause, end.text[:200])
            self._replace(None)
            await asyncio.sleep(pause)

    async def _follow(self, from_slot: int | None) -> StreamEnd:
        """Collect updates until the node's stream cannot be repaired."""
        self._replace(from_slot)
        self._ended = asyncio.get_running_loop().create_future()
        feed = self._feeds.join(wanted_blocks(from_slot), self)
        try:
            return await self._ended
        finally:
            self._feeds.leave(feed, self)

    async def _first_at_node(self) -> int | None:
        """Return the first slot that the node can replay; None: it cannot, or does not answer."""
        try:
            answer = await self._feeds.call(api.SUBSCRIBE_REPLAY_INFO, b"", _ASK_SECONDS)
            found = geyser_pb2.SubscribeReplayInfoResponse.FromString(answer)
        except (SourceRefused, DecodeError):
            return None
        return found.first_available + _FILL_MARGIN_SLOTS if found.HasField("first_available") else None

    def _replace(self, begins_at: int | None) -> None:
        self._epoch += 1
        self.window = self._new_window(begins_at)
        self._wake()

    def _new_window(self, begins_at: int | None) -> GeyserWindow:
        return GeyserWindow(self._settings.replay_slots, self._settings.replay_bytes_max, begins_at)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def wanted_blocks(from_slot: int | None) -> WantedStream:
    """The subscription to everything, in one message for each block, and to every status of a slot."""
    request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.PROCESSED)
    whole = request.blocks["whole"]
    whole.include_transactions = whole.include_accounts = whole.include_entries = True
    request.slots["every"].interslot_updates = True
    if from_slot is not None:
        request.from_slot = from_slot
    return read_request(request, filters_max=2, keys_max=0)
