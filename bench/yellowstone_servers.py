"""Yellowstone servers of measurements: `python -m bench.yellowstone_servers updates|signals|relay --port N ...`.

updates: sends small account updates, or transactions of the usual size, as fast as it is asked to; the embedded chain
makes too few to fill a stream.
signals: sends trades of a bonding curve at a steady rate. relay: the least that a Python program does to pass a stream
on; its event loop and gRPC options are those of a replica, so the rest of the gateway's time is its own work and
HAProxy's.
"""

import asyncio
import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any

import grpc
import typer
import uvloop
from solders.pubkey import Pubkey

from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import (
    PingRequest,
    PongResponse,
    SlotStatus,
    SubscribeRequest,
    SubscribeUpdate,
    SubscribeUpdateAccount,
    SubscribeUpdateAccountInfo,
    SubscribeUpdatePong,
)
from actors.launch_programs.addresses import PUMP
from actors.launch_programs.events import TradeEvent, self_cpi_data

THRESHOLD = 1 << 60  # Lamports; a trade of at least as many is a signal.
LARGE_ONLY = "large"
_ANY_SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_SLOT_SECONDS = 0.4
FIRST_SLOT = 1_000
_FINAL_AFTER = 32
_WAITING_MAX = 200_000  # Updates waiting for one subscription; the measurement fails if a reader is further behind.
_SIGNATURE, _MINT, _LAMPORTS = b"\xf1" * 64, b"\xf2" * 32, 0xF3F3F3F3F3F3F3F3
_RATE_MARK = b"updates a second".ljust(24)
TRANSACTION_BYTES = 1_200  # Of an update with a transaction, as mainnet's are; an account update has 250.
_ACCOUNT = SubscribeUpdateAccountInfo(
    pubkey=bytes(32), lamports=1, owner=bytes(32), data=bytes(82), txn_signature=bytes(64)
)

app = typer.Typer()
Port = Annotated[int, typer.Option()]
Write = Callable[[bytes], Awaitable[None]]


async def started(port: int, handlers: dict[str, Any], options: Sequence[tuple[str, int]] = ()) -> grpc.aio.Server:
    """Return a server of geyser.Geyser that listens on the loopback. handlers: grpc's own, by the name of the call."""
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server


def _handlers(subscribe: Any) -> dict[str, Any]:
    """Return the handlers of a node. subscribe: takes requests, and writes updates as bytes."""

    async def ping(request: PingRequest, _context: Any) -> PongResponse:
        return PongResponse(count=request.count)

    return {
        api.SUBSCRIBE.name: grpc.stream_stream_rpc_method_handler(
            subscribe, request_deserializer=SubscribeRequest.FromString, response_serializer=bytes
        ),
        api.PING.name: grpc.unary_unary_rpc_method_handler(
            ping, request_deserializer=PingRequest.FromString, response_serializer=PongResponse.SerializeToString
        ),
    }


def _slot_updates(slot: int, names: Sequence[str]) -> list[bytes]:
    made = []
    for status, number in (
        (SlotStatus.SLOT_PROCESSED, slot),
        (SlotStatus.SLOT_CONFIRMED, slot),
        (SlotStatus.SLOT_FINALIZED, slot - _FINAL_AFTER),
    ):
        update = SubscribeUpdate(filters=names)
        update.slot.slot, update.slot.parent, update.slot.status = number, number - 1, status
        made.append(update.SerializeToString())
    return made


class UpdateSource:
    """Sends account updates, or transactions where those are asked for. The rate a second is the first account filter's
    `lamports.eq`, or that of the `rate_key` in a transaction filter's `account_include`. 0: as fast as possible.

    All subscriptions get the statuses of slots, which follow from the time, also those that ask for something else;
    each update carries the time at which it was made.
    """

    def __init__(self) -> None:
        self._version = 0

    async def subscribe(self, requests: AsyncIterator[SubscribeRequest], context: Any) -> None:
        await context.send_initial_metadata(())
        request = await anext(requests)
        one_at_a_time = asyncio.Lock()  # gRPC allows one write of a stream at a time.

        async def write(update: bytes) -> None:
            async with one_at_a_time:
                await context.write(update)

        statuses = asyncio.create_task(self._slots(list(request.slots), write))
        answering = asyncio.create_task(self._answer_pings(requests, write))
        try:
            await self._updates(request, write)
        finally:
            statuses.cancel()
            answering.cancel()

    async def _answer_pings(self, requests: AsyncIterator[SubscribeRequest], write: Write) -> None:
        async for request in requests:
            pong = SubscribeUpdatePong(id=request.ping.id)
            await write(SubscribeUpdate(pong=pong).SerializeToString())

    async def _slots(self, names: list[str], write: Write) -> None:
        while names:
            for update in _slot_updates(_slot_now(), names):
                await write(update)
            await asyncio.sleep(_SLOT_SECONDS)

    async def _updates(self, request: SubscribeRequest, write: Write) -> None:
        if request.transactions:
            names, make = list(request.transactions), _transaction
            asked = _rate_of(request.transactions[names[0]].account_include)
            if asked is None:  # The product's own classifiers ask for programs: they get none, which costs nobody time.
                await asyncio.Event().wait()
                return
            rate = asked
        else:
            names, make = list(request.accounts), _account
            rate = request.accounts[names[0]].filters[0].lamports.eq
        head, made_at = SubscribeUpdate(filters=names).SerializeToString(), SubscribeUpdate()
        began, sent = time.monotonic(), 0
        while True:
            self._version += 1
            made_at.created_at.FromNanoseconds(time.time_ns())
            # Parts of a message that follow each other are one message.
            await write(head + make(_slot_now(), self._version) + made_at.SerializeToString())
            sent += 1
            if rate:
                await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))


