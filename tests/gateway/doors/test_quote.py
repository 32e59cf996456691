"""POST /quote: what calls cost is told before they are made, for free, and the later charge keeps to it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.accounts.key_requests import CreateKey
from actors.accounts.named_keys import KeyLimits
from actors.gateway.calls.large_requests import SLICE_BYTES
from actors.methods.catalog import DOCUMENTS, METHODS, TAKE_TRANSACTIONS
from actors.upstream import replies
from tests.gateway.doubles import RESULT, TRANSACTION, node_error
from tests.gateway.world import a_world, call, constant
from tests.idempotency.memory_store import MemoryIdempotencyStore

KEY = "So11111111111111111111111111111111111111112"
BASE64 = {"encoding": "base64"}
SIGNED: dict[str, list[Any]] = {
    "sendTransaction": [TRANSACTION, BASE64],
    "sendSmartTransaction": [TRANSACTION],
    "sendAndConfirm": [TRANSACTION],
    "simulateTransaction": [TRANSACTION, BASE64],
    "simulateBundle": [{"transactions": [TRANSACTION]}],
    "sendBundle": [[TRANSACTION], BASE64],
}
CALLS = [
    call(name, *(SIGNED[name] if name in SIGNED else DOCUMENTS[name].example or [] if name in DOCUMENTS else []))
    for name in METHODS
]
BUILT = call("executeSnipe", {"mint": KEY, "amount_sol": 1})
ENDS = [RESULT, node_error(-32009, "skipped"), replies.UNREACHABLE, replies.TIMED_OUT]


class Part:
    """The racer and the builders: they charge what a test says."""

    def __init__(self) -> None:
        self.posted, self.built = 50, 75

    async def race(self, params: bytes, hold: Any, timeout_ms: int) -> Any:
        if hold.method == "getSendStatus":
            return replies.made(b"{}")
        return replies.made_deferred(b"{}", posted=self.posted)

    async def build(self, params: bytes, pubkey: bytes, timeout_ms: int) -> Any:
        return replies.made_quoted(b"{}", self.built)


class Built:
    """Counts what is built."""

    def __init__(self, part: Part) -> None:
        self._part, self.count = part, 0

    async def __call__(self, params: bytes, pubkey: bytes, timeout_ms: int) -> Any:
        self.count += 1
        return await self._part.build(params, pubkey, timeout_ms)


def offered(part: Part) -> dict[str, Any]:
    callers = dict.fromkeys(("sendAndConfirm", "getSendStatus"), part.race)
    # No limit of the address: a property asks often.
    return {
        "callers": callers,
        "quotes": dict.fromkeys(("executeSnipe", "executeSell"), part.build),
        "relay": True,
        "peers_are_clients": False,
        "accounts": {"requests_per_second": 10_000, "concurrency": 1_000},
    }


def test_every_method_of_the_catalog_is_quoted():
    """The list of this test has all of them, with parameters that are admitted."""
    assert {one["method"] for one in CALLS} == set(METHODS) and set(SIGNED) == TAKE_TRANSACTIONS


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(st.sampled_from(CALLS), min_size=1, max_size=12) | st.just(CALLS),
    end=st.sampled_from(ENDS),
    posted=st.sampled_from([0, 2, 50]),
)
async def test_a_quote_equals_the_later_charge_or_bounds_it(asked, end, posted):
    """Exact and answered: equal. Exact and not answered, or a ceiling: at most that. Quoted errors come, for free."""
    part = Part()
    part.posted = posted
    async with a_world(**offered(part)) as world:
        customer = await world.customer(100_000)
        world.node.answer = lambda method, params: end
        quote = (await world.rpc(customer, asked, "/quote")).json()
        ceilings = [item.ceiling for hold in world.accounts.holds for item in hold.items]
        assert world.accounts.settles == [] and not any(ceilings)
        assert world.node.calls == []
        done = await world.rpc(customer, asked)
        charged = int(done.headers.get("x-credits-cost", 0))
        assert charged <= quote["credits"] == sum(one.get("credits", 0) for one in quote["calls"])
        for one, answer, wanted in zip(quote["calls"], done.json(), asked, strict=True):
            assert one["id"] == wanted["id"]
            if "error" in one:
                assert {**one["error"], "data": 0} == {**answer["error"], "data": 0}
                assert one["error"]["data"]["constant"] == answer["error"]["data"]["constant"]
            else:
                assert one["method"] == wanted["method"] and one["exact"] is ("reason" not in one)
        if quote["exact"] and end is RESULT:
            assert charged == quote["credits"]


async def test_a_quote_needs_no_credential_and_no_credits():
    """A single call gives a list of one; ids come back byte for byte."""
    async with a_world(**offered(Part())) as world:
        response = await world.rpc(None, b'{"jsonrpc":"2.0","id":1.50,"method":"getBlock","params":[5]}', "/quote")
        assert response.status_code == 200
        assert response.text == (
            '{"credits":25,"exact":false,"calls":[{"id":1.50,"method":"getBlock","credits":25,"exact":false,'
            '"reason":"13 credits if the cache has the answer, else 25"}]}'
        )
        landing = (await world.rpc(None, call("sendAndConfirm", TRANSACTION), "/quote")).json()
        assert landing["exact"] is False and landing["calls"][0]["reason"] == "50 credits if it lands, else 2"
        assert world.accounts.holds == [] and world.node.calls == []


async def test_a_builder_is_priced_for_accounts_alone():
    """The node is asked about it, so a stranger's request must not cause that; a bad credential is 401."""
    part = Part()
    async with a_world(**offered(part)) as world:
        stranger = (await world.rpc(None, [call(), BUILT], "/quote")).json()
        assert (stranger["credits"], stranger["exact"]) == (1, False)
        assert stranger["calls"][1]["error"]["data"]["constant"] == "PAYMENT_REQUIRED"
        paying = await world.rpc(None, BUILT, "/quote", **{"payment-signature": "x"})
        assert paying.json()["calls"][0]["error"]["data"]["constant"] == "PAYMENT_REQUIRED"
        refused = await world.rpc(None, BUILT, "/quote", **{"x-api-key": "a" * 64})
        assert (refused.status_code, constant(refused)) == (401, "AUTH_FAILED")
        customer = await world.customer(1_000)
        priced = await world.rpc(customer, BUILT, "/quote")
        (one,) = priced.json()["calls"]
        assert (one["credits"], one["exact"]) == (75, False) and priced.headers["x-credits-remaining"] == "1000"
        paid = await world.rpc(customer, BUILT, **{"x-max-credits": "75"})
        assert paid.headers["x-credits-cost"] == "75" and await world.debits(customer) == [("executeSnipe", 75)]
        poor = await world.customer(1)
        refused_item = (await world.rpc(poor, BUILT, "/quote")).json()["calls"][0]
        assert refused_item["error"]["data"]["constant"] == "INSUFFICIENT_CREDITS"
        world.accounts.down = True
        assert (await world.rpc(customer, BUILT, "/quote")).status_code == 503


