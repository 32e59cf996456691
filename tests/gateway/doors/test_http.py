"""The HTTP door over the real owner of accounts: the interface, rule by rule."""

import asyncio
import json
import logging

import httpx
import pytest

from actors.gateway.doors.http import HttpDoor, endpoints
from actors.gateway.doors.parts import Dependencies
from actors.pages import Page, PageAnswer, PageRequest
from actors.telemetry.logs import name_request
from actors.upstream import replies
from tests.gateway.doubles import ScriptedNode, counted
from tests.gateway.world import Pages, a_world, call, constant
from tests.ported_node import node_result


async def test_request_ids_are_our_own_and_differ():
    """A client's id is neither trusted nor repeated."""
    async with a_world() as world:
        customer = await world.customer(10)
        ids = {(await world.rpc(customer, call(), **{"x-request-id": "a b"})).headers["x-request-id"] for _ in range(3)}
        assert len(ids) == 3
        assert "a b" not in ids


async def test_an_replica_of_ours_may_make_the_ids():
    """Where a layer outside sets the id on request and answer, bodies carry that id and the header is not doubled."""
    async with a_world() as world:
        customer = await world.customer(10)
        dependencies = Dependencies(
            world.config, world.accounts, world.node, world.identity_store, Pages(), world.clock, ids_from_serve=True
        )
        transport = httpx.ASGITransport(HttpDoor(dependencies))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as http:
            headers = {"x-api-key": customer.api_key, "x-request-id": "serve-7"}
            response = await http.post("/", json=call("nope"), headers=headers)
        assert response.json()["error"]["data"]["requestId"] == "serve-7"
        assert "x-request-id" not in response.headers


async def test_a_fault_of_ours_is_500_with_an_id_and_without_its_text(caplog):
    """The client learns an id to ask about, the log the rest; the hold is let go."""

    def broken(method: str, params: bytes) -> replies.NodeAnswer:
        raise ZeroDivisionError("secret detail")

    async with a_world(ScriptedNode(broken)) as world:
        customer = await world.customer(10)
        with caplog.at_level(logging.ERROR):
            response = await world.rpc(customer, call())
        assert (response.status_code, constant(response)) == (500, "INTERNAL_ERROR")
        assert response.json()["error"]["requestId"] == response.headers["x-request-id"]
        assert "secret detail" not in response.text
        assert response.headers["x-request-id"] in caplog.text
        await world.door.close()
        assert await world.balance(customer) == 10


async def test_every_log_line_of_a_request_and_its_hold_have_the_id_of_its_answer(caplog):
    """Two at once: each line, from however deep below the door, names its own request; and so the owner can."""
    caplog.handler.addFilter(name_request)

    def answers(method: str, params: bytes) -> replies.NodeAnswer:
        logging.getLogger("deep below").warning("the node is asked")
        return node_result(1)

    try:
        async with a_world(ScriptedNode(answers)) as world:
            customer = await world.customer(10)
            given = await asyncio.gather(*(world.rpc(customer, call()) for _ in range(2)))
            ids = {response.headers["x-request-id"] for response in given}
            assert len(ids) == 2
            assert {line.request_id for line in caplog.records if line.name == "deep below"} == ids
            assert {hold.request_id for hold in world.accounts.holds if hold.items} == ids
    finally:
        caplog.handler.removeFilter(name_request)


async def test_browsers_may_call_from_anywhere():
    """CORS on answers to a browser, and on its preflight."""
    async with a_world() as world:
        customer = await world.customer(10)
        for response in (
            await world.rpc(customer, call(), origin="https://dapp.example"),
            await world.rpc(None, call(), origin="https://dapp.example"),
            await world.http.options("/rpc", headers={"origin": "https://dapp.example"}),
        ):
            assert response.headers.get_list("access-control-allow-origin") == ["*"]
        assert response.status_code == 204
        assert "x-api-key" in response.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-origin" not in (await world.rpc(customer, call())).headers


async def test_websockets_are_closed_with_a_clear_no():
    """What is not built is refused, not left hanging."""
    async with a_world() as world:
        sent = []

        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            sent.append(message)

        await world.door({"type": "websocket", "path": "/ws", "headers": []}, receive, send)
        assert [message["type"] for message in sent] == ["websocket.close"]