def rate_key(rate: int) -> str:
    """Return the account that asks for so many transactions a second. The product sorts the keys of a filter."""
    return str(Pubkey(rate.to_bytes(8) + _RATE_MARK))


def _rate_of(keys: Sequence[str]) -> int | None:
    asked = [bytes(Pubkey.from_string(key)) for key in keys]
    return next((int.from_bytes(key[:8]) for key in asked if key[8:] == _RATE_MARK), None)


def _account(slot: int, version: int) -> bytes:
    _ACCOUNT.write_version, _ACCOUNT.txn_signature = version, _numbered(version)
    return SubscribeUpdate(account=SubscribeUpdateAccount(account=_ACCOUNT, slot=slot)).SerializeToString()


def _transaction(slot: int, version: int) -> bytes:
    return _transaction_of(slot).replace(_SIGNATURE, _numbered(version))


@functools.lru_cache(maxsize=2)
def _transaction_of(slot: int) -> bytes:
    """Return a transaction with `_SIGNATURE`, which makes an update of TRANSACTION_BYTES with its name and time."""
    made = _trade(slot, _SIGNATURE, Pubkey(_MINT), _LAMPORTS).transaction
    del made.transaction.transaction.message.account_keys[:6]  # Makes room for the log.
    made.transaction.meta.log_messages.append("")
    rest = 19  # The name of its filter, the time, and the bytes that tell lengths.
    missing = TRANSACTION_BYTES - rest - SubscribeUpdate(transaction=made).ByteSize()
    assert missing > 0, missing
    made.transaction.meta.log_messages[0] = "x" * missing
    return SubscribeUpdate(transaction=made).SerializeToString()


def _numbered(version: int) -> bytes:
    return version.to_bytes(64)


def _slot_now() -> int:
    return int(time.time() / _SLOT_SECONDS)


def trade(slot: int, number: int, lamports: int) -> SubscribeUpdate:
    """Return one transaction of a router that trades on a curve, with the platform's event inside."""
    return _trade(slot, _signature(number), Pubkey(_mint(number)), lamports)


def _signature(number: int) -> bytes:
    return number.to_bytes(8, "little") * 8


def _mint(number: int) -> bytes:
    return number.to_bytes(8, "little") * 4


def _trade(slot: int, signature: bytes, mint: Pubkey, lamports: int) -> SubscribeUpdate:
    made = SubscribeUpdate(filters=["programs"])
    found = made.transaction
    found.slot = slot
    info = found.transaction
    info.signature = signature
    keys = [bytes([1, n]) * 16 for n in range(18)] + [bytes(PUMP)]
    message = info.transaction.message
    message.header.num_required_signatures = 1
    message.account_keys.extend(keys)
    message.instructions.add(program_id_index=17, accounts=bytes(range(8)), data=b"route")
    event = TradeEvent(mint, lamports, 5, True, Pubkey(keys[0]))
    inner = info.meta.inner_instructions.add(index=0)
    data = bytes.fromhex("66063d1201daebea") + bytes(17)
    inner.instructions.add(program_id_index=18, accounts=bytes(range(17)), data=data, stack_height=2)
    inner.instructions.add(program_id_index=18, accounts=b"\x01", data=self_cpi_data(event), stack_height=3)
    info.meta.pre_balances.extend([5] * 19)
    info.meta.post_balances.extend([5] * 19)
    return made


class Template:
    """Writes a trade as bytes a hundred times faster than protobuf does: the source must not be the limit."""

    def __init__(self, slot: int) -> None:
        self._bytes = _trade(slot, _SIGNATURE, Pubkey(_MINT), _LAMPORTS).SerializeToString()
        self._lamports = _LAMPORTS.to_bytes(8, "little")

    def filled(self, number: int, lamports: int) -> bytes:
        return (
            self._bytes.replace(_SIGNATURE, _signature(number))
            .replace(_MINT, _mint(number))
            .replace(self._lamports, lamports.to_bytes(8, "little"))
        )


