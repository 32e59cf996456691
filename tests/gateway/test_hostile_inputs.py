"""The threats that come through the HTTP door, by number, over the real owner of accounts."""

import asyncio
import gzip
import json
import logging

import pytest

from actors.upstream import replies

from .doubles import RESULT, TRANSACTION, ScriptedNode, node_error
from .world import a_world, call, constant


@pytest.mark.threat(1)
async def test_five_hundred_calls_on_a_balance_for_one():
    """Threat 1: exactly one of 500 concurrent 25-credit calls on 26 credits is admitted; balance 1 after."""
    async with a_world(accounts={"requests_per_second": 1_000, "concurrency": 1_000}) as world:
        customer = await world.customer(26)
        responses = await asyncio.gather(*(world.rpc(customer, call("getBlock", 5)) for _ in range(500)))
        assert sorted(response.status_code for response in responses) == [200] + [402] * 499
        assert {r.json()["error"]["code"] for r in responses if r.status_code == 402} == {-32010}
        assert all(int(response.headers["x-credits-remaining"]) >= 0 for response in responses)
        assert await world.balance(customer) == 1


@pytest.mark.threat(6)
async def test_the_signed_path_is_the_one_that_was_sent():
    """Threat 6: a query changes nothing, another spelling or another path fails."""
    async with a_world() as world:
        customer = await world.customer(10)
        body = json.dumps(call()).encode()
        for signed, sent, status in (("/rpc", "/rpc?x=1", 200), ("/", "/rpc", 401), ("/rpc?x=1", "/rpc?x=1", 401)):
            response = await world.http.post(sent, content=body, headers=customer.headers("POST", signed, body))
            assert response.status_code == status, (signed, sent, response.text)


@pytest.mark.threat(7)
async def test_the_hash_is_over_the_raw_bytes():
    """Threat 7: a body that a middle box wrote anew fails its signature; a compressed one is a clear 415."""
    async with a_world() as world:
        customer = await world.customer(10)
        body = json.dumps(call()).encode()
        signed = customer.headers("POST", "/", body)
        assert (await world.http.post("/", content=body.replace(b" ", b""), headers=signed)).status_code == 401
        packed = gzip.compress(body)
        response = await world.http.post(
            "/", content=packed, headers={"x-api-key": customer.api_key, "content-encoding": "gzip"}
        )
        assert (response.status_code, constant(response)) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert "compressed" in response.text
        assert await world.debits(customer) == []


@pytest.mark.threat(8)
async def test_a_bad_higher_credential_never_falls_through():
    """Threat 8: key before signature before bearer; the first that is there decides."""
    async with a_world() as world:
        customer = await world.customer(10)
        body = json.dumps(call()).encode()
        good, bearer = customer.headers("POST", "/", body), {"authorization": "Bearer " + "0" * 64}
        bad = good | {"x-signature": "1" * 88}
        key = {"x-api-key": customer.api_key}
        for headers, status in ((key | bad | bearer, 200), ({"x-api-key": "no"} | good, 401), (bad | bearer, 401)):
            assert (await world.http.post("/", content=body, headers=headers)).status_code == status