@pytest.mark.parametrize(
    "body",
    [b"", b"nothing", b"[]", b"7", b"[" * 10_000, json.dumps([call()] * 101).encode(), b'{"jsonrpc":"2.0","id":1}'],
)
async def test_a_body_that_is_refused_whole_is_refused_here(body):
    """As POST / refuses it, and without a credential."""
    async with a_world() as world:
        response = await world.rpc(None, body, "/quote")
        assert (response.status_code, constant(response)) == (400, "INVALID_REQUEST")


async def test_bad_items_have_their_errors_in_place():
    """In order, as in a batch."""
    async with a_world() as world:
        body = [7, call("requestAirdrop"), call("getBalance", 7), {**call(), "params": {}}, call()]
        quote = (await world.rpc(None, body, "/quote")).json()
        assert [one.get("error", {}).get("code") for one in quote["calls"]] == [-32600, -32601, -32602, -32602, None]
        assert (quote["credits"], quote["exact"]) == (1, True)


async def test_quotes_of_builders_end_with_the_accounts_rate():
    """Each takes a rate unit, as the node was asked for it; quotes that ask nobody take none."""
    part = Part()
    async with a_world(**{**offered(part), "accounts": {"requests_per_second": 3}}) as world:
        customer = await world.customer(1_000)
        assert (await world.rpc(customer, call(), "/quote")).status_code == 200
        first = await world.rpc(customer, [BUILT, call(), BUILT], "/quote")
        assert first.json()["credits"] == 151 and first.headers["x-ratelimit-remaining"] == "1"
        assert (await world.rpc(customer, BUILT, **{"x-max-credits": "74"})).status_code == 412
        for path in ("/quote", "/"):
            refused = (await world.rpc(customer, BUILT, path)).json()
            error = refused["calls"][0]["error"] if path == "/quote" else refused["error"]
            assert error["data"]["constant"] == "RATE_LIMITED"
        assert await world.debits(customer) == []