class SignalSource:
    """Sends trades; of so many (`every`) one is a large swap, whose amount tells its age.

    The amount is THRESHOLD plus the microseconds of the machine's monotonic clock. All subscriptions get the same
    updates; one whose filter is named LARGE_ONLY gets the large swaps alone.
    readers: it sends nothing before there are so many subscriptions. count: of transactions; slots go on after them,
    and a subscription may begin at a past slot.
    """

    def __init__(self, transactions_per_second: int, every: int, readers: int = 0, count: int | None = None) -> None:
        self._rate, self._every, self._readers, self._count = transactions_per_second, every, readers, count
        self._past: list[tuple[int, bytes]] = []
        self._all: set[asyncio.Queue[bytes]] = set()
        self._large: set[asyncio.Queue[bytes]] = set()

    async def run(self) -> None:
        """Make updates on time, whether or not a reader is there."""
        while len(self._all) < self._readers:  # noqa: ASYNC110 - once, before anything is measured.
            await asyncio.sleep(0.05)
        began, number, slot = time.monotonic(), 0, FIRST_SLOT
        template = Template(slot)
        while True:
            due = int((time.monotonic() - began) * self._rate)
            due = due if self._count is None else min(due, self._count)
            while number < due:
                number += 1
                is_large = number % self._every == 0
                lamports = THRESHOLD + time.monotonic_ns() // 1_000 if is_large else 5
                self._send(slot, template.filled(number, lamports), is_large)
            if time.monotonic() - began > (slot - FIRST_SLOT + 1) * _SLOT_SECONDS:
                for update in _slot_updates(slot, ["slots"]):
                    self._send(slot, update, is_large=False)
                slot += 1
                template = Template(slot)
            await asyncio.sleep(0.001)

    def _send(self, slot: int, made: bytes, is_large: bool) -> None:
        if self._count is not None:
            self._past.append((slot, made))
        for queue in (*self._all, *(self._large if is_large else ())):
            queue.put_nowait(made)

    async def subscribe(self, requests: AsyncIterator[SubscribeRequest], context: Any) -> None:
        await context.send_initial_metadata(())
        request = await anext(requests)
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_MAX)
        if not request.transactions:  # The gateway's own probe of the endpoint.
            await context.write(_slot_updates(FIRST_SLOT, ["slots"])[0])
            return
        if request.HasField("from_slot"):
            for slot, made in self._past:
                if slot >= request.from_slot:
                    queue.put_nowait(made)
        group = self._large if LARGE_ONLY in request.transactions else self._all
        group.add(queue)
        try:
            while True:
                await context.write(await queue.get())
        finally:
            group.discard(queue)


class Relay:
    """One task reads from the source, another writes to the client; nothing is decoded, charged or limited.

    source: host:port of a Yellowstone endpoint.
    """

    def __init__(self, source: str) -> None:
        self._subscribe: Any = grpc.aio.insecure_channel(source, options=_ANY_SIZE).stream_stream(api.SUBSCRIBE.path)

    async def subscribe(self, requests: AsyncIterator[bytes], context: Any) -> None:
        call = self._subscribe()
        await call.write(await anext(requests))
        waiting: deque[bytes] = deque()
        has_come = asyncio.Event()

        async def read() -> None:
            while True:
                waiting.append(await call.read())
                has_come.set()

        reading = asyncio.create_task(read())
        try:
            while True:
                while not waiting:
                    has_come.clear()
                    await has_come.wait()
                await context.write(waiting.popleft())
        finally:
            reading.cancel()


@app.command()
def updates(port: Port) -> None:
    async def serve() -> None:
        server = await started(port, _handlers(UpdateSource().subscribe), [("grpc.so_reuseport", 0)])
        await server.wait_for_termination()

    asyncio.run(serve())


@app.command()
def signals(
    port: Port,
    rate: Annotated[int, typer.Option(help="Transactions a second.")],
    every: Annotated[int, typer.Option(help="Of so many transactions one is a signal.")],
    readers: Annotated[int, typer.Option(help="Subscriptions that it waits for before it sends.")] = 0,
    count: Annotated[int | None, typer.Option(help="It sends so many transactions.")] = None,
) -> None:
    async def serve() -> None:
        source = SignalSource(rate, every, readers, count)
        server = await started(port, _handlers(source.subscribe), [("grpc.so_reuseport", 0)])
        try:
            await source.run()
        finally:  # Also keeps a reference to the server, which would otherwise stop by itself.
            await server.stop(None)

    asyncio.run(serve())


@app.command()
def relay(port: Port, source: Annotated[str, typer.Option(help="host:port")]) -> None:
    async def serve() -> None:
        handler: Any = grpc.stream_stream_rpc_method_handler(Relay(source).subscribe)
        server = await started(port, {api.SUBSCRIBE.name: handler}, _ANY_SIZE)
        await server.wait_for_termination()

    uvloop.run(serve())


if __name__ == "__main__":
    app()
