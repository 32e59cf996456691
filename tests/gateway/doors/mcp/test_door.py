"""The MCP endpoint through the real door: the same bill as JSON-RPC, and the protocol's own manners."""

import asyncio
import base64
import json
import threading
from typing import Any

import pytest

from actors.gateway.calls.large_requests import SLICE_BYTES
from actors.gateway.doors.mcp import answers as mcp_answers
from actors.gateway.doors.mcp import messages as mcp_messages
from actors.upstream import replies
from actors.upstream.replies import made_error
from tests.gateway.doubles import TRANSACTION, ScriptedNode
from tests.gateway.payment_doubles import Desk, header_v2
from tests.gateway.test_short_way import Client
from tests.gateway.test_short_way_losses import until_lost
from tests.gateway.test_wire import post as post_bytes
from tests.gateway.test_wire import serving
from tests.gateway.world import Wallet, World, a_world, call
from tests.idempotency.memory_store import MemoryIdempotencyStore

VERSION = {"mcp-protocol-version": "2025-06-18"}


async def post(world: World, message: Any, wallet: Wallet | None = None, **headers: str) -> Any:
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if wallet is not None:
        sent["x-api-key"] = wallet.api_key
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    return await world.http.post("/mcp", content=content, headers=sent)


def request(method: str, id: Any = 0, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({"params": params} if params else {})


def tool(name: str, *params: Any, id: Any = 1, **more: Any) -> dict[str, Any]:
    return request("tools/call", id, name=name, arguments={"params": list(params)}, **more)


async def test_listing_is_free_and_needs_no_credential() -> None:
    """Decisions, "MCP credentials"; interface: initialize echoes the version."""
    async with a_world() as world:
        first = await post(world, request("initialize", protocolVersion="2025-03-26"))
        assert first.json()["result"]["protocolVersion"] == "2025-03-26" and first.json()["id"] == 0
        listed = await post(world, request("tools/list"), **VERSION)
        assert {"getBalance", "rpc"} <= {one["name"] for one in listed.json()["result"]["tools"]}
        assert (await post(world, request("ping"))).json()["result"] == {}
        noted = await post(world, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (noted.status_code, noted.content) == (202, b"")
        assert world.accounts.holds == [] and world.node.calls == []


async def test_a_tool_call_has_the_bill_and_the_headers_of_the_same_call() -> None:
    """Interface, "MCP": billed by the method's class, with credit and rate headers."""
    async with a_world() as world:
        customer = await world.customer(2_000)
        by_tool = await post(world, tool("getBlock", 5, id="abc"), customer, **VERSION)
        generic = request("tools/call", 2, name="rpc", arguments={"method": "getBlock", "params": [5]})
        by_generic = await post(world, generic, customer)
        by_rpc = await world.rpc(customer, call("getBlock", 5))
        assert by_tool.json()["id"] == "abc"
        assert by_tool.json()["result"]["structuredContent"] == {"result": by_rpc.json()["result"]}
        assert [one.headers["x-credits-remaining"] for one in (by_tool, by_generic, by_rpc)] == ["1975", "1950", "1925"]
        names = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"}
        assert names <= set(by_tool.headers)
        assert await world.debits(customer) == [("getBlock", 25)] * 3


async def test_refusals_keep_their_status_and_the_id_of_the_request() -> None:
    """Decisions, "MCP credentials": always a JSON-RPC error body, free, with its constant."""
    async with a_world() as world:
        poor, nobody = await world.customer(0), await world.customer(account=False)
        nobody.api_key = "0" * 64
        for wallet, status, constant in (
            (None, 402, "PAYMENT_REQUIRED"),
            (poor, 402, "INSUFFICIENT_CREDITS"),
            (nobody, 401, "AUTH_FAILED"),
        ):
            refused = await post(world, tool("getSlot", id=9), wallet)
            assert (refused.status_code, refused.json()["id"]) == (status, 9)
            assert refused.json()["error"]["data"]["constant"] == constant
        without = await post(world, tool("getSlot"))
        assert "payment-required" in without.headers and without.json()["error"]["data"]["x402"]["accepts"]
        rich = await world.customer(100)
        unknown = await post(world, tool("getNothing", id=3), rich)
        assert (unknown.status_code, unknown.json()["error"]["code"], unknown.json()["id"]) == (200, -32602, 3)
        wrong = await post(world, tool("getBalance", 5), rich)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (200, -32602)
        other = await post(world, request("resources/list"), rich)
        assert (other.status_code, other.json()["error"]["code"]) == (200, -32601)
        assert await world.balance(rich) == 100 and await world.debits(poor) == []


async def test_old_clients_can_be_refused_with_200() -> None:
    """Decisions, "MCP credentials": a switch of the operator. A 402 is then the x402 transport's result."""
    async with a_world(gateway={"mcp_refusals_as_200": True}) as world:
        poor = await world.customer(0)
        refused = await post(world, tool("getSlot", id=4), poor)
        assert (refused.status_code, refused.json()["error"]["code"], refused.json()["id"]) == (200, -32010, 4)
        offered = await post(world, tool("getSlot"))
        result = offered.json()["result"]
        assert offered.status_code == 200 and result["isError"] is True
        assert result["structuredContent"]["x402Version"] == 2
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


async def test_a_payment_in_meta_buys_its_call() -> None:
    """x402 transport over MCP: the payment object in, the receipt out; the payer's account is charged."""
    settler = Desk()
    async with a_world(desk=settler) as world:
        settler.world = world
        settler.payer = await world.customer()
        payment = json.loads(base64.b64decode(header_v2()))
        paid = await post(world, tool("getSlot", _meta={"x402/payment": payment}))
        assert paid.status_code == 200, paid.text
        receipt = paid.json()["result"]["_meta"]["x402/payment-response"]
        assert receipt["success"] is True and receipt["payer"] == settler.payer.text
        assert await world.debits(settler.payer) == [("getSlot", 1)]
        free = await post(world, tool("getNothing", _meta={"x402/payment": payment}))
        assert free.json()["error"]["code"] == -32602 and len(settler.paid) == 1


async def test_a_batch_of_the_older_version_bills_each_call() -> None:
    """Each tools/call by itself and once; free messages between them; no entry for a notification."""
    async with a_world() as world:
        customer = await world.customer(30)
        messages = [
            request("ping", "p"),
            tool("getSlot", id=1),
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            tool("getBlock", 5, id=2),
            tool("getBlock", 6, id=3),
            request("initialize", 4, protocolVersion="2025-03-26"),
        ]
        response = await post(world, messages, customer)
        found = {one["id"]: one for one in response.json()}
        assert list(found) == ["p", 1, 2, 3, 4]
        assert found[1]["result"]["isError"] is False and found[2]["result"]["isError"] is False
        assert found[3]["error"]["data"]["constant"] == "INSUFFICIENT_CREDITS"
        assert found[4]["error"]["code"] == -32600
        assert response.headers["x-credits-remaining"] == "4"
        assert await world.debits(customer) == [("getSlot", 1), ("getBlock", 25)]
        silent = await post(world, [{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        assert (silent.status_code, silent.content) == (202, b"")


async def test_a_batch_whose_calls_were_all_refused_for_their_rate_has_retry_after() -> None:
    """As on POST /; not where a free message of it was answered."""
    async with a_world(accounts={"requests_per_second": 1}) as world:
        customer = await world.customer(30)
        first, none, free = [
            await post(world, [tool("getSlot", id=1), *more], customer) for more in ([], [], [request("ping", 2)])
        ]
        assert "retry-after" not in first.headers and none.headers["retry-after"] == "1"
        assert none.json()[0]["error"]["data"]["retry_after_secs"] == 1 and "retry-after" not in free.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://App.example"}, 200),
        ({"content_type": "text/plain"}, 415),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": "*/*"}, 200),
        ({"mcp_protocol_version": "2024-11-05"}, 400),
    ],
)
async def test_the_transport_is_checked_first(headers: dict[str, str], status: int) -> None:
    """Threat 38: origins against rebinding; versions; types."""
    async with a_world(gateway={"mcp_origins": ["https://app.example"]}) as world:
        customer = await world.customer(10)
        response = await post(world, tool("getSlot"), customer, **headers)
        assert response.status_code == status
        assert await world.balance(customer) == (9 if status == 200 else 10)


async def test_no_header_line_hides_another_one_of_its_name() -> None:
    """Threat 38: a list of lines is judged whole."""
    kind = (b"content-type", b"application/json")
    async with a_world(gateway={"mcp_origins": ["https://app.example"]}) as world:
        origins = [(b"origin", b"https://evil.example"), (b"origin", b"https://app.example")]
        accepts = [(b"accept", b"application/json"), (b"accept", b"text/event-stream")]
        for lines, status in ((origins, 403), (origins[::-1], 403), (accepts, 200), (accepts[::-1], 200)):
            found = await world.http.post("/mcp", content=json.dumps(request("ping")), headers=[kind, *lines])
            assert found.status_code == status


async def test_there_are_no_streams_and_no_sessions() -> None:
    """Every TypeScript client tries GET once, and goes on after a 405."""
    async with a_world() as world:
        for method in ("GET", "DELETE"):
            response = await world.http.request(method, "/mcp")
            assert (response.status_code, response.headers["allow"]) == (405, "POST")
        answered = await post(world, request("initialize", protocolVersion="2025-06-18"))
        assert "mcp-session-id" not in answered.headers


async def test_an_error_of_the_node_reaches_the_model_and_is_billed_as_published() -> None:
    async with a_world() as world:
        customer = await world.customer(100)
        world.node.answer = lambda method, params: made_error(-32009, "Slot 5 was skipped", b"null")
        response = await post(world, tool("getBlock", 5), customer)
        result = response.json()["result"]
        assert result["isError"] is True and "skipped" in result["content"][0]["text"]
        assert await world.debits(customer) == [("getBlock", 25)]


async def test_a_key_makes_a_tool_call_happen_once() -> None:
    """Decisions, "Idempotency-Key"; a batch has no single answer to keep."""
    async with a_world(idempotency=MemoryIdempotencyStore()) as world:
        customer, send = await world.customer(100), tool("sendTransaction", TRANSACTION, {"encoding": "base64"})
        first, second = [await post(world, send, customer, idempotency_key="k") for _ in range(2)]
        assert first.json() == second.json() and second.headers["idempotent-replayed"] == "true"
        other = tool("sendTransaction", TRANSACTION, {"encoding": "base64", "skipPreflight": True})
        refused = await post(world, other, customer, idempotency_key="k")
        assert refused.status_code == 409 and "IDEMPOTENCY_KEY_REUSED" in refused.text
        batch = await post(world, [send, tool("getSlot", id=2)], customer, idempotency_key="k2")
        assert batch.status_code == 400 and "INVALID_REQUEST" in batch.text
        assert await world.debits(customer) == [("sendTransaction", 2)] and len(world.node.calls) == 1


@pytest.mark.parametrize("sent", [tool("getSlot"), [tool("getSlot")]], ids=["single", "batch"])
async def test_an_account_hears_of_a_large_answer_whose_client_left(monkeypatch: pytest.MonkeyPatch, sent: Any) -> None:
    """Threat 36: the charge stands, and its owner is told so, also while the answer is being encoded."""
    encoding, go_on = threading.Event(), threading.Event()

    def slowly(*_: Any) -> bytes:
        encoding.set()
        go_on.wait(10)
        return b"{}"

    monkeypatch.setattr(mcp_answers, "tool_result", slowly)
    large = replies.judge(b'{"jsonrpc":"2.0","result":"' + b"x" * (2 << 20) + b'","id":1}')
    async with a_world(ScriptedNode(lambda *_: large)) as world, serving(world.door, swift=True) as (server, port):
        customer = await world.customer(10)
        client = await Client.connect(port)
        body = json.dumps(sent).encode()
        client.send(post_bytes(customer.api_key, body, b"/mcp", b"content-type: application/json"))
        async with asyncio.timeout(10):
            while not encoding.is_set():  # noqa: ASYNC110  # It is set by a thread.
                await asyncio.sleep(0)
        client.writer.close()
        await until_lost(server)
        go_on.set()
        (charged,) = [settle.operation for settle in world.accounts.settles if settle.charged]
        assert world.accounts.delivered_operations == [charged]
        assert await world.debits(customer) == [("getSlot", 1)]


async def test_the_bytes_of_free_lists_are_limited_and_a_known_customer_goes_on() -> None:
    """Threat 60: an address gets 8 MiB at once and 1 MiB a second; then customers have bytes of their own."""
    async with a_world() as world:
        customer = await world.customer(100)
        await post(world, tool("getSlot"), customer)
        given = 0
        while (listed := await post(world, request("tools/list"), **VERSION)).status_code == 200:
            given += len(listed.content)
        assert 7 << 20 < given <= 8 << 20
        assert listed.json()["error"]["data"]["constant"] == "RATE_LIMITED"
        assert int(listed.headers["retry-after"]) >= 1 and listed.json()["id"] == 0
        (item,) = (await post(world, [request("tools/list")])).json()
        assert item["error"]["data"]["constant"] == "RATE_LIMITED"
        assert (await post(world, request("tools/list"), customer, **VERSION)).status_code == 200
        assert (await post(world, tool("getSlot"), customer)).status_code == 200
        world.clock.advance(1)
        assert (await post(world, request("tools/list"), **VERSION)).status_code == 200


async def test_a_large_batch_with_a_limit_is_checked_in_slices_and_counts_by_its_cost() -> None:
    """Threat 61: X-Max-Credits had 100 transactions verified in one step, and they counted as cheap refusals."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        batch = [tool("sendTransaction", TRANSACTION, {"encoding": "base64"}, id=number) for number in range(100)]
        sent = {"mcp-protocol-version": "2025-03-26", "x-max-credits": "199"}
        asked = asyncio.ensure_future(post(world, batch, customer, **sent))
        rounds = 0
        while not asked.done():
            await asyncio.sleep(0)
            rounds += 1
        told = (await asked).json()
        assert {one["error"]["data"]["constant"] for one in told} == {"MAX_CREDITS_EXCEEDED"}
        assert rounds > sum(len(json.dumps(one["params"]["arguments"])) for one in batch) // (2 * SLICE_BYTES)
        again = await post(world, batch, customer, **sent)
        assert again.status_code == 429 and await world.debits(customer) == []
        world.clock.advance(1)
        within = await post(world, batch, customer, **(sent | {"x-max-credits": "200"}))
        assert within.headers["x-credits-cost"] == "200"


@pytest.mark.threat(60)
async def test_a_batch_from_an_address_that_waits_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 60: who has had too many messages refused is told to wait, and its next batch is not parsed; customers of
    the same address, and calls of strangers that may bring a payment, are read as before."""
    async with a_world(gateway={"address_refusals_per_second": 5}) as world:
        customer = await world.customer(10)
        await post(world, tool("getSlot"), customer)
        assert (await post(world, [request("noSuchMethod")] * 5)).status_code == 200
        assert (await post(world, [tool("getSlot")], customer)).status_code == 200
        assert (await post(world, request("ping"))).status_code == 200
        monkeypatch.setattr(mcp_messages, "parse", None)
        waiting = await post(world, [request("tools/list")])
        assert (waiting.status_code, waiting.json()["error"]["data"]["constant"]) == (429, "RATE_LIMITED")