async def test_no_builder_works_for_a_key_that_may_not_call_it_nor_uses_up_the_rate():
    """Decisions, "Named keys": the owner judges method and rate before anything is built. What is refused takes no
    unit, and what is only priced takes one of the key's too."""
    part = Part()
    built, few = Built(part), {"requests_per_second": 3}
    offer = offered(part) | {"quotes": {"executeSnipe": built}, "accounts": few}
    async with a_world(**offer, idempotency=MemoryIdempotencyStore()) as world:
        wallet = await world.customer(10_000)

        async def key(name: str, **limits: Any) -> dict[str, str]:
            made = (await world.accounts.ask(CreateKey(wallet.pubkey, name, KeyLimits(**limits)))).value
            return {"x-api-key": made.text}

        reads, slow = await key("reads", methods=("getSlot",)), await key("slow", requests_per_second=1)
        for _ in range(5):
            quote = await world.rpc(None, [BUILT, call()], "/quote", **reads)
            error = quote.json()["calls"][0]["error"]
            assert error["data"]["constant"] == "METHOD_NOT_ALLOWED" and quote.headers["x-ratelimit-remaining"] == "3"
            for more in ({}, {"idempotency-key": "one"}):
                refused = await world.rpc(None, BUILT, "/", **reads, **more)
                assert (refused.status_code, constant(refused)) == (403, "METHOD_NOT_ALLOWED")
        assert built.count == 0
        priced = [(await world.rpc(None, BUILT, "/quote", **slow)).json()["calls"][0] for _ in range(3)]
        assert ["credits" in one for one in priced] == [True, False, False] and built.count == 1
        assert priced[1]["error"]["data"]["constant"] == "RATE_LIMITED"
        own = [(await world.rpc(wallet, BUILT, "/quote")).json()["calls"][0] for _ in range(3)]
        assert ["credits" in one for one in own] == [True, True, False], "one unit of the account's is the key's"
        world.clock.advance(1)
        paid = await world.rpc(None, BUILT, "/", **slow)  # The unit is taken once.
        assert (paid.status_code, paid.headers["x-credits-cost"]) == (200, "75")
        assert paid.headers["x-ratelimit-remaining"] == "0"


async def test_quotes_have_the_limit_of_their_address():
    """Threat 35: as the other paths that anybody may ask."""
    async with a_world(identity={"address_requests_per_minute": 2}) as world:
        statuses = [(await world.rpc(None, call(), "/quote")).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_a_large_quote_is_checked_in_slices_in_a_line_of_its_own():
    """Threat 61: nobody's credential is asked for here, and 100 transactions took 100 ms of the loop in one step."""
    signed = call("sendTransaction", TRANSACTION, BASE64)
    async with a_world() as world:
        asked = asyncio.ensure_future(world.rpc(None, [signed] * 100, "/quote"))
        rounds = 0
        while not asked.done():
            await asyncio.sleep(0)
            rounds += 1
        assert (await asked).json()["credits"] == 200
        assert rounds > len(json.dumps(signed)) * 100 // (2 * SLICE_BYTES)


async def test_a_quote_that_finds_its_line_full_is_told_to_come_again(monkeypatch):
    """Rule: the bodies of quotes that wait are bounded for each address."""
    monkeypatch.setattr("actors.gateway.doors.quote._ADDRESS_WAITING_BYTES_MAX", 1_000)
    async with a_world() as world:
        asked = [call("sendTransaction", TRANSACTION, BASE64)] * 100
        assert (await world.rpc(None, asked, "/quote")).status_code == 503
        assert (await world.rpc(None, call(), "/quote")).status_code == 200
