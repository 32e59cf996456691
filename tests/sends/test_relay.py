"""Bundles from the HTTP door to the chain and the ledger: the real door, owner, engine client and block engine."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import base58
import orjson
import pytest

from actors.addresses import TIP_ACCOUNTS
from actors.methods.signed_transactions import SignedTransaction
from actors.sends.api import RacerUnreachable
from actors.sends.engine import BlockEngineClient, EngineAnswer, EngineAway, EngineCall
from actors.sends.relay import RelayMethods
from actors.upstream.replies import OwnMethods
from tests.gateway.world import World, a_world, call, constant
from tests.sends.conftest import EngineServer, Here, text


class Racer:
    """The racer's engine without Ray. lost: the racer does not answer."""

    def __init__(self, engine: BlockEngineClient) -> None:
        self.engine, self.lost = engine, False
        self.asked: list[EngineCall] = []
        self.instead: EngineAnswer | EngineAway | None = None

    @property
    def tip_accounts(self) -> tuple[str, ...]:
        return self.engine.known_tip_accounts

    async def ask_engine(self, asked: EngineCall) -> EngineAnswer | EngineAway:
        self.asked.append(asked)
        if self.lost:
            raise RacerUnreachable("away")
        return self.instead or await self.engine.answer(asked)


class Scene:
    def __init__(self, here: Here, server: EngineServer, racer: Racer, world: World) -> None:
        self.here, self.server, self.racer, self.world = here, server, racer, world

    def bundle(self, count: int = 2) -> list[SignedTransaction]:
        return [self.here.payment(tip=number == 0) for number in range(count)]

    def lands(self, bundle: list[SignedTransaction]) -> bool:
        self.server.engine.auction()
        return all(self.here.landed(one) for one in bundle)


@pytest.fixture
async def scene(here: Here, engine_server: EngineServer) -> AsyncIterator[Scene]:
    engine = BlockEngineClient(engine_server.url, here.local.clock, requests_per_second=1_000)
    racer = Racer(engine)
    async with a_world(OwnMethods(here, RelayMethods(racer).handlers()), relay=True) as world:
        yield Scene(here, engine_server, racer, world)
    await engine.close()


def sent(bundle: list[SignedTransaction], **config: str) -> dict[str, Any]:
    texts = [text(one) for one in bundle]
    return call("sendBundle", texts, *([config] if config else []))


def identifier(bundle: list[SignedTransaction]) -> str:
    joined = ",".join(base58.b58encode(one.signature).decode() for one in bundle)
    return hashlib.sha256(joined.encode()).hexdigest()


@pytest.mark.parametrize("path", ["/", "/rpc", "/relay/sendBundle", "/relay/bundles", "/relay/api/v1/bundles"], ids=str)
async def test_a_bundle_lands_and_costs_its_price(scene: Scene, path: str) -> None:
    """Its id is the answer, and the engine tells its state."""
    customer, bundle = await scene.world.customer(100), scene.bundle()
    response = await scene.world.rpc(customer, sent(bundle), path)
    assert response.json() == {"jsonrpc": "2.0", "result": identifier(bundle), "id": 1}
    assert response.headers["x-credits-remaining"] == "90"
    assert scene.lands(bundle)
    asked = call("getBundleStatuses", [identifier(bundle)])
    states = await scene.world.rpc(customer, asked, "/relay/getBundleStatuses")
    direct = await scene.racer.engine.call(
        "/api/v1/bundles", "getBundleStatuses", b'[["%b"]]' % identifier(bundle).encode(), 5_000
    )
    assert states.json()["result"] == orjson.loads(direct.body)["result"]
    assert states.json()["result"]["value"][0]["transactions"]
    assert await scene.world.debits(customer) == [("sendBundle", 10), ("relay/getBundleStatuses", 2)]


async def test_base58_is_taken_with_and_without_its_name(scene: Scene) -> None:
    """It is the engine's default, and goes on in base64."""
    customer = await scene.world.customer(100)
    for config in ({}, {"encoding": "base58"}):
        bundle = scene.bundle(1)
        texts = [base58.b58encode(bundle[0].raw).decode()]
        body = call("sendBundle", texts, *([config] if config else []))
        assert (await scene.world.rpc(customer, body, "/relay/sendBundle")).json()["result"] == identifier(bundle)
        assert scene.lands(bundle)


async def test_a_single_transaction_goes_through_the_engine(scene: Scene) -> None:
    """As a bundle of one where the caller wants that; the engine then tells the bundle's id in a header."""
    customer = await scene.world.customer(100)
    payment = scene.here.payment(tip=True)
    body = call("sendTransaction", text(payment), {"encoding": "base64"})
    response = await scene.world.rpc(customer, body, "/relay/transactions?bundleOnly=true")
    assert response.json()["result"] == base58.b58encode(payment.signature).decode()
    assert response.headers["x-bundle-id"] == identifier([payment])
    assert scene.lands([payment])
    assert await scene.world.debits(customer) == [("relay/sendTransaction", 2)]


