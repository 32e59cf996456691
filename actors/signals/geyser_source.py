"""The chain as a Yellowstone endpoint streams it, at processed commitment.

Implements: facts, Yellowstone gRPC (filters, replay by from_slot, pings). A shell around one gRPC call at a time.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

import grpc
from google.protobuf.message import DecodeError

from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import CommitmentLevel, SlotStatus, SubscribeRequest, SubscribeUpdate
from actors.grpc_http2.client import GrpcClient
from actors.grpc_http2.client_call import CallFailed, ClientCall
from actors.signals.from_geyser import read_head, read_update
from actors.signals.sources import BATCH_MAX, SlotSeen, SlotsGone, SlotState, SourceUnavailable, TransactionSeen, Update

MESSAGE_BYTES_MAX = 64 << 20
WINDOW_BYTES = 8 << 20  # Bytes that the node may send before they are read.
QUEUE_MAX, QUEUE_BYTES_MAX = 10_000, 64 << 20  # Updates that are read but not classified.
_SMALL_BYTES = 256  # Pings and slots are smaller, transactions are larger.
_LOOKED_AT_ONCE = 256  # Updates in one turn of the event loop.
_LOOK_SECONDS = 1.0
_SILENT_SECONDS_MAX = 15.0  # Slots come several times a second, and pings every ten seconds.
_STATES = {
    SlotStatus.SLOT_PROCESSED: SlotState.PROCESSED,
    SlotStatus.SLOT_CONFIRMED: SlotState.CONFIRMED,
    SlotStatus.SLOT_FINALIZED: SlotState.FINALIZED,
    SlotStatus.SLOT_DEAD: SlotState.DEAD,
}
_FIRST_AVAILABLE = re.compile(r"last available: (\d+)")


class GeyserSource:
    name = "yellowstone"

    def __init__(self, url: str, programs: tuple[str, ...], token: str | None = None) -> None:
        """url: http:// for an endpoint without TLS, https:// for one with it."""
        self._url, self._programs, self._token = url, programs, token
        self._wallets: frozenset[str] = frozenset()
        self._is_mine: Callable[[bytes], bool] | None = None
        self._call: ClientCall | None = None
        self._head = self._told_slot = 0

    def head(self) -> int:
        return self._head

    def narrow(self, is_mine: Callable[[bytes], bool] | None) -> None:
        self._is_mine = is_mine

    async def watch(self, wallets: frozenset[str]) -> None:
        if wallets == self._wallets:
            return
        self._wallets = wallets
        if self._call is not None:
            self._call.write(self._request(None).SerializeToString())

    async def updates(self, from_slot: int | None) -> AsyncGenerator[Sequence[Update], None]:
        client = GrpcClient(self._url, {"x-token": self._token} if self._token else {}, MESSAGE_BYTES_MAX, WINDOW_BYTES)
        try:
            call = await client.open(api.SUBSCRIBE.path)
        except CallFailed as error:
            await client.close()
            raise _translated(error) from error
        inbox, self._told_slot = Inbox(QUEUE_MAX, QUEUE_BYTES_MAX), 0
        reading = asyncio.create_task(self._read_into(inbox, call, from_slot))
        try:
            while payloads := await inbox.take(BATCH_MAX):
                batch = [update for payload in payloads if (update := _read(payload)) is not None]
                if batch:
                    yield batch
            reading.result()
        except CallFailed as error:
            raise _translated(error) from error
        except DecodeError as error:
            raise SourceUnavailable(f"the stream is broken: {error}") from error
        finally:
            self._call = None
            call.close()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await client.close()

    async def _read_into(self, inbox: "Inbox", call: ClientCall, from_slot: int | None) -> None:
        """Read the stream until it breaks. Pings are answered in time, however many updates wait."""
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        watch: asyncio.TimerHandle

        def look() -> None:
            nonlocal watch
            watch = loop.call_later(_LOOK_SECONDS, look)
            if loop.time() - heard_at > _SILENT_SECONDS_MAX and not inbox.is_full:
                call.fail("the stream is silent")

        watch = loop.call_later(_LOOK_SECONDS, look)  # One timer, because a time limit for each update costs more.
        try:
            call.write(self._request(from_slot).SerializeToString())
            self._call = call  # Not earlier: a request of `watch` has no slot, and must not be the first one.
            while payloads := await call.read():
                heard_at = loop.time()
                for number, payload in enumerate(payloads, 1):
                    if number % _LOOKED_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    if len(payload) <= _SMALL_BYTES and self._is_ping(payload, call):
                        continue
                    if self._is_mine is not None and self._is_of_others(payload, self._is_mine):
                        continue
                    inbox.add(payload)
                    if inbox.is_full:
                        await inbox.has_room()
                        heard_at = loop.time()
        finally:
            watch.cancel()
            inbox.end()

    def _is_of_others(self, payload: bytes, is_mine: Callable[[bytes], bool]) -> bool:
        """Return whether to skip an update before it is decoded: every classifier reads the whole stream."""
        head = read_head(payload)
        if head is None or head.slot > self._told_slot or is_mine(head.signature):
            self._told_slot = self._told_slot if head is None else max(self._told_slot, head.slot)
            return False
        return True

    def _is_ping(self, payload: bytes, call: ClientCall) -> bool:
        """Answer a ping, and record a slot, which shows how far the classifier is behind."""
        update = SubscribeUpdate.FromString(payload)
        if update.HasField("ping"):
            call.write(SubscribeRequest(ping={"id": 1}).SerializeToString())
            return True
        if update.HasField("slot"):
            self._head = max(self._head, update.slot.slot)
        return False

    def _request(self, from_slot: int | None) -> SubscribeRequest:
        request = SubscribeRequest(commitment=CommitmentLevel.PROCESSED, from_slot=from_slot)
        for name, accounts in (("programs", self._programs), ("wallets", tuple(sorted(self._wallets)))):
            if accounts:
                wanted = request.transactions[name]
                wanted.vote, wanted.failed = False, False
                wanted.account_include.extend(accounts)
        request.slots["slots"].interslot_updates = True  # Includes dead slots.
        return request


