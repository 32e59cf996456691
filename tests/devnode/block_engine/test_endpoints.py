import base64
import time
from typing import Any

import base58
import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from devnode.block_engine.endpoints import CLIENTS_MAX, RateLimit
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.faults.plan import read_plan
from tests.devnode.conftest import StartDevnode

from .conftest import BASE64, Engine, text


@given(per_second=st.integers(1, 50), gaps=st.lists(st.floats(0, 2), max_size=200))
def test_no_client_gets_more_than_its_rate(per_second: int, gaps: list[float]) -> None:
    """From a full bucket: at most the rate in the first instant, and the rate in every second after it."""
    limit, now, allowed = RateLimit(), 0.0, 0
    for gap in gaps:
        now += gap
        allowed += limit.allows("one", per_second, now)
    assert allowed <= per_second * (now + 1) + 1e-6


def test_clients_do_not_share_a_bucket_and_are_forgotten_when_idle() -> None:
    limit = RateLimit()
    assert limit.allows("one", 1, 0.0) and not limit.allows("one", 1, 0.5) and limit.allows("two", 1, 0.5)
    for number in range(CLIENTS_MAX + 5):
        limit.allows(str(number), 1, 10.0 + number)
    assert len(limit._used) <= CLIENTS_MAX


LOOKS_MAX = 400


def test_base58_is_the_default_encoding(engine: Engine) -> None:
    tip = engine.tip(engine.local.wallet())
    identifier = engine.call("sendBundle", [base58.b58encode(bytes(tip)).decode()])
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Landed"


def test_the_tip_accounts_are_the_eight_that_clients_know(engine: Engine) -> None:
    assert engine.call("getTipAccounts") == list(map(str, TIP_ACCOUNTS)) and len(set(TIP_ACCOUNTS)) == 8
    assert engine.post("/api/v1/getTipAccounts", "getTipAccounts", [])[1]["result"] == list(map(str, TIP_ACCOUNTS))


def test_methods_have_paths_of_their_own(engine: Engine) -> None:
    for method in ("getBundleStatuses", "getInflightBundleStatuses"):
        reply, body = engine.post(f"/api/v1/{method}", method, [])
        assert reply.status == 200 and body["result"]["value"] == []
        assert body["result"]["context"] == {"slot": engine.local.chain.levels.building.slot}


def test_errors_have_the_texts_of_the_engine(engine: Engine) -> None:
    """Each has HTTP 400 and an error object, and no bundle is accepted."""
    payer = engine.local.wallet()
    tips = [text(engine.tip(payer, 10_000 + number)) for number in range(6)]
    plain = text(engine.pay(payer))
    needs_tip = "Bundles must write lock at least one tip account to be eligible for the auction."
    for params, code, message in (
        ([tips], -32602, "bundle exceeds max transaction length"),
        ([[]], -32602, "bundle contains no transactions"),
        ([[plain]], -32602, needs_tip),
        ([[tips[0], "!!"]], -32602, "transaction #1 could not be decoded"),
        ([["AA==", tips[0]]], -32602, "transaction #0 could not be decoded"),
        ([[tips[0], tips[0]]], -32602, None),
        (["one"], -32602, None),
    ):
        status, found_code, found = engine.error("sendBundle", *params, BASE64)
        assert (status, found_code) == (400, code)
        assert message is None or found == message
    assert engine.error("sendBundle", [tips[0]], {"encoding": "hex"})[1] == -32602
    assert engine.error("getBundleStatuses", ["0"] * 6)[1] == -32602
    assert engine.error("sendTransaction", plain)[1] == -32601
    assert list(engine.local.chain.open_transactions()) == []


def test_a_bundle_on_an_old_blockhash_is_refused(engine: Engine) -> None:
    tip = engine.tip(engine.local.wallet())
    engine.local.beat()
    engine.local.chain.expire_blockhashes()
    error = engine.error("sendBundle", [text(tip)], BASE64)
    assert error == (400, -32602, "bundle contains an expired blockhash")


def test_a_transaction_is_forwarded_at_once(engine: Engine) -> None:
    """There is no preflight and no bundle id; the transaction lands and may fail, as on any leader."""
    failing = engine.tip(engine.local.wallet(), 10**12)
    reply, body = engine.post("/api/v1/transactions", "sendTransaction", text(failing), BASE64)
    assert (reply.status, body["result"], reply.headers) == (200, str(failing.signatures[0]), ())
    (record,) = engine.local.chain.open_transactions()
    assert record.signature == body["result"] and record.meta.err is not None