async def test_tip_accounts_and_tip_floor(scene: Scene) -> None:
    """Decisions, "relay bodies"; the engine's clients ask for the accounts by POST, jito-py-rpc with [null]."""
    customer = await scene.world.customer(100)
    key = {"x-api-key": customer.api_key}
    accounts = await scene.world.http.get("/relay/getTipAccounts", headers=key)
    assert accounts.json() == {"ok": True, "tip_accounts": list(TIP_ACCOUNTS)}
    floor = await scene.world.http.get("/relay/tipFloor", headers=key)
    assert floor.json()["ok"] is True and floor.json()["tip_floor"]["landed_tips_50th_percentile"] >= 0
    assert "x-ratelimit-limit" in floor.headers and floor.headers["x-credits-remaining"] == "98"
    posted = await scene.world.rpc(customer, call("getTipAccounts", None), "/relay/bundles")
    assert posted.json()["result"] == list(TIP_ACCOUNTS)
    prices = [("relay/getTipAccounts", 1), ("relay/tipFloor", 1), ("relay/getTipAccounts", 1)]
    assert await scene.world.debits(customer) == prices


async def test_the_key_may_come_where_the_engines_clients_put_it(scene: Scene) -> None:
    """They have no other place for it: `?uuid=` and `x-jito-auth`. A real credential beside them counts instead."""
    customer = await scene.world.customer(100)
    body = orjson.dumps(call("getTipAccounts"))
    in_url = await scene.world.http.post(f"/relay/bundles?uuid={customer.api_key}", content=body)
    assert in_url.status_code == 200 and "deprecation" in in_url.headers
    in_header = await scene.world.http.post("/relay/bundles", content=body, headers={"x-jito-auth": customer.api_key})
    assert in_header.status_code == 200 and "deprecation" not in in_header.headers
    both = {"x-jito-auth": customer.api_key, "x-api-key": "srpc_live_wrong"}
    assert (await scene.world.http.post("/relay/bundles", content=body, headers=both)).status_code == 401
    elsewhere = await scene.world.http.post(f"/rpc?uuid={customer.api_key}", content=body)
    assert elsewhere.status_code == 402
    assert await scene.world.balance(customer) == 98


async def test_without_a_tip_nothing_is_sent_and_nothing_charged(scene: Scene) -> None:
    customer = await scene.world.customer(100)
    for path in ("/relay/sendBundle", "/rpc"):
        response = await scene.world.rpc(customer, sent([scene.here.payment()]), path)
        assert response.json()["error"]["code"] == -32602 and "tip" in response.json()["error"]["message"]
    alone = call("sendTransaction", text(scene.here.payment()))
    assert "tip" in (await scene.world.rpc(customer, alone, "/relay/transactions")).json()["error"]["message"]
    assert scene.racer.asked == [] and await scene.world.balance(customer) == 100


async def test_an_error_of_the_engine_is_passed_on_and_billed_as_a_nodes(scene: Scene) -> None:
    """With its status on the engine's paths, as its clients read it; a JSON-RPC call gets 200."""
    customer = await scene.world.customer(100)
    bundle = scene.bundle(1)
    twice = [bundle[0], bundle[0]]
    relayed = await scene.world.rpc(customer, sent(twice), "/relay/bundles")
    called = await scene.world.rpc(customer, sent(twice))
    assert (relayed.status_code, called.status_code) == (400, 200)
    assert relayed.json() == called.json() and "duplicate" in called.json()["error"]["message"]
    assert await scene.world.debits(customer) == [("sendBundle", 10)] * 2


@pytest.mark.parametrize(
    ("instead", "status"),
    [
        (EngineAway("cannot be reached"), 502),
        (EngineAway("did not answer", late=True), 504),
        (EngineAway("the rate limit is reached", busy=True), 503),
        (EngineAnswer(429, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32097,"message":"Rate limit exceeded"}}'), 503),
        (EngineAnswer(503, b"no healthy upstream"), 502),
        (EngineAnswer(400, b"<html>"), 502),
    ],
)
async def test_an_outage_of_the_engine_is_free(scene: Scene, instead: EngineAnswer | EngineAway, status: int) -> None:
    """The limit is this service's, not the customer's, so the customer's own 429 is not told."""
    customer = await scene.world.customer(100)
    scene.racer.instead = instead
    response = await scene.world.rpc(customer, sent(scene.bundle()), "/relay/sendBundle")
    assert response.status_code == status and "retry-after" in response.headers
    got = await scene.world.http.get("/relay/tipFloor", headers={"x-api-key": customer.api_key})
    assert got.status_code == status
    assert await scene.world.balance(customer) == 100


async def test_a_racer_that_does_not_answer_is_an_outage(scene: Scene) -> None:
    customer = await scene.world.customer(100)
    scene.racer.lost = True
    response = await scene.world.rpc(customer, sent(scene.bundle()), "/relay/sendBundle")
    assert (response.status_code, constant(response)) == (502, "BACKEND_UNAVAILABLE")
    assert await scene.world.balance(customer) == 100
