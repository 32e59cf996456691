"""Follows the chain for the webhooks that watch accounts and programs, and queues their events.

Implements: interface, "Webhook deliveries", rules 1 and 2. A shell.
One filter at the node serves all webhooks. After a start, and after the stream broke, the blocks since the last slot
are read first, then the stream begins there; an event that is seen twice is queued once, by its cause. Where no
Yellowstone endpoint is configured, blocks are read all the time.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import orjson

from actors.clock import Clock
from actors.geyser_proto import geyser_pb2
from actors.geyser_proto.api import SUBSCRIBE
from actors.upstream.replies import AnswerKind, Node
from actors.webhooks.payloads import QueuedEvent, gap_events, transaction_events
from actors.webhooks.store import SourceCursor, WebhookStore, WebhooksUnavailable
from actors.webhooks.transactions import from_block, from_stream

logger = logging.getLogger(__name__)

CATCH_UP_SLOTS_MAX = 9_000  # One hour; older transactions are not delivered, and webhooks get a notice.
_BLOCKS_AT_ONCE = 50
_APART_MAX = 300  # Slots; nodes of one pool differ by less, unless one has reported an absurd slot.
_OVERLAP_SLOTS = 8  # How many slots before the last one read the stream begins: slots are confirmed out of order.
_EVENTS_AT_ONCE_MAX = 500
_FLUSH_SECONDS = 0.2
_POLL_SECONDS = 0.5
_RETRY_SECONDS = 2.0
_LOOK_SECONDS = 10.0  # Interval of reading the watched accounts again.
_CALL_MS = 10_000
_SILENT_SECONDS_MAX = 20.0  # A node's stream pings every 10 to 15 s.
_MESSAGE_BYTES_MAX = 64 << 20


class ChainFollower:
    """endpoint: of Yellowstone gRPC, with the token; None: blocks are polled."""

    def __init__(
        self,
        store: WebhookStore,
        node: Node,
        clock: Clock,
        endpoint: tuple[str, str | None] | None,
        wake: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._node, self._clock, self._endpoint = store, node, clock, endpoint
        self._wake, self._sleep = wake, sleep
        self._watched: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._slot: int | None = None  # All events up to this slot are queued.
        self._task: asyncio.Task[None] | None = None
        self.is_streaming = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def changed(self) -> None:
        """Read the watched accounts again, because webhooks were created, changed or deleted."""
        self._changed.set()

    async def _run(self) -> None:
        first = True
        while True:
            try:
                await self._look()
                if not self._watched:
                    self._slot, first = None, False
                    await self._until_changed()
                    continue
                if self._slot is None:
                    # For webhooks from before this process, continue where the last one stopped; otherwise from now on.
                    self._slot = ((await self._store.cursor()).slot if first else None) or await self._newest()
                    first = False
                await self._catch_up()
                if self._endpoint is None:
                    await self._until_changed(_POLL_SECONDS)
                else:
                    await self._stream(*self._endpoint)
            except (WebhooksUnavailable, NodeSilent, grpc.RpcError, TimeoutError, OSError) as error:
                logger.warning("webhooks: following the chain pauses: %s", _brief(error))
                await self._sleep(_RETRY_SECONDS)
            except Exception:
                logger.exception("webhooks: following the chain failed")
                await self._sleep(_RETRY_SECONDS)

    async def _look(self) -> None:
        self._changed.clear()
        self._watched = await self._store.watched()

    async def _until_changed(self, seconds: float = _LOOK_SECONDS) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    # --- blocks

    async def _newest(self) -> int:
        found = await self._ask("getSlot", [{"commitment": "confirmed"}])
        if type(found) is not int:
            raise NodeSilent("getSlot")
        return found

    async def _catch_up(self) -> None:
        """Queue the events of every confirmed block after the last slot."""
        newest = await self._newest()
        assert self._slot is not None
        if self._slot > newest + _APART_MAX:  # Nothing is queued twice, so going back costs nothing.
            logger.error(
                "webhooks: the place was slot %d, and the chain is at %d: followed from there", self._slot, newest
            )
            self._slot = newest
        if newest - self._slot > CATCH_UP_SLOTS_MAX:
            first, last = self._slot + 1, newest - CATCH_UP_SLOTS_MAX
            if not await self._blocks_from(last + 1):
                raise NodeSilent(f"getSlot: {newest}, and there is no such block")
            logger.error("webhooks: slots %d to %d are not delivered, as they are too long ago", first, last)
            await self._queue(gap_events(self._watched, first, last, self._clock.now_ms()), last)
            self._slot = last
        # The place moves over blocks that a node lists, never to a slot that is only reported: the next node may be
        # behind, and one absurd slot would skip all later blocks.
        while self._slot < newest and (slots := await self._blocks_from(self._slot + 1)):
            for slot in slots:
                await self._read_block(slot)

    async def _blocks_from(self, first: int) -> list[int]:
        """List the next slots that have a block. Empty: there is none yet, or the asked node is behind."""
        slots = await self._ask("getBlocksWithLimit", [first, _BLOCKS_AT_ONCE, {"commitment": "confirmed"}])
        if not isinstance(slots, list) or not all(type(slot) is int and slot >= first for slot in slots):
            raise NodeSilent("getBlocksWithLimit")
        return sorted(slots)

    async def _read_block(self, slot: int) -> None:
        options = {
            "encoding": "json",
            "transactionDetails": "full",
            "rewards": False,
            "maxSupportedTransactionVersion": 1,
            "commitment": "confirmed",
        }
        block = await self._ask("getBlock", [slot, options])
        if not isinstance(block, dict):
            raise NodeSilent("getBlock")
        now_ms = self._clock.now_ms()
        events = [
            event
            for transaction in from_block(slot, block)
            for event in transaction_events(transaction, self._watched, now_ms)
        ]
        await self._queue(events, slot)
        self._slot = slot

    async def _ask(self, method: str, params: list[Any]) -> Any:
        answer = await self._node.call(method, orjson.dumps(params), _CALL_MS)
        if answer.kind is not AnswerKind.RESULT:
            raise NodeSilent(method)
        return orjson.loads(answer.body)["result"]

    # --- stream

    async def _stream(self, url: str, token: str | None) -> None:
        """Queue the events of the stream until it breaks. Raises what broke it."""
        assert self._slot is not None
        options = (("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),)
        target = url.partition("://")[2].rstrip("/")
        secure = url.startswith("https://")
        channel = (
            grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
            if secure
            else grpc.aio.insecure_channel(target, options)
        )
        async with channel:
            call = channel.stream_stream(
                SUBSCRIBE.path,
                request_serializer=SUBSCRIBE.request.SerializeToString,
                response_deserializer=SUBSCRIBE.response.FromString,
            )(metadata=(("x-token", token),) if token else None)
            try:
                await call.write(self._request(max(0, self._slot - _OVERLAP_SLOTS)))
                self.is_streaming = True
                await self._read(call)
            finally:
                self.is_streaming = False
                call.cancel()

    async def _read(self, call: Any) -> None:
        events: list[QueuedEvent] = []
        newest = flushed_slot = self._slot or 0
        flush_at = look_at = self._clock.monotonic()
        while True:
            async with asyncio.timeout(_SILENT_SECONDS_MAX):
                update = await call.read()
            if update is grpc.aio.EOF:
                raise NodeSilent("the stream ended")
            now = self._clock.monotonic()
            kind = update.WhichOneof("update_oneof")
            if kind == "transaction":
                newest = max(newest, update.transaction.slot)
                transaction = from_stream(update.transaction, update.created_at.seconds or None)
                if transaction is not None:
                    events += transaction_events(transaction, self._watched, self._clock.now_ms())
            elif kind == "block_meta":
                newest = max(newest, update.block_meta.slot)
            elif kind == "ping":
                await call.write(geyser_pb2.SubscribeRequest(ping=geyser_pb2.SubscribeRequestPing(id=1)))
            if len(events) >= _EVENTS_AT_ONCE_MAX or (now >= flush_at and (events or newest - 1 > flushed_slot)):
                # The newest slot may have more transactions to come.
                await self._queue(events, newest - 1)
                self._slot = flushed_slot = max(flushed_slot, newest - 1)
                events, flush_at = [], now + _FLUSH_SECONDS
            if self._changed.is_set() or now >= look_at:
                look_at = now + _LOOK_SECONDS
                before = self._watched
                await self._look()
                if not self._watched:
                    await self._queue(events, newest - 1)
                    return
                if self._watched != before:
                    await call.write(self._request(None))

    def _request(self, from_slot: int | None) -> geyser_pb2.SubscribeRequest:
        """Make one filter for all webhooks. Block metas show progress where no transaction matches."""
        request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.CONFIRMED)
        found = request.transactions["webhooks"]
        found.vote = found.failed = False
        found.account_include.extend(sorted(self._watched))
        request.blocks_meta["webhooks"].SetInParent()
        if from_slot is not None:
            request.from_slot = from_slot
        return request

    async def _queue(self, events: list[QueuedEvent], slot: int) -> None:
        if await self._store.queue(events, self._clock.now_ms(), SourceCursor(slot=slot)):
            self._wake()


class NodeSilent(Exception):
    """The node did not answer; the text names the call."""


def _brief(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"