def test_bundle_only_makes_a_bundle_of_one(engine: Engine) -> None:
    """The transaction must tip, the bundle id is in a header, and it lands only if it succeeds."""
    payer = engine.local.wallet()
    path, query = "/api/v1/transactions", b"bundleOnly=true"
    tip = engine.tip(payer)
    reply, body = engine.post(path, "sendTransaction", text(tip), BASE64, query=query)
    assert body["result"] == str(tip.signatures[0])
    ((name, identifier),) = reply.headers
    assert name == b"x-bundle-id" and engine.inflight(identifier.decode())[0] == "Pending"
    engine.engine.auction()
    assert engine.landed(tip)
    reply, body = engine.post(path, "sendTransaction", text(engine.pay(payer)), BASE64, query=query)
    assert (reply.status, body["error"]["code"], reply.headers) == (400, -32602, ())
    again, _ = engine.post(path, "sendTransaction", text(engine.tip(payer, 9_999)), BASE64, query=b"bundleOnly=false")
    assert again.status == 200


def test_a_method_can_be_made_to_refuse_with_429(engine: Engine) -> None:
    """The error is the engine's for too many requests, which clients recognize by its code."""
    engine.local.node.faults.set(read_plan({"calls": {"sendBundle": {"too_many_share": 1}}}))
    tip = engine.tip(engine.local.wallet())
    status, code, message = engine.error("sendBundle", [text(tip)], BASE64)
    assert (status, code) == (429, -32097) and message.startswith("Rate limit exceeded.")
    engine.engine.auction()
    assert not engine.landed(tip)
    assert engine.call("getTipAccounts")
    engine.local.node.faults.set(read_plan({"calls": {"sendTransaction": {"too_many_share": 1}}}))
    reply, _ = engine.post("/api/v1/transactions", "sendTransaction", text(tip), BASE64)
    assert reply.status == 429


def test_the_tip_floor_is_a_plain_document(engine: Engine) -> None:
    scope: dict[str, Any] = {"method": "GET", "path": "/api/v1/bundles/tip_floor", "headers": []}
    reply = engine.routes["GET", "/api/v1/bundles/tip_floor"](scope, b"")
    (floor,) = orjson.loads(reply.body)
    assert floor["time"].endswith("+00:00") and floor["landed_tips_25th_percentile"] == 0
    assert len(floor) == 7


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5"])
def test_an_invalid_request_gets_an_error(engine: Engine, body: bytes) -> None:
    scope: dict[str, Any] = {"method": "POST", "path": "/api/v1/bundles", "headers": []}
    reply = engine.routes["POST", "/api/v1/bundles"](scope, body)
    assert reply.status == 400 and orjson.loads(reply.body)["error"]["code"] in (-32700, -32600)


def test_a_running_node_takes_bundles(start_devnode: StartDevnode) -> None:
    """A client sends a bundle over HTTP, on the node's port, and follows it until it is finalized."""
    process = start_devnode()
    with httpx.Client(base_url=process.url) as http:

        def call(path: str, method: str, *params: Any) -> Any:
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            body = http.post(path, json=request).json()
            assert "error" not in body, body
            return body["result"]

        payer = Keypair()
        http.post("/admin/fund", json={"pubkey": str(payer.pubkey()), "lamports": 10**9})
        (tip_account, *_) = call("/api/v1/bundles", "getTipAccounts")
        latest = call("/", "getLatestBlockhash", {"commitment": "processed"})["value"]["blockhash"]
        targets = (Pubkey.new_unique(), Pubkey.from_string(tip_account))
        texts = []
        for target in targets:
            give = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=target, lamports=2_000_000))
            message = MessageV0.try_compile(payer.pubkey(), [give], [], Hash.from_string(latest))
            texts.append(base64.b64encode(bytes(VersionedTransaction(message, [payer]))).decode())
        identifier = call("/api/v1/bundles", "sendBundle", texts, BASE64)
        for _ in range(LOOKS_MAX):
            value = call("/api/v1/bundles", "getBundleStatuses", [identifier])["value"]
            if value and value[0]["confirmation_status"] == "finalized":
                break
            time.sleep(0.02)
        assert value and value[0]["err"] == {"Ok": None}
        (inflight,) = call("/api/v1/bundles", "getInflightBundleStatuses", [identifier])["value"]
        assert (inflight["status"], inflight["landed_slot"]) == ("Landed", value[0]["slot"])
        (floor,) = http.get("/api/v1/bundles/tip_floor").json()
        assert floor["landed_tips_50th_percentile"] == 0.002
