"""What the engine asks of its clients, and its outages."""

from typing import Any

import orjson
from solders.pubkey import Pubkey

from devnode.block_engine.bundles import NEEDS_TIP
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.faults.plan import read_plan
from tests.devnode.local_node import give

from .conftest import BASE64, Engine, text

PATH = "/api/v1/transactions"


def fates(engine: Engine) -> list[tuple[str, str]]:
    return [
        (one["leg"], one["fate"])
        for one in (arrival.as_json() for arrival in engine.local.node.intake.arrivals(0, 100))
    ]


def test_a_single_transaction_must_tip_too(engine: Engine) -> None:
    """Without a tip account it is refused; a tip below 1,000 lamports is taken, and the transaction never lands."""
    payer = engine.local.wallet()
    reply, body = engine.post(PATH, "sendTransaction", text(engine.pay(payer)), BASE64)
    assert (reply.status, body["error"]["code"], body["error"]["message"]) == (400, -32602, NEEDS_TIP)
    small, enough = engine.tip(payer, 999), engine.tip(payer, 1_000)
    for transaction in (small, enough):
        reply, _ = engine.post(PATH, "sendTransaction", text(transaction), BASE64)
        assert reply.status == 200
    assert engine.landed(enough) and not engine.landed(small)
    assert fates(engine) == [("jito", "refused"), ("jito", "landed")]


def test_a_tip_may_have_several_parts(engine: Engine) -> None:
    payer = engine.local.wallet()
    gifts = [give(payer, TIP_ACCOUNTS[number], 500) for number in range(2)]
    transaction = engine.local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_000), *gifts)
    reply, _ = engine.post(PATH, "sendTransaction", text(transaction), BASE64)
    assert reply.status == 200 and engine.landed(transaction)


def request(engine: Engine, key: bytes | None = None, address: str = "10.0.0.1", query: bytes = b"") -> tuple[int, Any]:
    headers = [] if key is None else [(b"x-jito-auth", key)]
    scope = {
        "method": "POST",
        "path": "/api/v1/bundles",
        "headers": headers,
        "client": (address, 5),
        "query_string": query,
    }
    asked = {"jsonrpc": "2.0", "id": 4, "method": "getTipAccounts", "params": []}
    reply = engine.routes["POST", "/api/v1/bundles"](scope, orjson.dumps(asked))
    return reply.status, orjson.loads(reply.body)


def test_each_client_has_its_requests_a_second(engine: Engine) -> None:
    """The client is its key or else its address; a second later it may ask again."""
    engine.local.node.faults.set(read_plan({"engine": {"requests_per_second": 2}}))
    assert [request(engine)[0] for _ in range(3)] == [200, 200, 429]
    _, body = request(engine)
    assert body["error"] == {"code": -32097, "message": "Rate limit exceeded. Limit: 2 per second for txn requests"}
    assert body["id"] == 4
    assert request(engine, address="10.0.0.2")[0] == request(engine, key=b"mine")[0] == 200
    assert [request(engine, query=b"uuid=yours")[0] for _ in range(3)] == [200, 200, 429]
    engine.local.clock.advance(0.5)
    assert [request(engine)[0] for _ in range(2)] == [200, 429]
    engine.local.node.faults.set(read_plan({}))
    assert request(engine)[0] == 200


def test_an_outage_of_the_engine_is_not_one_of_the_node(engine: Engine) -> None:
    """Every call has HTTP 503, accepted bundles wait for the end of the outage, and the node goes on."""
    payer = engine.local.wallet()
    tip = engine.tip(payer)
    identifier = engine.send(tip)
    engine.local.node.faults.set(read_plan({"engine": {"down": True}}))
    assert request_status(engine) == 503
    engine.engine.auction()
    assert not engine.landed(tip)
    assert engine.local.call("getHealth") == "ok" and engine.local.land(engine.pay(payer)).meta.err is None
    engine.local.node.faults.set(read_plan({}))
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Landed" and fates(engine) == [("jito", "landed")]


def request_status(engine: Engine) -> int:
    scope = {"method": "POST", "path": "/api/v1/bundles", "headers": []}
    return engine.routes["POST", "/api/v1/bundles"](scope, b"{}").status


def test_each_transaction_of_a_bundle_arrives_by_the_engine(engine: Engine) -> None:
    payer = engine.local.wallet()
    pay, tip = engine.pay(payer), engine.tip(payer)
    engine.send(pay, tip)
    assert fates(engine) == [("jito", "waiting")] * 2
    engine.engine.auction()
    assert fates(engine) == [("jito", "landed")] * 2
    engine.local.node.faults.set(read_plan({"sends": {"bundle": {"drop_share": 1}}}))
    engine.send(engine.tip(payer, 20_000))
    assert fates(engine)[2:] == [("jito", "dropped")]
