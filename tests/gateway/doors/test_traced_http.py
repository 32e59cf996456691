"""One call's trace from the client's traceparent to the node, over the real link to the owner of the account, as a real
collector gets it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from actors.accounts.holders_store import RouteTable
from actors.accounts.host import serve_links
from actors.accounts.traced_client import TracedAccounts
from actors.config import TelemetryConfig, UpstreamConfig
from actors.gateway.doors.parts import Dependencies
from actors.gateway.doors.traced_http import TracedHttpDoor
from actors.telemetry.tracing import Tracing
from actors.units import VIRTUAL_SHARDS
from actors.upstream.traced_node import TracedNode
from tests.gateway.test_wire import serving
from tests.gateway.world import Pages, Wallet, a_world, call
from tests.telemetry.collector import NOT_SAMPLED, SAMPLED, Collector, a_collector
from tests.upstream.nodes import RawNode, running

_REPLICA = b"replica0"


class Handle:
    """The actor of the owner, as replicas reach it beside the link."""

    def __init__(self, port: int) -> None:
        self._told = {"address": ("127.0.0.1", port), "routes": RouteTable(bytes(VIRTUAL_SHARDS), (1,))}

    def __getattr__(self, name: str) -> Any:
        async def remote(*_: Any) -> Any:
            return self._told[name]

        return type("Method", (), {"remote": staticmethod(remote)})


class Scene:
    """A replica and an owner that trace, in one process; a node; a customer."""

    url: str
    node: RawNode
    customer: Wallet
    collector: Collector

    async def call(self, path: str = "/", **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.url) as http:
            return await http.post(path, json=call(), headers={"x-api-key": self.customer.api_key, **headers})


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    async with AsyncExitStack() as stack:
        made.collector = collector = await stack.enter_async_context(a_collector())
        made.node = await stack.enter_async_context(running(RawNode()))
        world = await stack.enter_async_context(a_world())
        made.customer = await world.customer(100)
        config = TelemetryConfig(traces_url=collector.url, traced_per_10000=0)
        ours, owners = (Tracing(config, name, lambda: 1.0, lambda: 0.5) for name in ("gateway-1", "account-shard-0"))
        assert world.config.storage.cluster_secret is not None
        secret = world.config.storage.cluster_secret.get_secret_value().encode()
        links = serve_links(world.shard, secret, tracing=owners)
        handle = Handle(await links.start("127.0.0.1"))
        accounts = TracedAccounts(world.config, _REPLICA, ours, lambda _: handle)
        accounts.start()
        await accounts.connected()
        node = TracedNode(UpstreamConfig(), made.node.url, "n1", None, ours)
        parts = Dependencies(
            world.config, accounts, node, world.identity_store, Pages(), world.clock, replica_id=_REPLICA
        )
        door = TracedHttpDoor(parts, ours)
        stack.push_async_callback(owners.close)
        stack.push_async_callback(links.stop)
        stack.push_async_callback(accounts.stop)
        stack.push_async_callback(door.close)
        stack.push_async_callback(node.close)
        _, port = await stack.enter_async_context(serving(door, swift=True))
        made.url = f"http://127.0.0.1:{port}"
        yield made


def texts(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


async def test_a_traced_call_is_one_trace_from_its_client_to_the_node(scene: Scene) -> None:
    """Door, hold, owner, node, settle, group commit: each with its parent; the node gets its own step's id."""
    response = await scene.call(traceparent=SAMPLED, **{"x-secret": "never told"})
    assert response.status_code == 200
    found = await scene.collector.received(6)
    assert {name: process for name, (process, _) in found.items()} == {
        "call": "gateway-1",
        "hold": "gateway-1",
        "node": "gateway-1",
        "settle": "gateway-1",
        "owner: hold": "account-shard-0",
        "owner: settle and commit": "account-shard-0",
    }
    _, trace, parent, _ = SAMPLED.split("-")
    door = found["call"][1]
    assert {span.trace_id.hex() for _, span in found.values()} == {trace}
    assert door.parent_span_id.hex() == parent
    assert {span.parent_span_id for _, span in found.values() if span is not door} == {door.span_id}
    told = texts(door)
    assert told == {
        "http.request.method": "POST",
        "url.path": "/",
        "http.response.status_code": 200,
        "request_id": response.headers["x-request-id"],
    }
    assert texts(found["owner: hold"][1])["request_id"] == told["request_id"]
    assert texts(found["node"][1]) == {"rpc.method": "getSlot", "node": "n1", "answer": "RESULT"}
    head = scene.node.exchanges[0].head.decode()
    assert f"\r\ntraceparent: 00-{trace}-{found['node'][1].span_id.hex()}-01\r\n" in head


async def test_a_call_that_is_not_traced_leaves_nothing(scene: Scene) -> None:
    """Not at the collector, and not in the request to the node. Then a page's trace shows that others arrive."""
    for headers in ({}, {"traceparent": NOT_SAMPLED}):
        assert (await scene.call(**headers)).status_code == 200
    assert all(b"traceparent" not in exchange.head for exchange in scene.node.exchanges)
    refused = await scene.call("/nowhere?api-key=srpc_live_secret", traceparent=SAMPLED)
    assert refused.status_code == 404
    found = await scene.collector.received(1)
    assert texts(found["request"][1]) == {
        "http.request.method": "POST",
        "url.path": "/nowhere",
        "http.response.status_code": 404,
        "request_id": refused.headers["x-request-id"],
    }


async def test_calls_at_once_have_traces_of_their_own(scene: Scene) -> None:
    others = [SAMPLED.replace("0af7", f"{number:04x}") for number in range(1, 4)]
    await asyncio.gather(*(scene.call(traceparent=one) for one in others))
    async with asyncio.timeout(30):
        while len(scene.collector.spans) < 18:
            await scene.collector.more()
    by_trace: dict[str, int] = {}
    for _, span in scene.collector.spans:
        by_trace[span.trace_id.hex()] = by_trace.get(span.trace_id.hex(), 0) + 1
    assert by_trace == {one.split("-")[1]: 6 for one in others}