async def test_refusals_are_counted_by_their_constant_wherever_they_are_made():
    """Figures for operators: a whole request's refusal, a call's, two of a batch, a page's, a list's; nothing that a
    caller wrote."""
    async with a_world() as world:
        wallet = await world.customer(credits=10)
        await world.rpc(None, call())
        await world.rpc(wallet, call("invented"))
        await world.rpc(wallet, [call("invented"), call(), call("requestAirdrop")])
        await world.http.get("/invented")
        await world.http.post("/bulk/getBalances", content=b"no JSON", headers={"x-api-key": wallet.api_key})
        assert counted(world.metrics, "refusals", "error") == {
            "PAYMENT_REQUIRED": 1,
            "METHOD_NOT_FOUND": 2,
            "METHOD_NOT_ALLOWED": 1,
            "NOT_FOUND": 1,
            "INVALID_REQUEST": 1,
        }


@pytest.mark.parametrize("endpoint", endpoints(relay=True))
async def test_every_endpoint_of_the_list_is_served_by_that_http_method_alone(endpoint):
    """GET /capabilities is made of this list."""
    method, path = endpoint.split(" ")
    async with a_world() as world:
        served = await world.http.request(method, path)
        other = await world.http.request("PUT", path)
        assert served.status_code != 404
        if path == "/mcp":  # The protocol of agents has a status of its own for this.
            assert (other.status_code, other.headers["allow"]) == (405, method)
        else:
            assert (other.status_code, constant(other)) == (405, "WRONG_HTTP_METHOD")
            assert f"answers to {method}" in other.text


def test_confirm_deposit_is_in_the_list_of_endpoints():
    assert "POST /account/confirm-deposit" in endpoints(relay=False)


# --- manners


@pytest.mark.parametrize(
    "content_type", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"]
)
async def test_a_body_of_another_type_is_refused_for_free_on_every_path(content_type):
    """As a node refuses it. Who names no type, or only bytes, is taken at the body."""
    async with a_world() as world:
        customer = await world.customer(10)
        body = json.dumps(call()).encode()
        key = {"x-api-key": customer.api_key}
        for path in ("/", "/rpc", "/mcp", "/quote", "/bulk/getBalances", "/auth/challenge", "/account/confirm-deposit"):
            refused = await world.http.post(path, content=body, headers=key | {"content-type": content_type})
            assert (refused.status_code, constant(refused)) == (415, "UNSUPPORTED_MEDIA_TYPE")
            assert "application/json" in refused.text and "connection" not in refused.headers
        assert await world.debits(customer) == []
        for named in ({}, {"content-type": ""}, {"content-type": "application/octet-stream"}):
            assert "result" in (await world.http.post("/", content=body, headers=key | named)).json()
        # No body, no type of it.
        empty = await world.http.post("/account/api-key", headers={"content-type": content_type})
        assert empty.status_code != 415


async def test_a_page_is_compressed_for_whoever_takes_it_and_its_head_says_so():
    """GET and HEAD agree; the content is the same whatever the coding."""
    page = Page("GET", "/docs", served(b"x" * 5_000), is_public=True, is_limited=False)
    async with a_world(pages=[page]) as world:
        for coding in ("gzip", "zstd"):
            got = await world.http.get("/docs", headers={"accept-encoding": coding})
            assert (got.headers["content-encoding"], got.content) == (coding, b"x" * 5_000)
            assert int(got.headers["content-length"]) < 500 and got.headers["vary"] == "accept-encoding"
            head = await world.http.head("/docs", headers={"accept-encoding": coding})
            assert head.headers["content-encoding"] == coding and "content-length" not in head.headers
        plain = await world.http.get("/docs", headers={"accept-encoding": "br;q=1, gzip;q=0"})
        assert "content-encoding" not in plain.headers and plain.headers["content-length"] == "5000"
        head = await world.http.head("/docs", headers={"accept-encoding": "identity"})
        assert head.headers["content-length"] == "5000"


def served(body: bytes):
    async def handler(_: PageRequest) -> PageAnswer:
        return PageAnswer(body, content_type="text/html")

    return handler