@pytest.mark.threat(9)
async def test_a_key_in_the_url_works_warns_and_stays_out_of_logs(caplog):
    """Threat 9: Deprecation and Warning on the answer; the key in no log and no body."""
    async with a_world() as world:
        customer = await world.customer(10)
        with caplog.at_level(logging.DEBUG, logger="actors"):
            for path in ("/", "/account/info", "/nowhere"):
                ask_by = world.http.post if path == "/" else world.http.get
                body = {"content": json.dumps(call()).encode()} if path == "/" else {}
                response = await ask_by(f"{path}?api-key={customer.api_key}", **body)
                assert customer.api_key not in response.text
                if path != "/nowhere":
                    assert response.status_code == 200
                    assert response.headers["deprecation"]
                    assert "X-Api-Key" in response.headers["warning"]
        assert customer.api_key not in caplog.text
        assert "deprecation" not in (await world.rpc(customer, call())).headers


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[1e400]}',
        b'{"jsonrpc":"2.0","id":1,"method":"getSlot","method":"getBlock"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":{},"method":"getSlot"}',
        b'{"jsonrpc":"2.0","id":true,"method":"getSlot"}',
        b" " * 300_000,
        *([call()] * count for count in (0, 101, 1_000)),
        {"jsonrpc": "2.0", "method": "getSlot"},
    ],
)
@pytest.mark.threat(10, 11, 12)
async def test_bombs_batches_of_the_wrong_length_and_notifications_are_400_and_free(body):
    """Threats 10, 11 and 12: no credits, a clear body with an id, and nothing reaches the node."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        response = await world.rpc(customer, body)
        assert (response.status_code, constant(response)) == (400, "INVALID_REQUEST")
        assert response.json()["error"]["requestId"] == response.headers["x-request-id"]
        assert (await world.balance(customer), world.node.calls) == (1_000, [])


@pytest.mark.parametrize(
    "raw_id",
    [
        *(b"0", b"-1", b"1.50", b"1e3", b"123456789012345678901234567890123456789", b"null"),
        *(b'"a"', b'""', b'"\\u0000\\u00e9\\n"', '"é"'.encode()),
    ],
)
@pytest.mark.threat(10)
async def test_ids_are_echoed_byte_for_byte(raw_id):
    """Threat 10: on answers and on errors."""
    async with a_world() as world:
        customer = await world.customer(10)
        for method in (b"getSlot", b"nope"):
            body = b'{"jsonrpc":"2.0","id":%b,"method":"%b"}' % (raw_id, method)
            assert (await world.rpc(customer, body)).content.endswith(b'"id":%b}' % raw_id)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.threat(11)
async def test_batches_are_answered_in_order_and_billed_by_item(count):
    """Threat 11: also with one id throughout; each item takes one rate unit."""
    async with a_world(accounts={"concurrency": 100}) as world:
        customer = await world.customer(1_000)
        response = await world.rpc(customer, [call(id=7)] * count)
        assert response.status_code == 200
        assert [item["id"] for item in response.json()] == [7] * count
        assert response.headers["x-ratelimit-remaining"] == str(100 - count)
        assert response.headers["x-credits-remaining"] == str(1_000 - count)
        assert await world.debits(customer) == [("getSlot", 1)] * count


@pytest.mark.threat(11)
async def test_ninety_nine_bad_and_one_good():
    """Threat 11: nested arrays and other rubbish have their own errors; the good one works and is billed."""
    async with a_world() as world:
        customer = await world.customer(10)
        rubbish = [1, [], {}, None, [call()], "x", {"jsonrpc": "2.0", "method": "getSlot"}, call("nope", id="n")]
        items = (rubbish * 13)[:99]
        body = (await world.rpc(customer, [*items[:30], call(id="good"), *items[30:]])).json()
        assert body[30] == {"jsonrpc": "2.0", "result": "ok", "id": "good"}
        codes = {item["error"]["code"] for index, item in enumerate(body) if index != 30}
        assert codes == {-32600, -32601}
        assert await world.debits(customer) == [("getSlot", 1)]


@pytest.mark.threat(11)
async def test_a_batch_that_straddles_balance_and_rate():
    """Threat 11: billed to the item, and the refused are told why, each under its own code."""
    async with a_world(accounts={"requests_per_second": 3}) as world:
        customer = await world.customer(27)
        items = [call("getSlot"), call("getBlock", 5), call("getBlock", 6), call("getSlot"), call("getSlot")]
        body = (await world.rpc(customer, items)).json()
        assert [item.get("error", {}).get("code") for item in body] == [None, None, -32010, None, -32005]
        assert await world.balance(customer) == 0


@pytest.mark.parametrize(
    "method",
    [
        *("x" * 250_000, "__proto__", "getslot", " getSlot", "getSlot\nINFO fake line", "a\r\nSet-Cookie: b"),
        "\x1b[2J",
    ],
)
@pytest.mark.threat(13)
async def test_strange_names_are_free_and_harmless(method, caplog):
    """Threat 13: -32601; neither body nor log repeats them as they are."""
    async with a_world() as world:
        customer = await world.customer(10)
        with caplog.at_level(logging.DEBUG, logger="actors"):
            response = await world.rpc(customer, call(method))
        error = response.json()["error"]
        assert error["code"] == -32601 and error["message"].isprintable() and len(error["message"]) < 120
        assert "fake line" not in caplog.text
        assert await world.balance(customer) == 10


@pytest.mark.threat(14)
async def test_an_upstream_error_passes_through_with_its_data():
    """Threat 14: HTTP 200, code, message and data untouched, billed as published."""
    error = node_error(-32002, "Transaction simulation failed", data={"logs": ["a"], "err": {"x": 1}})
    async with a_world(ScriptedNode(lambda *_: error)) as world:
        customer = await world.customer(10)
        response = await world.rpc(customer, call("sendTransaction", TRANSACTION, {"encoding": "base64"}, id=9))
        assert response.status_code == 200
        assert response.json() == json.loads(error.body) | {"id": 9}
        assert await world.debits(customer) == [("sendTransaction", 2)]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (replies.TIMED_OUT, 504, -32007),
        (replies.UNREACHABLE, 502, -32003),
        (replies.GARBAGE, 502, -32003),
        (replies.OVERSIZED, 502, -32003),
    ],
)
@pytest.mark.threat(15)
async def test_a_node_that_fails_costs_nothing(answer, status, code):
    """Threat 15: the class's timeout is 504/-32007, the rest 502/-32003; refunded, and the headers say so."""
    async with a_world(ScriptedNode(lambda *_: answer)) as world:
        customer = await world.customer(10)
        response = await world.rpc(customer, call())
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert response.headers["x-credits-remaining"] == "10"
        assert len(world.accounts.settles) == 1
        assert (await world.balance(customer), await world.debits(customer)) == (10, [])


