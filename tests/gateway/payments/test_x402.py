"""Payments that come with a call: who is credited, who pays, what the answer says; and /x402/settle's answers."""

import base64
from collections.abc import AsyncIterator

import orjson
import pytest

from actors.calls import ProvenProof
from actors.config import PaymentsConfig
from actors.errors import Err
from actors.gateway.calls.requests import PAYMENT_V1, PAYMENT_V2
from actors.gateway.payments.x402 import Offered, read_offer
from actors.x402_types import Lack, NotSettled
from tests.gateway.doubles import counted
from tests.gateway.payment_doubles import HINT, Desk, accepted, header_v1, header_v2, receipt
from tests.gateway.world import DEPOSIT_WALLET, SPONSOR, World, a_world, call, constant

PAYMENTS = PaymentsConfig(network="devnet", deposit_wallet=DEPOSIT_WALLET, sponsor_pubkey=SPONSOR)
V2 = "PAYMENT-SIGNATURE"


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def world(desk: Desk) -> AsyncIterator[World]:
    async with a_world(desk=desk) as made:
        desk.world, desk.payer = made, await made.customer(account=False)
        yield made


async def test_a_stranger_pays_and_is_answered(world, desk):
    """Decisions, "Two ways to pay by x402": settled, credited to the payer, and the call answered in the same response,
    charged once."""
    refused = await world.rpc(None, call())
    assert refused.status_code == 402
    response = await world.rpc(None, call(), **{V2: header_v2()})
    assert response.status_code == 200 and response.json()["result"] == "ok"
    told = receipt(response)
    assert (told["success"], told["payer"], told["amount"]) == (True, desk.payer.text, "100000")
    assert told["extra"]["credits_added"] == told["extra"]["balance"] == 10_000
    assert response.headers["x-credits-remaining"] == "9999"
    assert response.headers["cache-control"] == "private, no-store"
    assert desk.paid == [(b"a transaction", 100_000)]


async def test_a_payment_leaves_no_session(world, desk):
    """Threat 51: neither in the receipt nor in the store, so nothing of it is good for another call."""
    told = receipt(await world.rpc(None, call(), **{V2: header_v2()}))["extra"]
    assert set(told) == {"account", "credits_added", "balance"}
    assert world.identity_store._sessions == {}
    assert world.accounts.holds[-1].proof == ProvenProof(desk.payer.pubkey)


async def test_a_payment_spends_nothing_else_of_its_payers_account(world, desk):
    """Threat 51: a call that costs more than was paid is not made, though the account could pay for it."""
    desk.payer = await world.customer(credits=1_000)
    desk.amount = 40  # Four credits.
    for body, paths in [
        (call("getBlock", 1), ("/",)),
        ({"owners": ["11111111111111111111111111111111"]}, ("/bulk/getTokenBalances",)),
    ]:
        response = await world.rpc(None, body, *paths, **{V2: header_v2(str(body).encode())})
        assert response.status_code == 402 and constant(response) == "INSUFFICIENT_CREDITS"
        assert receipt(response)["success"] is True
    assert world.node.calls == []
    batch = [call(id=number) for number in range(6)]
    response = await world.rpc(None, batch, **{V2: header_v2(b"a batch")})
    assert ["result" in item for item in response.json()] == [True] * 4 + [False] * 2
    assert await world.balance(desk.payer) == 1_000 + 3 * 4 - 4


async def test_a_paid_call_whose_account_does_not_answer_is_credited(world, desk):
    """503 with the receipt: the money is there, and the call is not charged."""
    world.accounts.down = True
    response = await world.rpc(None, call(), **{V2: header_v2()})
    assert response.status_code == 503 and receipt(response)["success"] is True


async def test_the_desk_is_told_the_clients_address(world, desk):
    """As requests are counted: failures of new wallets are, too."""
    await world.rpc(None, call(), **{V2: header_v2()})
    await world.http.post("/x402/settle", json={"transaction": "AAAA"})
    assert desk.addresses == ["127.0.0.1", "127.0.0.1"]


async def test_version_1_is_answered_in_version_1(world, desk):
    """X-PAYMENT in, X-PAYMENT-RESPONSE out, with version 1's network name; clients of it are still published."""
    response = await world.rpc(None, call(), **{"X-PAYMENT": header_v1()})
    assert response.status_code == 200
    assert receipt(response, "x-payment-response")["network"] == "solana-devnet"
    assert "payment-response" not in response.headers
    assert desk.paid == [(b"a transaction", 10_000)]


async def test_both_headers_are_one_payment(world, desk):
    """Some wallets send both: the newer one is read, and it is settled once."""
    response = await world.rpc(None, call(), **{V2: header_v2(), "X-PAYMENT": header_v1(b"another")})
    assert response.status_code == 200
    assert [transaction for transaction, _ in desk.paid] == [b"a transaction"]