class Inbox:
    """Updates of one stream, as bytes, that were read but not taken.

    When full: the reader waits until half is taken, and reads nothing. gRPC then slows the node down, which may end the
    stream; a new one begins at the stored position.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max, self._bytes_max = count_max, bytes_max
        self._payloads: deque[bytes] = deque()
        self._bytes = 0
        self._has_ended = False
        self._news, self._room = asyncio.Event(), asyncio.Event()

    @property
    def is_full(self) -> bool:
        return len(self._payloads) >= self._count_max or self._bytes >= self._bytes_max

    def add(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self._bytes += len(payload)
        self._news.set()

    def end(self) -> None:
        """Tell the taker that no update follows."""
        self._has_ended = True
        self._news.set()

    async def has_room(self) -> None:
        self._room.clear()
        await self._room.wait()

    async def take(self, count: int) -> list[bytes]:
        """Return the oldest updates, after waiting for the first; nothing at the end. Other tasks run in between."""
        if self._payloads:
            await asyncio.sleep(0)
        elif not self._has_ended:
            self._news.clear()
            await self._news.wait()
        payloads = self._payloads
        taken = [payloads.popleft() for _ in range(min(count, len(payloads)))]
        self._bytes -= sum(map(len, taken))
        if len(payloads) <= self._count_max // 2 and self._bytes <= self._bytes_max // 2:
            self._room.set()
        return taken


def _read(payload: bytes) -> Update | None:
    update = SubscribeUpdate.FromString(payload)
    if update.HasField("transaction"):
        transaction = read_update(update.transaction.slot, update.transaction.transaction)
        return None if transaction is None else TransactionSeen(transaction)
    if update.HasField("slot") and update.slot.status in _STATES:
        slot = update.slot
        return SlotSeen(slot.slot, slot.parent if slot.HasField("parent") else None, _STATES[slot.status])
    return None


def _translated(error: CallFailed) -> Exception:
    first = _FIRST_AVAILABLE.search(error.text)
    if error.code is grpc.StatusCode.OUT_OF_RANGE and first is not None:
        return SlotsGone(int(first[1]))
    return SourceUnavailable(str(error))