@pytest.mark.threat(16)
async def test_a_hold_whose_replica_died_expires():
    """Threat 16: killed between hold and send; nothing is charged once the hold's time is up."""
    async with a_world(accounts={"hold_seconds": 60}) as world:
        customer = await world.customer(10)
        world.node.gate = asyncio.Event()
        doomed = asyncio.ensure_future(world.rpc(customer, call()))
        await world.node.asked.wait()
        world.accounts.down = True  # The replica is gone: it reaches nobody any more.
        doomed.cancel()
        await asyncio.gather(doomed, return_exceptions=True)
        await world.door.close()
        world.accounts.down = False
        assert (await world.rpc(customer, call("nope"))).headers["x-credits-remaining"] == "9"
        world.clock.advance(61)
        await world.shard.tick()
        assert (await world.rpc(customer, call("nope"))).headers["x-credits-remaining"] == "10"
        assert await world.debits(customer) == []


@pytest.mark.threat(17)
async def test_a_post_that_was_lost_on_its_way_is_in_the_customers_favour():
    """Threat 17: killed between the node's answer and the post; the hold is released by expiry, uncharged."""
    async with a_world() as world:
        customer = await world.customer(10)

        def answer_then_die(method: str, params: bytes) -> replies.NodeAnswer:
            world.accounts.down = True
            return RESULT

        world.node.answer = answer_then_die
        response = await world.rpc(customer, call())
        assert response.status_code == 503
        world.accounts.down = False
        world.clock.advance(61)
        await world.shard.tick()
        assert await world.balance(customer) == 10


@pytest.mark.threat(18)
async def test_send_and_confirm_is_not_sold_before_it_can_be_recovered():
    """Threat 18: what cannot be carried through a crash is refused, free, with its reason."""
    async with a_world() as world:
        customer = await world.customer(100)
        response = await world.rpc(customer, call("sendAndConfirm", TRANSACTION))
        assert response.json()["error"]["code"] == -32004
        assert (await world.balance(customer), world.node.calls) == (100, [])


@pytest.mark.threat(35)
async def test_a_flood_is_shed_early_and_others_are_served():
    """Threat 35: beyond the replica's calls in flight, 503 with a hint; room again at once when calls end."""
    async with a_world(gateway={"calls_in_flight_max": 5}) as world:
        flooding, patient = await world.customer(100), await world.customer(100)
        world.node.gate, world.node.asked_after = asyncio.Event(), 5
        flood = [asyncio.ensure_future(world.rpc(flooding, call())) for _ in range(5)]
        await world.node.asked.wait()
        shed = await world.rpc(flooding, call())
        assert (shed.status_code, shed.json()["error"]["data"]["retry_after_secs"]) == (503, 5)
        assert (await world.rpc(flooding, [call()])).status_code == 503 and len(world.accounts.holds) == 5
        world.node.gate.set()
        assert {response.status_code for response in await asyncio.gather(*flood)} == {200}
        assert (await world.rpc(patient, call())).status_code == 200
        assert await world.balance(flooding) == 95


@pytest.mark.threat(39)
async def test_strangers_are_told_apart_at_the_door():
    """Threat 39: forged signatures reach no owner; valid ones of no account are 402 and open none."""
    async with a_world() as world:
        body = json.dumps(call()).encode()
        strangers = [await world.customer(account=False) for _ in range(200)]
        for stranger in strangers:
            forged = stranger.headers("POST", "/", body) | {"x-signature": strangers[0].sign("something else")}
            assert (await world.http.post("/", content=body, headers=forged)).status_code == 401
        assert world.accounts.holds == []
        for stranger in strangers:
            signed = stranger.headers("POST", "/", body)
            assert (await world.http.post("/", content=body, headers=signed)).status_code == 402
        assert world.node.calls == []
