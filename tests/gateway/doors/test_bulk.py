"""The bulk paths through the real door and the real owner of accounts."""

import asyncio

import orjson
import pytest

from actors.accounts.api import SetStatus
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.doubles import ScriptedNode
from tests.gateway.payment_doubles import Desk, header_v2, receipt
from tests.gateway.world import World, a_world, call

KEYS = [
    "So11111111111111111111111111111111111111112",
    "SysvarC1ock11111111111111111111111111111111",
    "SysvarRent111111111111111111111111111111111",
]
PATH = "/bulk/getTokenBalances"


def failing(count: int):
    """A handler under which so many of the items fail."""

    def answer(method: str, params: bytes) -> NodeAnswer:
        assert method == "bulk/getTokenBalances"
        owners = orjson.loads(params)["items"]
        rows = {
            "results": [{"owner": owner, "tokens": []} for owner in owners[count:]],
            "errors": [{"owner": owner, "error": "x"} for owner in owners[:count]],
        }
        return replies.made_of_pieces(orjson.dumps(rows), len(owners), len(owners[count:]), "node-1")

    return ScriptedNode(answer)


async def ask(world: World, wallet, owners=KEYS, **headers):
    return await world.rpc(wallet, {"owners": owners}, PATH, **headers)


async def test_a_consistency_of_no_such_word_is_malformed_whatever_the_price():
    """Decisions, "Monotonic reads": as at `POST /`, before the price is compared with X-Max-Credits."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(20)
        answers = [
            await ask(world, wallet, **{"x-consistency": "AAA", **more}) for more in ({}, {"x-max-credits": "0"})
        ]
        assert [answer.status_code for answer in answers] == [400, 400]
        assert (await ask(world, wallet, **{"x-consistency": "any", "x-max-credits": "0"})).status_code == 412
        assert await world.balance(wallet) == 20


@pytest.mark.parametrize(("failed", "charged"), [(0, 15), (1, 10), (2, 5)])
async def test_a_list_is_answered_and_its_completed_items_are_charged(failed, charged):
    """One entry in the ledger, under the look-up's own name; the rest of the hold is free again."""
    async with a_world(failing(failed)) as world:
        wallet = await world.customer(20)
        response = await ask(world, wallet)
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        body = response.json()
        assert ([row["owner"] for row in body["results"]], len(body["errors"])) == (KEYS[failed:], failed)
        assert response.headers["x-credits-remaining"] == str(20 - charged)
        assert response.headers["x-ratelimit-remaining"] == "99"
        assert "x-request-id" in response.headers
        assert response.headers["x-node"] == "node-1"
        assert await world.debits(wallet) == [("bulk/getTokenBalances", charged)]
        assert await world.balance(wallet) == 20 - charged
        assert [[(item.method, item.ceiling) for item in hold.items] for hold in world.accounts.holds] == [
            [("bulk/getTokenBalances", 15)]
        ]


async def test_when_every_item_failed_it_is_still_answered_and_costs_nothing():
    """200 with errors; the ledger has no entry."""
    async with a_world(failing(3)) as world:
        wallet = await world.customer(15)
        response = await ask(world, wallet)
        assert (response.status_code, response.json()["results"]) == (200, [])
        assert response.headers["x-credits-remaining"] == "15"
        assert await world.debits(wallet) == []


async def test_a_list_that_the_balance_does_not_cover_is_not_begun():
    """402, though some items could have been paid for: one hold for all."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(14)
        response = await ask(world, wallet)
        assert response.status_code == 402
        assert response.json()["error"]["code"] == "INSUFFICIENT_CREDITS"
        assert response.headers["x-credits-remaining"] == "14"
        assert world.node.calls == []


@pytest.mark.parametrize(
    ("owners", "said"),
    [([], "0 entries"), ([KEYS[0]] * 101, "101 entries"), ([KEYS[0], "x"], "owners[1]: x is not")],
)
async def test_a_bad_list_is_400_and_free(owners, said):
    """Decisions: before billing; no rate unit either."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(20)
        response = await ask(world, wallet, owners)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "INVALID_REQUEST"
        assert said in response.json()["error"]["message"]
        assert response.headers["x-ratelimit-remaining"] == "100"
        assert await world.debits(wallet) == []


async def test_items_that_occur_twice_are_charged_once():
    """And answered once."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(20)
        response = await ask(world, wallet, [KEYS[0], KEYS[1], KEYS[0]])
        assert [row["owner"] for row in response.json()["results"]] == KEYS[:2]
        assert await world.balance(wallet) == 10


async def test_every_credential_works_and_bad_ones_do_not():
    """The same as for JSON-RPC: signature over this path, key, none, a dead key, a suspended account."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(100)
        body = orjson.dumps({"owners": KEYS})
        signed = await world.http.post(PATH, content=body, headers=wallet.headers("POST", PATH, body))
        assert signed.status_code == 200
        elsewhere = await world.http.post(PATH, content=body, headers=wallet.headers("POST", "/", body))
        assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (401, "AUTH_FAILED")
        in_url = await world.http.post(f"{PATH}?api-key={wallet.api_key}", content=body)
        assert in_url.status_code == 200
        assert "deprecation" in in_url.headers
        nobody = await ask(world, None)
        assert (nobody.status_code, nobody.json()["error"]["code"]) == (402, "PAYMENT_REQUIRED")
        assert "deposit_address" in nobody.json()["error"]["data"]
        assert "payment-required" in nobody.headers
        dead = await world.rpc(None, {"owners": KEYS}, PATH, **{"x-api-key": "srpc_live_" + "A" * 43})
        assert dead.status_code == 401
        await world.shard.ask(SetStatus(wallet.pubkey, "suspended", "test"))
        suspended = await ask(world, wallet)
        assert (suspended.status_code, suspended.json()["error"]["code"]) == (403, "METHOD_NOT_ALLOWED")