async def test_the_payment_decides_who_calls(world, desk):
    """Beside an API key: the payer is credited and charged, and the key's account is not touched."""
    customer = await world.customer(credits=50)
    response = await world.rpc(customer, call(), **{V2: header_v2()})
    assert response.status_code == 200 and response.headers["x-credits-remaining"] == "9999"
    assert await world.balance(customer) == 50


async def test_a_payment_that_buys_too_little_still_credits(world, desk):
    """-32010 with a successful receipt: the money is in the account."""
    desk.amount = 10  # One credit, and the call costs more.
    response = await world.rpc(None, call("getBlock", 1), **{V2: header_v2()})
    assert response.status_code == 402 and constant(response) == "INSUFFICIENT_CREDITS"
    assert receipt(response)["success"] is True
    assert "payment-required" in response.headers


async def test_a_batch_is_paid_for_at_once(world, desk):
    """One payment, then each item is billed by itself."""
    response = await world.rpc(None, [call(id=1), call(id=2), call("nonsense", id=3)], **{V2: header_v2()})
    assert response.status_code == 200
    assert ["result" in item for item in response.json()] == [True, True, False]
    assert response.headers["x-credits-remaining"] == "9998"
    assert len(desk.paid) == 1


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", call("nonsense"), call("getProgramAccounts"), {"jsonrpc": "2.0", "method": "getSlot"}, [call("x")]],
)
async def test_no_payment_is_taken_for_what_is_refused_for_free(world, desk, body):
    """Malformed, unknown or denied: nobody should pay to hear it."""
    response = await world.rpc(None, body, **{V2: header_v2()})
    assert response.status_code in (200, 400)
    assert desk.paid == []


@pytest.mark.parametrize(
    "header",
    [
        "not base64!",
        base64.b64encode(b"not json").decode(),
        base64.b64encode(b"[]").decode(),
        header_v2(x402Version=1),
        header_v2(payload={}),
        header_v2(payload={"transaction": 7}),
        header_v2(payload={"transaction": "A" * 2_000}),
        header_v2(accepted=None),
        header_v2(accepted=accepted(amount="1e5")),
        "A" * 20_000,
    ],
)
async def test_a_malformed_payment_is_400_with_the_terms(world, desk, header):
    """Nothing is settled, and the client can read how it is done."""
    response = await world.rpc(None, call(), **{V2: header})
    assert response.status_code == 400
    assert "payment-required" in response.headers and "payment-response" not in response.headers
    assert desk.paid == []


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"},
        {"scheme": "upto"},
        {"asset": SPONSOR},
        {"payTo": SPONSOR},
        {"extra": {"feePayer": DEPOSIT_WALLET}},
        {"extra": {}},
        {"amount": "9999"},
    ],
)
async def test_terms_that_were_not_offered_are_refused(world, desk, changes):
    """The echo must be ours; only the amount may be another, from the minimum on."""
    response = await world.rpc(None, call(), **{V2: header_v2(accepted=accepted(**changes))})
    assert response.status_code == 402 and "payment-required" in response.headers
    assert desk.paid == []


@pytest.mark.parametrize("changes", [{"network": "solana"}, {"scheme": "upto"}, {"network": 5}])
async def test_another_network_or_scheme_of_version_1_is_refused(world, desk, changes):
    """A payment for another chain would be settled on this one, or asked of a node that cannot know it."""
    response = await world.rpc(None, call(), **{"X-PAYMENT": header_v1(**changes)})
    assert response.status_code == 402 and "payment-required" in response.headers
    assert desk.paid == []


def test_the_echo_may_hold_more_than_was_offered():
    """Clients echo the blockhash hint, which is another one in every answer, and keys of their own."""
    more = accepted(12_345, extra={"feePayer": SPONSOR, "recentBlockhash": "x", "lastValidBlockHeight": "1", "a": 1})
    found = read_offer([(PAYMENT_V2, header_v2(accepted=more).encode())], PAYMENTS)
    assert found == Offered(2, b"a transaction", 12_345)
    assert isinstance(read_offer([(PAYMENT_V1, header_v1().encode())], PAYMENTS), Offered)


async def test_a_payment_header_that_comes_twice_is_refused(world, desk):
    """Which one is meant is not guessed."""
    sent = [(V2, header_v2()), (V2, header_v2(b"another"))]
    response = await world.http.post("/", content=orjson.dumps(call()), headers=sent)
    assert response.status_code == 400
    assert desk.paid == []


