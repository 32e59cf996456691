from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from devnode.faults.plan import read_plan
from devnode.rpc.asgi import Reply, Scope
from devnode.rpc.http import BODY_BYTES_MAX, HttpDoor
from tests.devnode.local_node import LocalNode


def echo(scope: Scope, body: bytes) -> Reply:
    return Reply(200, body)


@pytest.fixture
def client(local: LocalNode) -> Iterator[httpx.AsyncClient]:
    door = HttpDoor(local.dispatcher, local.node.health, {("POST", "/admin/echo"): echo})
    transport = httpx.ASGITransport(app=door)  # type: ignore[arg-type]
    yield httpx.AsyncClient(transport=transport, base_url="http://node")


async def test_calls_are_answered_as_json(client: httpx.AsyncClient) -> None:
    reply = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "getHealth"})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json()["result"] == "ok"
    assert reply.headers["access-control-allow-origin"] == "*"


async def test_a_notification_gets_an_empty_body(client: httpx.AsyncClient) -> None:
    reply = await client.post("/", json={"jsonrpc": "2.0", "method": "getHealth"})
    assert (reply.status_code, reply.content) == (200, b"")


async def test_health_in_words(client: httpx.AsyncClient, local: LocalNode) -> None:
    """GET /health answers one of Agave's three words: load balancers compare the text."""
    assert (await client.get("/health")).text == "ok"
    local.node.faults.set(read_plan({"node": {"unhealthy": True}}))
    assert (await client.get("/health")).text == "unknown"
    local.node.faults.set(read_plan({"node": {"lag_slots": 129}}))
    assert (await client.get("/health")).text == "behind"


async def test_large_bodies_are_refused_whole_or_in_pieces(client: httpx.AsyncClient) -> None:
    assert (await client.post("/", content=b" " * (BODY_BYTES_MAX + 1))).status_code == 413

    async def pieces() -> Any:
        for _ in range(60):
            yield b" " * 1_024

    assert (await client.post("/", content=pieces())).status_code == 413


async def test_pieces_are_put_together(client: httpx.AsyncClient) -> None:
    async def pieces() -> Any:
        yield b'{"jsonrpc":"2.0","id":1,'
        yield b'"method":"getHealth"}'

    assert (await client.post("/", content=pieces())).json()["result"] == "ok"


async def test_other_paths_and_verbs(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).status_code == 405
    assert (await client.get("/nowhere")).status_code == 404
    assert (await client.get("/admin/echo")).status_code == 405
    assert (await client.options("/")).status_code == 204


async def test_other_routes_are_not_open_to_web_pages(client: httpx.AsyncClient) -> None:
    reply = await client.post("/admin/echo", content=b"x")
    assert reply.content == b"x" and "access-control-allow-origin" not in reply.headers


async def test_websocket_without_a_door_is_closed(local: LocalNode) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await HttpDoor(local.dispatcher, local.node.health, {})({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
