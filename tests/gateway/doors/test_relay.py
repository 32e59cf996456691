"""The door for bundles: what it refuses for free, and what it offers without a block engine."""

import pytest

from actors.gateway.doors.relay import PATHS
from actors.methods.prices import RELAY
from actors.upstream import replies
from tests.gateway.doubles import ScriptedNode
from tests.gateway.payment_doubles import Desk, header_v2
from tests.gateway.world import a_world, call, constant

POSTS = [path.decode() for path, row in PATHS.items() if row.verb == "POST"]


@pytest.mark.parametrize("path", POSTS)
async def test_a_body_that_is_no_call_of_this_path_is_free(path):
    """Each in the form of the JSON-RPC door, with the account's figures."""
    node = ScriptedNode()
    async with a_world(node, relay=True) as world:
        wallet = await world.customer(100)
        for body, status, name in (
            (b"no JSON", 400, "INVALID_REQUEST"),
            ([call("sendBundle", ["AA=="])], 400, "INVALID_REQUEST"),
            (call("getBalance", wallet.text), 200, "METHOD_NOT_FOUND"),
            (call(next(iter(PATHS[path.encode()].methods)), 7), 200, "INVALID_PARAMS"),
        ):
            response = await world.rpc(wallet, body, path)
            assert (response.status_code, constant(response)) == (status, name), body
            assert response.headers["x-credits-remaining"] == "100"
        assert node.calls == [] and await world.balance(wallet) == 100


async def test_the_catalogs_price_is_held_for_each():
    """An account with less gets 402 with terms, and nothing is asked."""
    asks = {"getBundleStatuses": [["a"]], "getInflightBundleStatuses": [["a"]], "getTipAccounts": []}
    async with a_world(relay=True) as world:
        for row in RELAY:
            if row.method in asks:
                wallet = await world.customer(row.credits)
                body = call(row.method, *asks[row.method])
                assert (await world.rpc(wallet, body, "/relay/bundles")).headers["x-credits-remaining"] == "0"
                refused = await world.rpc(wallet, body, "/relay/bundles")
                assert (refused.status_code, constant(refused)) == (402, "INSUFFICIENT_CREDITS")
                assert await world.debits(wallet) == [(row.name, row.credits)]


async def test_without_credentials_the_terms_are_told():
    async with a_world(relay=True) as world:
        for response in (
            await world.http.get("/relay/tipFloor"),
            await world.rpc(None, call("getTipAccounts"), "/relay/bundles"),
        ):
            assert response.status_code == 402 and "payment-required" in response.headers


async def test_without_a_block_engine_nothing_is_sold():
    """The JSON-RPC method says so as every method that is not enabled does."""
    node = ScriptedNode()
    async with a_world(node) as world:
        wallet = await world.customer(100)
        for path in ("/relay/sendBundle", "/rpc"):
            response = await world.rpc(wallet, call("sendBundle", ["AA=="]), path)
            assert response.json()["error"]["code"] == -32004
        got = await world.http.get("/relay/tipFloor", headers={"x-api-key": wallet.api_key})
        assert (got.status_code, constant(got)) == (404, "NOT_FOUND")
        assert node.calls == [] and await world.balance(wallet) == 100


