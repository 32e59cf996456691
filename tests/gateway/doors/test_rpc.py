"""JSON-RPC over HTTP: what is answered, billed and refused, and what its headers say."""

import asyncio
import base64
import json

import pytest

from actors.accounts.api import OwnerUnavailable, SetStatus
from actors.identity.store import IdentityStoreUnavailable
from tests.gateway.doubles import TRANSACTION
from tests.gateway.world import a_world, call, constant
from tests.identity.memory_store import MemoryIdentityStore

CREDIT_HEADERS = ("x-credits-remaining", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


@pytest.mark.parametrize("path", ["/", "/rpc"])
async def test_a_call_is_answered_billed_and_measured(path):
    """The whole of it: result, headers, balance and history agree."""
    async with a_world() as world:
        customer = await world.customer(2_000)
        response = await world.rpc(customer, call("getBlock", 5, id="abc"), path)
        assert response.status_code == 200
        assert response.json() == {"jsonrpc": "2.0", "result": "ok", "id": "abc"}
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-credits-remaining"] == "1975"
        assert response.headers["x-ratelimit-limit"] == "100"
        assert response.headers["x-ratelimit-remaining"] == "99"
        assert int(response.headers["x-ratelimit-reset"]) == world.clock.now() + 1
        assert response.headers["x-request-id"]
        assert "x-credits-low" not in response.headers
        assert await world.balance(customer) == 1_975
        assert await world.debits(customer) == [("getBlock", 25)]


async def test_an_urgency_for_a_signed_transaction_is_told_to_be_without_effect():
    """Interface, sendSmartTransaction: checked, and honestly nothing more."""
    async with a_world() as world:
        customer = await world.customer(100)
        for options, told in (({"priority_fee_urgency": "high"}, True), ({"simulate": False}, False)):
            response = await world.rpc(customer, call("sendSmartTransaction", TRANSACTION, options))
            assert "result" in response.json(), response.text
            assert ("x-priority-fee-urgency" in response.headers) is told


async def test_low_credit_is_flagged():
    """Interface, "Limits": below 1,000 credits."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        assert (await world.rpc(customer, call())).headers["x-credits-low"] == "true"


async def test_all_three_credentials_pay_from_one_account():
    """Interface, "Authentication": API key, wallet signature, session token."""
    async with a_world() as world:
        customer = await world.customer(10)
        body = json.dumps(call()).encode()
        asked = await world.http.post("/auth/challenge", json={"pubkey": customer.text})
        challenge = asked.json()["challenge"]
        verified = await world.http.post(
            "/auth/verify",
            json={"pubkey": customer.text, "challenge": challenge, "signature": customer.sign(challenge)},
        )
        bearer = {"authorization": f"Bearer {verified.json()['token']}"}
        for headers in ({"x-api-key": customer.api_key}, customer.headers("POST", "/rpc", body), bearer):
            response = await world.http.post("/rpc", content=body, headers=headers)
            assert (response.status_code, response.json()["result"]) == (200, "ok")
        assert await world.balance(customer) == 7


@pytest.mark.parametrize("body", [call(), [call(), call()], b"not json"])
async def test_no_credentials_is_402_with_terms(body):
    """Interface, "Priority and failure" 2, before anything else is looked at; nobody may cache it."""
    async with a_world() as world:
        response = await world.rpc(None, body)
        assert response.status_code == 402
        assert response.headers["cache-control"] == "no-store"
        terms = json.loads(base64.b64decode(response.headers["payment-required"]))
        assert terms["accepts"][0]["extra"]["feePayer"]
        assert response.json()["x402Version"] == 1
        assert constant(response) == "PAYMENT_REQUIRED"
        assert not any(name in response.headers for name in CREDIT_HEADERS)
        assert world.accounts.holds == []


async def test_a_402_without_credentials_carries_the_requests_id():
    """JSON-RPC clients match it to their call."""
    async with a_world() as world:
        body = (await world.rpc(None, call(id="mine"))).json()
        assert (body["id"], body["error"]["code"]) == ("mine", -32002)
        assert body["error"]["data"]["minimum_deposit_usdc"] == "0.01"


async def test_a_wallet_without_account_is_402():
    """A valid signature that belongs to no account: payment required, -32002."""
    async with a_world() as world:
        stranger = await world.customer(account=False)
        body = json.dumps(call()).encode()
        response = await world.http.post("/", content=body, headers=stranger.headers("POST", "/", body))
        assert (response.status_code, response.json()["error"]["code"]) == (402, -32002)
        assert "payment-required" in response.headers


async def test_an_account_without_credits_is_402():
    """-32010, 'insufficient credits', with the figures of the account and the terms."""
    async with a_world() as world:
        customer = await world.customer()
        response = await world.rpc(customer, call())
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["message"]) == (402, -32010, "insufficient credits")
        assert response.headers["x-credits-remaining"] == "0"
        assert "payment-required" in response.headers
        assert await world.debits(customer) == []


async def test_an_unknown_key_is_401():
    """Credentials presented but invalid; for free refusals and broken bodies too."""
    async with a_world() as world:
        customer = await world.customer(10)
        customer.api_key = customer.api_key[:-2] + ("AA" if not customer.api_key.endswith("AA") else "BB")
        for body in (call(), call("nope"), b"{", [call()]):
            response = await world.rpc(customer, body)
            assert (response.status_code, constant(response)) == (401, "AUTH_FAILED")
            assert not any(name in response.headers for name in CREDIT_HEADERS)


@pytest.mark.parametrize(
    ("method", "status", "code", "name"),
    [
        ("noSuchMethod", 200, -32601, "METHOD_NOT_FOUND"),
        ("getProgramAccounts", 200, -32601, "METHOD_NOT_FOUND"),
        ("getStakeActivation", 200, -32601, "METHOD_NOT_FOUND"),
        ("getSupply", 200, -32601, "METHOD_NOT_FOUND"),
        ("getTokenLargestAccounts", 200, -32601, "METHOD_NOT_FOUND"),
        ("getInflationReward", 200, -32601, "METHOD_NOT_FOUND"),
        ("getTokenAccountsByDelegate", 200, -32601, "METHOD_NOT_FOUND"),
        ("requestAirdrop", 403, -32601, "METHOD_NOT_ALLOWED"),
        ("getEnrichedTransaction", 200, -32004, "SERVICE_PROFILE_DISABLED"),
        ("getConfirmedTransaction", 200, -32004, "SERVICE_PROFILE_DISABLED"),
        ("sendBundle", 200, -32004, "SERVICE_PROFILE_DISABLED"),
        ("getBalance", 200, -32602, "INVALID_PARAMS"),
    ],
)
async def test_refusals_before_billing_are_free_and_marked_as_ours(method, status, code, name):
    """Interface rules 1, 2 and 8; decisions, "Errors of this service". They carry the account's figures and take no
    rate unit."""
    async with a_world() as world:
        customer = await world.customer(10)
        response = await world.rpc(customer, call(method))
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (status, code)
        assert (error["data"]["source"], error["data"]["constant"]) == ("gateway", name)
        assert error["data"]["requestId"] == response.headers["x-request-id"]
        assert response.headers["x-credits-remaining"] == "10"
        assert response.headers["x-ratelimit-remaining"] == "100"
        assert (await world.balance(customer), world.node.calls) == (10, [])


async def test_the_rate_limit_is_429_with_its_headers():
    """-32005; nothing is charged, and the window's end lets calls in again."""
    async with a_world(accounts={"requests_per_second": 2}) as world:
        customer = await world.customer(10)
        responses = [await world.rpc(customer, call()) for _ in range(3)]
        assert [response.status_code for response in responses] == [200, 200, 429]
        refused = responses[2]
        assert refused.json()["error"]["message"] == "rate limit exceeded"
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["x-ratelimit-remaining"] == "0"
        assert refused.headers["x-credits-remaining"] == "8"
        world.clock.advance(1)
        assert (await world.rpc(customer, call())).status_code == 200
        assert await world.balance(customer) == 7


async def test_a_batch_that_was_refused_for_its_rate_says_when_to_ask_again():
    """Each refused item by itself, and the answer as a whole where nothing of it was admitted."""
    async with a_world(accounts={"requests_per_second": 2}) as world:
        customer = await world.customer(10)
        part, none = [await world.rpc(customer, [call() for _ in range(3)]) for _ in range(2)]
        refused = [item["error"]["data"] for item in (part.json()[2], *none.json())]
        assert [(data["constant"], data["retry_after_secs"]) for data in refused] == [("RATE_LIMITED", 1)] * 4
        assert "retry-after" not in part.headers and none.headers["retry-after"] == "1"
        assert (part.status_code, none.status_code) == (200, 200) and await world.balance(customer) == 8
        mixed = await world.rpc(customer, [call(), call("getNothing")])
        assert "retry-after" not in mixed.headers


async def test_the_concurrency_limit_is_429():
    """-32005 with its own message; the slot is free again when a call ends."""
    async with a_world(accounts={"concurrency": 1}) as world:
        customer = await world.customer(10)
        world.node.gate = asyncio.Event()
        first = asyncio.ensure_future(world.rpc(customer, call()))
        await world.node.asked.wait()
        second = await world.rpc(customer, call())
        assert (second.status_code, second.json()["error"]["message"]) == (429, "concurrency limit exceeded")
        world.node.gate.set()
        assert (await first).status_code == 200
        assert (await world.rpc(customer, call())).status_code == 200


async def test_a_suspended_account_is_403():
    """Decisions: every paid call gives METHOD_NOT_ALLOWED; reads still work."""
    async with a_world() as world:
        customer = await world.customer(10)
        await world.shard.ask(SetStatus(customer.pubkey, "suspended", "test"))
        response = await world.rpc(customer, call())
        assert (response.status_code, response.json()["error"]["code"]) == (403, -32001)
        assert (await world.rpc(customer, [call()])).status_code == 403
        assert await world.balance(customer) == 10


async def test_a_lack_of_credits_names_the_price_and_the_credits():
    """So that a client knows how much to deposit; in a batch each item its own."""
    async with a_world() as world:
        customer = await world.customer(10)
        single = await world.rpc(customer, call("getBlock", 5))
        batch = await world.rpc(customer, [call(), call("getBlock", 5)])
        for error, available in ((single.json()["error"], 10), (batch.json()[1]["error"], 9)):
            data = error["data"]
            assert (error["code"], data["required_credits"], data["available_credits"]) == (-32010, 25, available)
        assert [method for method, _, _ in world.node.calls] == ["getSlot"]
        assert "required_credits" not in (await world.rpc(None, call())).text


async def test_credits_that_are_not_known_are_not_told():
    """When a charge cannot be recorded its owner tells no balance: a client that reads 0 and "low" would deposit."""
    tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getSlot"}}
    async with a_world() as world:
        customer = await world.customer(5_000)

        async def away(request):
            raise OwnerUnavailable

        world.accounts.settle = world.accounts.charge = away
        bulk = {"addresses": [customer.text]}
        for path, body in (("/", call()), ("/", [call()]), ("/mcp", tool), ("/bulk/getBalances", bulk)):
            headers = {"content-type": "application/json"}
            response = await world.rpc(customer, body, path, **headers)
            assert "could not be recorded" in response.text, response.text
            assert response.headers["x-ratelimit-limit"] == "100"
            assert "x-credits-remaining" not in response.headers and "x-credits-low" not in response.headers, path


async def test_an_owner_that_is_away_is_503_with_a_hint():
    """Money rule 9: paid calls are refused; a batch as a whole."""
    async with a_world() as world:
        customer = await world.customer(10)
        world.accounts.down = True
        single, batch = await world.rpc(customer, call()), await world.rpc(customer, [call()])
        assert (single.status_code, single.json()["error"]["code"]) == (503, -32003)
        assert single.json()["error"]["data"]["retry_after_secs"] == 5
        assert (batch.status_code, constant(batch)) == (503, "SERVICE_TEMPORARILY_UNAVAILABLE")
        assert single.headers["retry-after"] == batch.headers["retry-after"] == "5" and world.node.calls == []
        assert (await world.rpc(customer, call("nope"))).status_code == 200
        world.accounts.down = False
        assert await world.debits(customer) == []


async def test_a_nonce_is_taken_once_and_only_by_a_good_signature():
    """403 NONCE_REUSED for the second; a bad signature burns nothing."""
    async with a_world() as world:
        customer = await world.customer(10)
        body = json.dumps(call()).encode()
        signed = customer.headers("POST", "/", body, nonce="once")
        forged = signed | {"x-signature": customer.sign("x")}
        statuses = [
            (await world.http.post("/", content=body, headers=headers)).status_code
            for headers in (forged, signed, signed)
        ]
        assert statuses == [401, 200, 403]
        assert await world.balance(customer) == 9


class NoRedis(MemoryIdentityStore):
    """Redis is away."""

    async def take_nonces(self, *_, **named):
        raise IdentityStoreUnavailable("away")

    claim_nonces = forget_nonces = load_session = count_address = take_nonces


async def test_without_redis_keys_go_on_and_signatures_wait():
    """Design, "What must survive what": a replay could not be refused, so signed calls get 503; API keys are served."""
    store = MemoryIdentityStore()
    async with a_world(identity_store=store) as world:
        customer = await world.customer(10)
        store.__class__ = NoRedis
        body = json.dumps(call()).encode()
        signed = await world.http.post("/", content=body, headers=customer.headers("POST", "/", body))
        assert (signed.status_code, signed.json()["error"]["code"]) == (503, -32003)
        assert (await world.rpc(customer, call())).status_code == 200


def a_large_batch() -> list:
    """Of ordinary calls, together above the size from which a request is a large one."""
    key = "So11111111111111111111111111111111111111112"
    return [call("getMultipleAccounts", [key] * 50, id=number) for number in range(12)]


async def test_a_large_body_is_not_read_before_its_credential_is_known_to_be_good(monkeypatch):
    """Threat 61: with a made-up key, 256 kB cost the replica one question to the owner, and no parsing."""
    async with a_world() as world:
        stranger = await world.customer(account=False)
        monkeypatch.setattr("actors.gateway.doors.rpc.jsonrpc.parse", None)
        made_up = {"x-api-key": "srpc_live_" + base64.urlsafe_b64encode(bytes(32)).decode().rstrip("=")}
        body = json.dumps(a_large_batch()).encode()
        response = await world.http.post("/", content=body, headers=made_up)
        assert (response.status_code, constant(response)) == (401, "AUTH_FAILED")
        signed = await world.http.post("/", content=body, headers=stranger.headers("POST", "/", body))
        assert (signed.status_code, constant(signed)) == (402, "PAYMENT_REQUIRED")
        assert [hold.items for hold in world.accounts.holds] == [(), ()]


@pytest.mark.threat(63)
async def test_a_strangers_batch_is_not_read_before_its_credential_is_known_to_be_good(monkeypatch):
    """Threat 63: a batch of 100 calls takes 0.5 ms to read, and anybody can make up keys. A known customer's is read at
    once, and the single call of a stranger is refused under its id."""
    async with a_world() as world:
        made_up = {"x-api-key": "srpc_live_" + base64.urlsafe_b64encode(bytes(32)).decode().rstrip("=")}
        single = json.dumps(call("getMultipleAccounts", ["a" * 32] * 40, id="mine")).encode()
        response = await world.http.post("/", content=single, headers=made_up)
        assert len(single) > 1_024 and (response.status_code, constant(response)) == (401, "AUTH_FAILED")
        customer = await world.customer()
        batch = json.dumps([call()] * 100).encode()
        assert (await world.rpc(customer, batch)).status_code == 200
        before = len(world.accounts.holds)
        assert (await world.rpc(customer, batch)).status_code == 200
        assert [len(hold.items) for hold in world.accounts.holds[before:]] == [100]
        monkeypatch.setattr("actors.gateway.doors.rpc.jsonrpc.parse", None)
        response = await world.http.post("/", content=batch, headers=made_up)
        assert (response.status_code, constant(response)) == (401, "AUTH_FAILED")


@pytest.mark.threat(61)
async def test_large_bodies_with_made_up_keys_count_by_their_bytes():
    """They are not parsed, but each had to be received: 250 kB are 61 refused calls, of 500 that an address has."""
    async with a_world() as world:
        made_up = {"x-api-key": "srpc_live_" + base64.urlsafe_b64encode(bytes(32)).decode().rstrip("=")}
        body = b"[" + b" " * 250_000 + b"]"
        seen = [(await world.http.post("/", content=body, headers=made_up)).status_code for _ in range(12)]
        assert seen == [401] * 9 + [429] * 3, seen


async def test_a_newcomers_large_batch_is_answered_by_each_credential():
    """Rule: proving a credential before the body is read uses its nonce once, and costs no credit and no rate unit."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        body = json.dumps(a_large_batch()).encode()
        assert len(body) > 16_384
        for headers in (customer.headers("POST", "/", body), {"x-api-key": customer.api_key}):
            response = await world.http.post("/", content=body, headers=headers)
            assert [item["result"] for item in response.json()] == ["ok"] * 12
            world.clock.advance(1)
        assert response.headers["x-ratelimit-remaining"] == "88"
        assert len(await world.debits(customer)) == 24


async def test_refused_large_bodies_make_their_sender_wait_after_few_of_them():
    """Rule: refusals count by cost, so that eight bodies of 256 kB are worth the 500 refused calls of a second."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        body = b'{"jsonrpc":"2.0","id":1,"method":"invented","params":["' + b"x" * 262_000 + b'"]}'
        headers = {"x-api-key": customer.api_key}
        told = [constant(await world.http.post("/", content=body, headers=headers)) for _ in range(10)]
        assert told == ["METHOD_NOT_FOUND"] * 8 + ["RATE_LIMITED"] * 2
        world.clock.advance(1)
        assert "result" in (await world.rpc(customer, call())).json()