@pytest.mark.parametrize(
    ("lack", "status", "offers"),
    [
        (NotSettled(Lack.INVALID, "some_reason", "why"), 402, True),
        (NotSettled(Lack.DUPLICATE, "duplicate_settlement", "why", "earlier"), 402, True),
        (NotSettled(Lack.REJECTED, "settlement_failed", "why", "failed"), 402, True),
        (NotSettled(Lack.DUPLICATE, "duplicate_settlement", "why", "sent", may_land=True), 402, False),
        (NotSettled(Lack.PENDING, "settlement_pending", "why", "sent", may_land=True), 402, False),
        (NotSettled(Lack.UNAVAILABLE, "settlement_unavailable", "why"), 503, False),
        (NotSettled(Lack.TOO_MANY, "rate_limited", "why"), 429, False),
        (NotSettled(Lack.NOT_SPONSORED, "sponsorship_refused", "why"), 402, False),
    ],
)
async def test_what_was_not_settled_is_told_with_a_receipt(world, desk, lack, status, offers):
    """Threats 24 and 25: the reason and the signature; where it may yet land, no fresh offer beside it."""
    desk.lack = lack
    response = await world.rpc(None, call(id="x"), **{V2: header_v2()})
    assert response.status_code == status
    told = receipt(response)
    assert (told["success"], told["errorReason"], told["transaction"]) == (False, lack.reason, lack.signature)
    assert ("payment-required" in response.headers) == offers
    assert ("accepts" in response.json()) == offers
    assert response.json()["id"] == "x"
    assert world.node.calls == []


ACCOUNT_PAGES = [("GET", "/account/info"), ("GET", "/account/ledger"), ("GET", "/account/history")]


@pytest.mark.parametrize(("method", "path"), [*ACCOUNT_PAGES, ("POST", "/account/confirm-deposit")])
async def test_a_payment_opens_no_page_of_an_account(world, desk, method, path):
    """Threat 51: it is not taken there, and the answer says how the account is reached. Credentials are good
    as ever; the offer to strangers is there for the sign-in that it carries."""
    desk.payer = await world.customer(credits=50)
    body = b'{"signature": "%b"}' % (b"1" * 64)
    paid = await world.http.request(method, path, content=body, headers={V2: header_v2()})
    assert paid.status_code == 402 and "sign in" in paid.json()["error"]["message"]
    assert "payment-required" not in paid.headers and "payment-response" not in paid.headers
    keyed = await world.http.request(
        method, path, content=body, headers={V2: header_v2(), "x-api-key": desk.payer.api_key}
    )
    assert keyed.status_code != 402
    stranger = await world.http.request(method, path, content=body)
    offer = orjson.loads(base64.b64decode(stranger.headers["payment-required"]))
    assert stranger.status_code == 402 and "sign-in-with-x" in offer["extensions"]
    assert desk.paid == []


async def test_paths_that_ask_for_no_payment_take_none(world, desk):
    """Public pages, session paths, and the path that only a wallet's own signature opens."""
    assert (await world.http.get("/pricing", headers={V2: header_v2()})).status_code == 200
    unpayable = await world.http.post("/account/api-key", content=b"{}", headers={V2: header_v2()})
    assert unpayable.status_code == 402 and "payment-required" not in unpayable.headers
    wallet = await world.customer(account=False)
    signed = wallet.headers("POST", "/account/api-key", b"{}")
    response = await world.http.post("/account/api-key", content=b"{}", headers=signed | {V2: header_v2()})
    assert response.status_code == 200
    assert desk.paid == []


async def test_payments_count_against_the_limit_of_their_address(world, desk):
    """Each costs the sponsor a fee at worst, and a simulation always. The refusal of a call is a JSON-RPC error."""
    desk.lack = NotSettled(Lack.INVALID, "some_reason", "why")
    responses = [await world.rpc(None, call(id=7), **{V2: header_v2()}) for _ in range(61)]
    assert {response.status_code for response in responses[:60]} == {402}
    assert len(desk.paid) == 60
    late = responses[60]
    error = late.json()["error"]
    assert (late.status_code, late.json()["id"], error["code"]) == (429, 7, -32005)
    assert error["message"] == Err.RATE_LIMITED.row.message
    assert late.headers["retry-after"] == str(error["data"]["retry_after_secs"]) != "1"
    assert late.headers["x-ratelimit-remaining"] == "0"


async def test_payments_are_counted_by_result(world, desk):
    """Figures for operators: both paths; a payment that was not looked at is a refusal, not a payment."""
    await world.rpc(None, call(), **{V2: header_v2()})
    await world.rpc(None, call(), **{V2: "no payment"})
    desk.lack = NotSettled(Lack.TOO_MANY, "too_many", "later")
    await world.rpc(None, call(), **{V2: header_v2()})
    await world.http.post("/x402/settle", json={"transaction": base64.b64encode(b"t").decode()})
    assert counted(world.metrics, "x402_payments", "result") == {"settled": 1, "too_many": 2}