async def test_a_list_takes_one_rate_unit_and_is_refused_beyond_the_limit():
    """429 with Retry-After, as for JSON-RPC."""
    async with a_world(failing(0), accounts={"requests_per_second": 1}) as world:
        wallet = await world.customer(100)
        assert (await ask(world, wallet)).status_code == 200
        refused = await ask(world, wallet)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "RATE_LIMITED"


async def test_paths_and_methods_are_as_written():
    """Other paths below /bulk are none; a GET is told what to do."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(100)
        key = {"x-api-key": wallet.api_key}
        for path in ("/bulk", "/bulk/getBlocks", PATH + "/", PATH.upper()):
            assert (await world.rpc(wallet, {"owners": KEYS}, path)).status_code == 404
        got = await world.http.get(PATH, headers=key)
        assert (got.status_code, got.headers["allow"]) == (405, "OPTIONS, POST")
        compressed = await ask(world, wallet, **{"content-encoding": "gzip"})
        assert compressed.status_code == 415


async def test_a_body_that_is_too_long_is_not_read():
    """And the connection is closed."""
    async with a_world(failing(0), gateway={"body_bytes_max": 1_024}) as world:
        wallet = await world.customer(100)
        response = await world.rpc(wallet, b"x" * 1_025, PATH)
        assert (response.status_code, response.headers["connection"]) == (400, "close")


async def test_an_owner_that_cannot_record_is_503():
    """Money rule 9: nothing is served on trust."""
    async with a_world(failing(0)) as world:
        wallet = await world.customer(100)
        world.accounts.down = True
        response = await ask(world, wallet)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "SERVICE_TEMPORARILY_UNAVAILABLE"
        assert world.node.calls == []


async def test_a_client_that_leaves_early_pays_nothing(monkeypatch):
    """Threat 36: what was not answered is released."""
    monkeypatch.setattr("actors.gateway.calls.disconnects.LOOK_AFTER_SECONDS", 0)
    node = failing(0)
    node.gate = asyncio.Event()
    async with a_world(node) as world:
        wallet = await world.customer(20)
        body = orjson.dumps({"owners": KEYS})
        messages = iter([{"type": "http.request", "body": body}, {"type": "http.disconnect"}])

        async def receive():
            if len(node.calls) == 0 and not started.is_set():
                started.set()
                return next(messages)
            await node.asked.wait()
            return next(messages)

        async def send(message):
            raise AssertionError(message)

        started = asyncio.Event()
        headers = [(b"x-api-key", wallet.api_key.encode())]
        scope = {"type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(), "headers": headers}
        await world.door(scope | {"query_string": b"", "client": ("10.0.0.1", 1)}, receive, send)
        await world.door.close()
        assert node.abandoned == 1
        assert await world.debits(wallet) == []
        assert await world.balance(wallet) == 20


async def test_a_stranger_can_pay_for_a_list():
    """Decisions, "Two ways to pay by x402": on every paid path, settled, credited and answered in the same response."""
    desk = Desk()
    async with a_world(failing(0), desk=desk) as world:
        desk.world, desk.payer = world, await world.customer(account=False)
        free = await ask(world, None, ["x"], **{"PAYMENT-SIGNATURE": header_v2()})
        assert free.status_code == 402
        assert desk.paid == []
        response = await ask(world, None, **{"PAYMENT-SIGNATURE": header_v2()})
        assert response.status_code == 200
        assert receipt(response)["success"] is True
        assert response.headers["x-credits-remaining"] == str(10_000 - 15)


async def test_calls_beside_lists_are_as_before():
    """The path of JSON-RPC is not the path of lists."""
    async with a_world(ScriptedNode()) as world:
        wallet = await world.customer(100)
        assert (await world.rpc(wallet, call())).json()["result"] == "ok"
        assert (await world.rpc(wallet, call("bulk/getBalances"))).json()["error"]["code"] == -32601


async def test_refused_large_lists_make_their_sender_wait_after_few_of_them():
    """Threat 61: a refused list counts by its size, as a refused call does, whatever its key is worth."""
    async with a_world(peers_are_clients=True) as world:
        body = orjson.dumps({"owners": ["x" * 60] * 4_000})
        for key in ((await world.customer(1_000)).api_key, "srpc_live_" + "A" * 43):
            sent = [await world.http.post(PATH, content=body, headers={"x-api-key": key}) for _ in range(12)]
            assert sent[0].status_code in (400, 401) and sent[-1].status_code == 429
            world.clock.advance(1)