@pytest.mark.parametrize("word", ["monotonic", "linear", ""])
async def test_a_wish_for_a_view_is_refused_rather_than_passed_over(word):
    """Decisions, "Monotonic reads": by name, before any charge and any payment; `any` asks for nothing."""
    node, desk = ScriptedNode(lambda *_: replies.made(b"[]")), Desk()
    async with a_world(node, desk=desk, relay=True) as world:
        desk.world, desk.payer = world, await world.customer(100)
        key, asks = {"x-api-key": desk.payer.api_key}, {"x-consistency": word}
        for verb, path in (("GET", "/relay/tipFloor"), ("HEAD", "/relay/tipFloor"), ("POST", "/relay/bundles")):
            body = {"json": call("getTipAccounts")} if verb == "POST" else {}
            refused = await world.http.request(verb, path, headers=asks | key, **body)
            assert (refused.status_code, refused.headers["x-credits-remaining"]) == (400, "100")
            assert verb == "HEAD" or (constant(refused) == "INVALID_REQUEST" and "X-Consistency" in refused.text)
            unpaid = await world.http.request(verb, path, headers=asks | {"payment-signature": header_v2()}, **body)
            assert unpaid.status_code == 402 and "payment-response" not in unpaid.headers
            assert node.calls == [] and desk.paid == []
            taken = await world.http.request(verb, path, headers=key | {"x-consistency": "any"}, **body)
            assert taken.status_code == 200
            node.calls.clear()
            desk.payer = await world.customer(100)
            key = {"x-api-key": desk.payer.api_key}


async def test_a_head_of_a_paid_page_costs_nothing_and_asks_nothing():
    """It has the headers of the GET but for the length, which nobody knows; its credential is proven as ever, and
    neither is for a cache that others share."""
    node = ScriptedNode(lambda *_: replies.made(b"[]"))
    async with a_world(node, relay=True) as world:
        for path in (path for path, row in PATHS.items() if row.verb == "GET"):
            wallet = await world.customer(2)
            key = {"x-api-key": wallet.api_key}
            got, head = [await world.http.request(verb, path.decode(), headers=key) for verb in ("GET", "HEAD")]
            assert got.status_code == head.status_code == 200 and head.headers["x-credits-remaining"] == "1"
            assert "no-store" in got.headers["cache-control"]
            for name in ("content-type", "x-ratelimit-limit", "cache-control"):
                assert head.headers[name] == got.headers[name]
            assert head.headers["x-credits-cost"] == "0" and "content-length" not in head.headers
            assert "x-receipt" not in head.headers
            assert [credits for _, credits in await world.debits(wallet)] == [1]
            assert (await world.http.head(path.decode(), headers={"x-api-key": "no"})).status_code == 401
            assert (await world.http.head(path.decode())).status_code == 402
        assert len(node.calls) == 2
    async with a_world() as world:
        wallet = await world.customer(2)
        assert (await world.http.head("/relay/tipFloor", headers={"x-api-key": wallet.api_key})).status_code == 404


async def test_a_payment_that_comes_with_a_head_is_not_settled():
    """x402 conformance, R16 and R17: a HEAD delivers nothing, so it is told the terms, and the payment is still good
    for a GET, whose answer is for no shared cache."""
    desk = Desk()
    async with a_world(ScriptedNode(lambda *_: replies.made(b"[]")), desk=desk, relay=True) as world:
        desk.world, desk.payer = world, await world.customer(account=False)
        paid = {"payment-signature": header_v2()}
        for path in ("/relay/getTipAccounts", "/relay/tipFloor"):
            desk.paid.clear()
            head = await world.http.head(path, headers=paid)
            assert head.status_code == 402 and "payment-required" in head.headers
            assert "payment-response" not in head.headers and desk.paid == []
            got = await world.http.get(path, headers=paid)
            assert got.status_code == 200 and "payment-response" in got.headers and len(desk.paid) == 1
            assert "no-store" in got.headers["cache-control"]


@pytest.mark.parametrize("value", ["", "!", "e30=", "bm8ganNvbg==", "eyJ4NDAyVmVyc2lvbiI6Mn0=", "A" * 9_000])
async def test_a_malformed_payment_is_the_clients_fault(value):
    """x402 conformance, R24: 400 or 402, and nothing is settled."""
    desk = Desk()
    async with a_world(desk=desk, relay=True) as world:
        for verb in ("GET", "HEAD"):
            told = await world.http.request(verb, "/relay/tipFloor", headers={"payment-signature": value})
            assert told.status_code in (400, 402), told.text
        assert desk.paid == []
