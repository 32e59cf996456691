"""Clients of Yellowstone that stop reading, on the real product: what they hear when they read again."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from actors.geyser_proto import api, geyser_pb2
from bench.product import Product
from bench.systems import started
from tests.customers import Customer

# Longer than the replica's pause between two pings and the 10 s after which gRPC by default takes a peer for dead;
# below the 75 s for which the front and the edge wait for a client.
_STANDS_SECONDS = 50.0
_SETTINGS = {"LEDGER_GEYSER__QUEUE_UPDATES_MAX": "50", "LEDGER_GEYSER__END_SECONDS": "2", "LEDGER_SERVE__TLS": "true"}
# A window that does not grow: else gRPC itself takes in megabytes for a client that does not read.
_OPTIONS = [
    *(("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)),
    *(("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)),
]


@pytest.fixture
def small_queues() -> Iterator[Product]:
    with started(_SETTINGS) as product:
        yield product


def _everything_many_times() -> geyser_pb2.SubscribeRequest:
    """Long names make each entry 45 kB, so that all buffers on the way are full within a few slots."""
    request = geyser_pb2.SubscribeRequest()
    for number in range(400):
        request.entry[f"{number:0>110}"].SetInParent()
    return request


def _certificates(path: Path) -> bytes:
    return path.read_bytes()


async def _stand_still(channel: grpc.aio.Channel, key: str) -> tuple[Any, str]:
    """Read one update, then nothing for a while; the code and the text with which the stream ends after that."""
    stub: Any = channel.stream_stream(
        api.SUBSCRIBE.path,
        request_serializer=geyser_pb2.SubscribeRequest.SerializeToString,
        response_deserializer=geyser_pb2.SubscribeUpdate.FromString,
    )
    async with channel:
        call = stub(metadata=(("x-token", key),))
        await call.write(_everything_many_times())
        await call.read()
        await asyncio.sleep(_STANDS_SECONDS)
        try:
            async with asyncio.timeout(60):
                while await call.read() is not grpc.aio.EOF:
                    pass
        except grpc.aio.AioRpcError:
            pass
        return await call.code(), await call.details()


@pytest.mark.threat(73)
@pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes a minute: set LONG_TESTS=1")
async def test_a_reader_that_stood_still_is_told_its_last_slot(small_queues: Product) -> None:
    """Threat 73: through the front, and through the edge and the front."""
    customer = Customer(small_queues)
    customer.grant(10_000)
    ready = small_queues.ready
    trusted = grpc.ssl_channel_credentials(_certificates(Path(ready["tls_ca_file"])))
    channels = [
        grpc.aio.insecure_channel(str(ready["grpc_target"]), options=_OPTIONS),
        grpc.aio.secure_channel(str(ready["grpc_tls_target"]), trusted, options=_OPTIONS),
    ]
    for code, text in await asyncio.gather(*(_stand_still(channel, customer.api_key) for channel in channels)):
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, (code, text)
        assert "the last slot sent is" in text and "subscribe again with from_slot" in text, text
