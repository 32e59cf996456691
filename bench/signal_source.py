"""`python -m bench.signal_source`: a Yellowstone endpoint that sends trades of a bonding curve at a steady rate.

For measurements of signals. Every so many trades one is a large swap; its amount is THRESHOLD and the microseconds of
the machine's monotonic clock, so whoever reads it knows its age. All subscriptions get the same updates; one whose
filter is named LARGE_ONLY gets the large swaps alone.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from solders.pubkey import Pubkey

from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import PingRequest, PongResponse, SlotStatus, SubscribeRequest, SubscribeUpdate
from actors.launch_programs.addresses import PUMP
from actors.launch_programs.events import TradeEvent, self_cpi_data
from bench.grpc_server import started

THRESHOLD = 1 << 60
LARGE_ONLY = "large"
_SLOT_SECONDS = 0.4
_FIRST_SLOT = 1_000
_FINAL_AFTER = 32
_WAITING_MAX = 60_000  # Updates for one subscription, a minute; the measurement fails when a reader is so far behind.
_SIGNATURE, _MINT, _LAMPORTS = b"\xf1" * 64, b"\xf2" * 32, 0xF3F3F3F3F3F3F3F3


def update(slot: int, number: int, lamports: int) -> SubscribeUpdate:
    """Return one transaction of a router that trades on a curve, with the platform's event inside."""
    return _update(slot, _signature(number), Pubkey(_mint(number)), lamports)


def _signature(number: int) -> bytes:
    return number.to_bytes(8, "little") * 8


def _mint(number: int) -> bytes:
    return number.to_bytes(8, "little") * 4


def _update(slot: int, signature: bytes, mint: Pubkey, lamports: int) -> SubscribeUpdate:
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
    trade = bytes.fromhex("66063d1201daebea") + bytes(17)
    inner.instructions.add(program_id_index=18, accounts=bytes(range(17)), data=trade, stack_height=2)
    inner.instructions.add(program_id_index=18, accounts=b"\x01", data=self_cpi_data(event), stack_height=3)
    info.meta.pre_balances.extend([5] * 19)
    info.meta.post_balances.extend([5] * 19)
    return made


class Template:
    """Writes an update as bytes a hundred times faster than protobuf does: the source must not be what is measured."""

    def __init__(self, slot: int) -> None:
        self._bytes = _update(slot, _SIGNATURE, Pubkey(_MINT), _LAMPORTS).SerializeToString()
        self._lamports = _LAMPORTS.to_bytes(8, "little")

    def filled(self, number: int, lamports: int) -> bytes:
        return (
            self._bytes.replace(_SIGNATURE, _signature(number))
            .replace(_MINT, _mint(number))
            .replace(self._lamports, lamports.to_bytes(8, "little"))
        )


def _slot_updates(slot: int) -> list[bytes]:
    told = []
    for status, number in (
        (SlotStatus.SLOT_PROCESSED, slot),
        (SlotStatus.SLOT_CONFIRMED, slot),
        (SlotStatus.SLOT_FINALIZED, slot - _FINAL_AFTER),
    ):
        made = SubscribeUpdate(filters=["slots"])
        made.slot.slot, made.slot.parent, made.slot.status = number, number - 1, status
        told.append(made.SerializeToString())
    return told


class Endpoint:
    def __init__(self, transactions_per_second: int, every: int) -> None:
        self._rate, self._every = transactions_per_second, every
        self._all: set[asyncio.Queue[bytes]] = set()
        self._large: set[asyncio.Queue[bytes]] = set()
        self.sent = self.large = 0

    async def run(self) -> None:
        """Make updates on time, whoever listens."""
        started, number, slot = time.monotonic(), 0, _FIRST_SLOT
        template = Template(slot)
        while True:
            due = int((time.monotonic() - started) * self._rate)
            while number < due:
                number += 1
                is_large = number % self._every == 0
                lamports = THRESHOLD + time.monotonic_ns() // 1_000 if is_large else 5
                self._tell(template.filled(number, lamports), is_large)
            if time.monotonic() - started > (slot - _FIRST_SLOT + 1) * _SLOT_SECONDS:
                for told in _slot_updates(slot):
                    self._tell(told, is_large=False)
                slot += 1
                template = Template(slot)
            await asyncio.sleep(0.001)

    def _tell(self, made: bytes, is_large: bool) -> None:
        for queue in (*self._all, *(self._large if is_large else ())):
            queue.put_nowait(made)

    async def subscribe(self, requests: AsyncIterator[SubscribeRequest], context: Any) -> None:
        await context.send_initial_metadata(())
        request = await anext(requests)
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_MAX)
        if not request.transactions:  # The gateway's own look at the endpoint.
            await context.write(_slot_updates(_FIRST_SLOT)[0])
            return
        group = self._large if LARGE_ONLY in request.transactions else self._all
        group.add(queue)
        try:
            while True:
                await context.write(await queue.get())
        finally:
            group.discard(queue)

    async def ping(self, request: PingRequest, context: Any) -> PongResponse:
        del context
        return PongResponse(count=request.count)


async def serve(port: int, rate: int, every: int) -> None:
    """Serve until cancelled."""
    endpoint = Endpoint(rate, every)
    handlers: dict[str, Any] = {
        api.SUBSCRIBE.name: grpc.stream_stream_rpc_method_handler(
            endpoint.subscribe, request_deserializer=SubscribeRequest.FromString, response_serializer=bytes
        ),
        api.PING.name: grpc.unary_unary_rpc_method_handler(
            endpoint.ping,
            request_deserializer=PingRequest.FromString,
            response_serializer=PongResponse.SerializeToString,
        ),
    }
    server = await started(port, handlers, [("grpc.so_reuseport", 0)])
    try:
        await endpoint.run()
    finally:
        await server.stop(None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--port", "--rate", "--every"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.rate, given.every))