async def test_without_a_desk_payment_headers_are_not_looked_at():
    """Credentials decide as ever."""
    async with a_world() as world:
        customer = await world.customer(credits=5)
        assert (await world.rpc(customer, call(), **{V2: "nonsense"})).status_code == 200
        settle = await world.http.post("/x402/settle", json={"transaction": "AAAA"})
        assert settle.status_code == 503 and settle.json()["success"] is False


async def test_the_newest_blockhash_is_in_the_offer(world, desk):
    """It saves the payer a question to a node; the terms are made again when it changes."""
    first = (await world.rpc(None, call())).json()["error"]["data"]["x402"]["accepts"][0]["extra"]
    assert first == {"feePayer": SPONSOR}
    desk.hinted = HINT
    second = (await world.rpc(None, call())).json()["error"]["data"]["x402"]["accepts"][0]["extra"]
    assert second == {"feePayer": SPONSOR, "recentBlockhash": HINT.blockhash, "lastValidBlockHeight": "321"}


async def test_settle_answers_as_the_interface_has_it(world, desk):
    """Interface, "Payment settlement": success, transaction, network, message; nothing is credited."""
    body = {"transaction": base64.b64encode(b"a transaction").decode()}
    response = await world.http.post("/x402/settle", json=body)
    told = response.json()
    assert response.status_code == 200
    assert told["success"] is True and told["transaction"] and told["message"]
    assert told["network"] == "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
    assert desk.relayed == [b"a transaction"] and desk.paid == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"transaction": 1}', b'{"transaction": "*"}', b'{"transaction": ""}']
)
async def test_settle_refuses_bodies_that_are_none(world, desk, body):
    """400 with a descriptive `error`."""
    response = await world.http.post("/x402/settle", content=body)
    assert response.status_code == 400 and response.json()["error"]
    assert desk.relayed == []


@pytest.mark.parametrize(
    ("lack", "status"),
    [
        (NotSettled(Lack.INVALID, "r", "why"), 400),
        (NotSettled(Lack.DUPLICATE, "duplicate_settlement", "why", "earlier"), 400),
        (NotSettled(Lack.REJECTED, "r", "why"), 502),
        (NotSettled(Lack.UNAVAILABLE, "r", "why"), 503),
        (NotSettled(Lack.NOT_CONFIGURED, "r", "why"), 503),
        (NotSettled(Lack.TOO_MANY, "r", "why"), 429),
        (NotSettled(Lack.NOT_SPONSORED, "r", "why"), 400),
    ],
)
async def test_settle_errors(world, desk, lack, status):
    """Interface: 400 for what is wrong with the transaction, 502 for what the network refused, 503 where it is off."""
    desk.lack = lack
    response = await world.http.post("/x402/settle", json={"transaction": "AAAA"})
    told = response.json()
    assert response.status_code == status
    assert (told["success"], told["transaction"]) == (False, lack.signature)
    assert lack.reason in told["error"] and lack.message in told["error"]
    assert told["source"] == "gateway" and told["constant"] in Err.__members__
    assert (status in (429, 503)) == ("retry-after" in response.headers)


async def test_settle_says_pending_when_the_verdict_is_unknown(world, desk):
    """Threat 25: never failed, always with the signature."""
    desk.lack = NotSettled(Lack.PENDING, "settlement_pending", "not yet", "sent")
    response = await world.http.post("/x402/settle", json={"transaction": "AAAA"})
    told = response.json()
    assert response.status_code == 202
    assert (told["status"], told["transaction"], told["success"]) == ("pending", "sent", True)
    assert "error" not in told and "payment-required" not in response.headers


async def test_settle_needs_no_credentials_and_is_limited_by_address(world, desk):
    """Interface: unauthenticated; decisions: 60 a minute for each address."""
    statuses = [(await world.http.post("/x402/settle", json={"transaction": "AAAA"})).status_code for _ in range(61)]
    assert set(statuses[:60]) == {200} and statuses[60] == 429


async def test_the_discovery_document_lists_what_can_be_paid_for(world):
    """GET /.well-known/x402.json: public, and the same terms as the 402's."""
    response = await world.http.get("/.well-known/x402.json")
    told = response.json()
    assert response.status_code == 200 and told["enabled"] is True
    assert [resource["url"].rpartition("8080")[2] for resource in told["resources"]] == [
        "/",
        "/rpc",
        "/bulk/getBalances",
        "/bulk/getTokenBalances",
        "/bulk/getTransactions",
    ]
    offered = (await world.rpc(None, call())).json()["error"]["data"]["x402"]
    assert told["resources"][0]["accepts"] == offered["accepts"]
    assert told["settle"].endswith("/x402/settle")
