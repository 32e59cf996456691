"""The edge of a real run: HTTPS, HTTP/2 and WSS through both HAProxies to real replicas, and an edge that is killed.

Rules: design, "Outside face"; threat 49. The limits of the edge itself: tests/launch/front/test_tls_edge.py.
"""

import asyncio
import json
import os
import signal
import ssl
from typing import Any

import httpx
import pytest
import redis
from websockets.asyncio.client import connect

from bench.product import Product
from tests.cluster.test_faults import eventually
from tests.cluster.test_front import almost_used_up
from tests.customers import Customer, rpc_body

_BACK_SECONDS = 30.0
_CALLS = 100
_CALL = rpc_body("getSlot")


def client(product: Product, source: str = "127.0.0.1", *, is_http_2: bool = False) -> httpx.AsyncClient:
    """A client of the edge at this address of the machine, which trusts the run's own authority."""
    trusting = ssl.create_default_context(cafile=product.ready["tls_ca_file"])
    transport = httpx.AsyncHTTPTransport(
        verify=trusting, http1=not is_http_2, http2=is_http_2, local_address=source, limits=httpx.Limits()
    )
    return httpx.AsyncClient(transport=transport, base_url=product.ready["https_url"], timeout=60)


@pytest.mark.parametrize("is_http_2", [False, True])
async def test_calls_over_https_are_billed_as_over_http(product: Product, is_http_2: bool) -> None:
    """A hundred calls at once, with HTTP/2 on one connection; a refusal keeps its status and its terms of payment."""
    customer = Customer(product)
    customer.grant(1_000)
    customer.limits(10_000, 1_000)  # An account usually has 64 calls under way, and 100 in a second.
    async with client(product, is_http_2=is_http_2) as edge:
        answers = [await edge.post("/", content=_CALL, headers=customer.key_headers)]
        answers += await asyncio.gather(
            *(edge.post("/rpc", content=_CALL, headers=customer.key_headers) for _ in range(_CALLS - 1))
        )
        refused = await edge.post("/", content=_CALL)
    assert {answer.http_version for answer in answers} == {"HTTP/2" if is_http_2 else "HTTP/1.1"}
    assert [answer.text for answer in answers if answer.status_code != 200 or "result" not in answer.json()] == []
    left = [int(answer.headers["x-credits-remaining"]) for answer in answers]
    assert (min(left), customer.balance) == (1_000 - _CALLS, 1_000 - _CALLS)
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, -32002)
    assert refused.headers["payment-required"]


async def test_a_websocket_over_tls(product: Product) -> None:
    """WSS at every path of WebSockets: calls and notifications; a new key ends the socket with its close code."""
    customer = Customer(product)
    customer.grant(1_000)
    trusting = ssl.create_default_context(cafile=product.ready["tls_ca_file"])
    origin = product.ready["wss_url"].removesuffix("/ws")
    opened = [
        await connect(origin + path, ssl=trusting, additional_headers={"X-Api-Key": customer.api_key})
        for path in ("/ws", "/", "/rpc")
    ]
    for socket in opened:
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "slotSubscribe"}))
        said: list[Any] = []
        async with asyncio.timeout(30):
            while len(said) < 3:
                said.append(json.loads(await socket.recv()))
        assert [message.get("method") for message in said] == [None, "slotNotification", "slotNotification"]
    customer.new_api_key()
    async with asyncio.timeout(30):
        for socket in opened:
            await socket.wait_closed()
    assert {socket.close_code for socket in opened} == {4001}


@pytest.mark.parametrize("is_http_2", [False, True])
@pytest.mark.threat(49)
async def test_limits_of_an_address_hold_behind_tls(product: Product, counted: redis.Redis, is_http_2: bool) -> None:
    """Threat 49: whoever comes over TLS is counted under the address of its own connection to the edge, whatever
    its headers say; a forged header neither spends another's allowance nor brings a fresh one."""
    stranger, others = "127.0.0.2", "127.0.0.1"
    customer = Customer(product)
    almost_used_up(counted, stranger)
    almost_used_up(counted, f"without credentials {stranger}")

    def forged(address: str) -> dict[str, str]:
        names = ("X-Forwarded-For", "X-Real-IP", "X-Front-Peer", "Forwarded", "X-Client-IP", "CF-Connecting-IP")
        return {name: f"for={address}" if name == "Forwarded" else address for name in names}

    async with (
        client(product, stranger, is_http_2=is_http_2) as used_up,
        client(product, others, is_http_2=is_http_2) as fresh,
    ):
        for number in range(61):
            answer = await used_up.get("/account/info", headers=forged(others if number % 2 else f"203.0.113.{number}"))
            assert answer.status_code == (402 if number < 60 else 429), number
        assert int(answer.headers["retry-after"]) > 0
        for _ in range(3):
            answer = await fresh.get("/account/info", headers=forged(stranger) | customer.key_headers)
            assert (answer.status_code, answer.json()["pubkey"]) == (200, customer.pubkey)


@pytest.mark.kills
async def test_a_killed_edge_comes_back(product: Product) -> None:
    """kill -9: the plain port goes on meanwhile, and TLS clients are served again by themselves, with the same
    certificate."""
    customer = Customer(product)
    customer.grant(100)
    (pid,) = product.running("edge.cfg")
    os.kill(pid, signal.SIGKILL)
    assert customer.call("getSlot").status == 200

    trusting = ssl.create_default_context(cafile=product.ready["tls_ca_file"])

    def served() -> bool:
        with httpx.Client(verify=trusting, base_url=product.ready["https_url"]) as edge:
            try:
                return edge.post("/", content=_CALL, headers=customer.key_headers).status_code == 200
            except httpx.TransportError:
                return False

    assert eventually(served, _BACK_SECONDS)
    (again,) = product.running("edge.cfg")
    assert again != pid
