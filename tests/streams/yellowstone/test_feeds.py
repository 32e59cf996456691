"""Which clients share a subscription at the node, and what is its own."""

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from solders.keypair import Keypair

from actors.clock import SystemClock
from actors.geyser_proto import api, geyser_pb2
from actors.grpc_http2.client_call import CallFailed
from actors.local_servers.certificates import own_certificate
from actors.stream_config import GeyserConfig
from actors.streams.yellowstone.feeds import GeyserFeeds, SourceRefused
from tests.streams.geyser_world import (
    GeyserWorld,
    Request,
    shown,
    traffic,
    until_slot,
)


async def test_equal_subscriptions_share_one_at_the_node(world: GeyserWorld) -> None:
    """Names and orders of keys change nothing; the node sees one subscription, and each client its own names."""
    payer, other = world.local.wallet(), Keypair().pubkey()
    clients = [world.client() for _ in range(5)]
    for number, client in enumerate(clients):
        request = Request()
        keys = [str(payer.pubkey()), str(other)]
        request.transactions[f"name {number}"].account_include.extend(keys if number % 2 else keys[::-1])
        await client.ask(request)
        await client.until_pong(number)
    await world.until(lambda: world.feeds.feeds_open == 1 and world.account.posted.get("grpc/Subscribe") == 5)
    world.local.land(world.local.transfer(payer, other, 10**7))
    for number, client in enumerate(clients):
        update = await client.next()
        assert list(update.filters) == [f"name {number}"]
    assert len(world.hub._subscribers) == 1


async def test_a_replay_is_that_of_the_node(world: GeyserWorld) -> None:
    """from_slot is the node's own, and so are its refusals."""
    payer = world.local.wallet()
    start = world.local.chain.levels.building.slot
    for _ in range(4):
        world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7))
        world.local.beat()
    last = world.local.chain.levels.building.slot - 1
    request = traffic()
    request.from_slot = start
    through, direct = world.client(), world.direct()
    for client in (through, direct):
        await client.ask(request)
    world.local.beat()
    world.local.finalize()
    found, wanted = [await until_slot(client, last, geyser_pb2.SLOT_FINALIZED) for client in (through, direct)]
    assert shown(found) == shown(wanted)
    request.from_slot = 0
    refused = world.client()
    await refused.ask(request)
    code, text = await refused.end()
    assert code is grpc.StatusCode.OUT_OF_RANGE and text.startswith("broadcast from 0 is not available")
    info = await world.call(api.SUBSCRIBE_REPLAY_INFO, geyser_pb2.SubscribeReplayInfoRequest())
    assert info == await world.call(api.SUBSCRIBE_REPLAY_INFO, geyser_pb2.SubscribeReplayInfoRequest(), world.node_port)


async def test_a_node_is_verified_with_the_same_certificates_for_calls_and_for_subscriptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a probe says that the node is up, and no subscription reaches it, or the other way round."""
    own = own_certificate(tmp_path / "node", [], "node", 30, time.time())
    certificates = grpc.ssl_server_credentials([(own.key, own.chain)])
    server = grpc.aio.server()
    handlers: dict[str, Any] = {
        api.PING.name: grpc.unary_unary_rpc_method_handler(_pong),
        api.SUBSCRIBE.name: grpc.stream_stream_rpc_method_handler(_pour),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE, handlers),))
    url = f"https://localhost:{server.add_secure_port('localhost:0', certificates)}"
    await server.start()
    for trusted in (True, False):
        with monkeypatch.context() as patched:
            if trusted:
                patched.setenv("SSL_CERT_FILE", str(own.ca_file))
            feeds = GeyserFeeds(url, None, GeyserConfig(), SystemClock())
        if trusted:
            assert await feeds.call(api.PING, b"ask", 10.0) == b"ask"
            call = await feeds._subscriptions.open(api.SUBSCRIBE.path)
            assert await call.read() == [b"update"]
            call.close()
        else:
            with pytest.raises(SourceRefused):
                await feeds.call(api.PING, b"ask", 10.0)
            with pytest.raises(CallFailed, match="SSLCertVerificationError"):
                await feeds._subscriptions.open(api.SUBSCRIBE.path)
        await feeds.close()
    await server.stop(0)


async def _pong(request: bytes, _: Any) -> bytes:
    return request


async def _pour(_: Any, context: Any) -> None:
    await context.write(b"update")
    await asyncio.Event().wait()
