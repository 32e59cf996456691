"""WebSockets on the real product: through the front, over the hub, and when a replica is killed."""

import asyncio
import json
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bench.product import Product
from tests.customers import Customer, request
from tests.raw_sockets import Line
from tests.stream_checks.websocket_faults import same_updates
from tests.stream_checks.websocket_kills import killed

_ANSWER_SECONDS = 30


def _url(product: Product, path: str = "/ws") -> str:
    return product.http_url.replace("http", "ws", 1) + path


def _socket(product: Product, customer: Customer) -> Any:
    return connect(_url(product), additional_headers={"X-Api-Key": customer.api_key}, compression=None)


async def _ask(socket: ClientConnection, method: str, *params: Any) -> Any:
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    while True:
        said = await _hear(socket)
        if said.get("id") == 1:
            return said


async def _hear(socket: ClientConnection) -> Any:
    async with asyncio.timeout(_ANSWER_SECONDS):
        return json.loads(await socket.recv())


async def _close_code(socket: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await _hear(socket)
    return None if closed.value.rcvd is None else closed.value.rcvd.code


async def test_a_socket_through_the_front(product: Product) -> None:
    """Handshake, subscription, notifications, plain calls; the capabilities say so, and refusals are close codes."""
    customer = Customer(product)
    customer.grant(1_000)
    capabilities = request(f"{product.http_url}/capabilities", {}).body
    assert capabilities["service_profile"]["services"]["websocket"] is True
    for path in ("/ws", "/", "/rpc"):
        async with connect(_url(product, path)) as nobody:
            assert await _close_code(nobody) == 4002
    async with _socket(product, customer) as socket:
        number = (await _ask(socket, "slotSubscribe"))["result"]
        slots = []
        while len(slots) < 3:
            said = await _hear(socket)
            assert said["params"]["subscription"] == number
            slots.append(said["params"]["result"]["slot"])
        assert slots == sorted(set(slots))
        assert "result" in await _ask(socket, "getSlot")
        customer.new_api_key()
        assert await _close_code(socket) == 4001


async def test_a_balance_below_ten_ends_the_socket(product: Product) -> None:
    """Row 31, within about a second."""
    customer = Customer(product)
    customer.grant(16)
    async with _socket(product, customer) as socket:
        # Nothing changes this account, so the calls alone spend credits.
        assert "result" in await _ask(socket, "accountSubscribe", customer.pubkey)
        assert "result" in await _ask(socket, "getSlot")  # 10 credits are left.
        assert "result" in await _ask(socket, "getSlot")
        assert await _close_code(socket) == 4002


@pytest.mark.kills
@pytest.mark.threat(43)
async def test_a_killed_replica_costs_no_client_an_event(product: Product) -> None:
    """Clients that connect and subscribe again, and ask for what came in between, know all that happened; what was
    delivered and not posted is at most 50 credits of an account. `python -m bench stream-kills` does it with 500."""
    customers = [Customer(product) for _ in range(2)]
    for customer in customers:
        customer.grant(100_000)
    found = await killed(product, customers, streams=30)
    assert found["lost their connection"] > 0, found


async def test_the_same_updates_as_from_the_node_with_connections_cut(product: Product) -> None:
    """None missing, none extra, every gap declared; `python -m bench stream-faults` is the long run of this."""
    found = await same_updates(product, seconds=12, seed=7)
    assert found["cuts"] > 0 and found["gaps"] > 0 and found["the same"] > 150, found


def _frame(opcode: int, data: bytes = b"", masked: bool = True) -> bytes:
    return bytes([0x80 | opcode, (0x80 if masked else 0) | len(data)]) + (bytes(4) if masked else b"") + data


async def _opened(product: Product, customer: Customer) -> Line:
    """A raw socket whose handshake is over."""
    line = Line(product.ports.http)
    head = (
        "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        f"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nx-api-key: {customer.api_key}\r\n\r\n"
    )
    await line.says(head.encode())
    assert (await line.hears(until=b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    return line


@pytest.mark.threat(30)
async def test_clients_that_never_read_cost_bounded_memory(product: Product) -> None:
    """Fifty sockets that ask for answers and read none: the replicas stay as they were, and others are served."""
    customer = Customer(product)
    customer.grant(100_000)
    customer.limits(100_000, 10_000)
    replicas = [psutil.Process(pid) for pid in product.running("ray::ServeReplica")]
    before = sum(process.memory_info().rss for process in replicas)
    lines = [await _opened(product, customer) for _ in range(50)]
    subscribe = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "slotsUpdatesSubscribe"}).encode()
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getGenesisHash"}).encode()
    for _ in range(5):
        for line in lines:
            await line.says(_frame(1, subscribe), *[_frame(1, call)] * 20, pause_seconds=0)
        await asyncio.sleep(1)
    grown = sum(process.memory_info().rss for process in replicas) - before
    assert grown < 100 << 20, f"{grown >> 20} MiB"
    assert customer.call("getSlot").status == 200
    for line in lines:
        line.close()
