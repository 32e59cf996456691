"""Each account pays by its price list, from its next call on: charge, header, ledger, quote, limit and page agree.

Rule: decisions, "Price lists"; money rule 1. Through the real door and a real owner, in one process.
"""

import asyncio
from typing import Any

import httpx
import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.clock import ManualClock
from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.accounts.memory_store import MemoryAccountStore
from tests.gateway.doubles import RESULT, ScriptedNode
from tests.gateway.world import Pages, Wallet, World, a_world, call, constant

LISTS = {
    "wholesale": {"percent": 60, "methods": {"getBlock": 7, "bulk/getBalances": 3, "executeSell": 9}},
    "dear": {"percent": 300},
}
KEY = "11111111111111111111111111111111"
PRICES = {"": (25, 1, 5), "wholesale": (7, 1, 3), "dear": (75, 3, 15), "gone": (25, 1, 5)}  # Of the three below.
METHODS = (("getBlock", 5), ("getSlot",), ("getTransaction", "5" * 87))


def answered(method: str, params: bytes) -> NodeAnswer:
    if not method.startswith("bulk/"):
        return RESULT
    items = orjson.loads(params)["items"]
    return replies.made_of_pieces(b'{"results":[],"errors":[]}', len(items), len(items), "node-1")


def world(**more: Any) -> Any:
    return a_world(ScriptedNode(answered), pricing={"lists": LISTS}, relay=True, **more)


async def paid(there: World, wallet: Wallet, one: Any, path: str = "/", **sent: str) -> int:
    """Make a call, and return what it cost, as header, balance and ledger agree."""
    before, known = await there.balance(wallet), len(await there.debits(wallet))
    answer = await there.rpc(wallet, one, path, **sent)
    assert answer.status_code == 200, answer.text
    cost = int(answer.headers["x-credits-cost"])
    assert before - await there.balance(wallet) == cost == int(before - int(answer.headers["x-credits-remaining"]))
    assert sum(credits for _, credits in (await there.debits(wallet))[known:]) == cost
    return cost


@pytest.mark.parametrize("name", list(PRICES))
async def test_a_call_costs_what_the_list_of_its_account_says(name: str) -> None:
    """At the first call of a credential here too; a list that the settings lack has the public prices."""
    async with world() as there:
        wallet, other = await there.customer(1_000), await there.customer(1_000)
        if name:
            await there.give_list(wallet, name)
        for _ in range(2):
            for method, price, public in zip(METHODS, PRICES[name], PRICES[""], strict=True):
                assert await paid(there, wallet, call(*method)) == price
                assert await paid(there, other, call(*method)) == public


async def test_a_list_that_changes_counts_from_the_next_call_on_and_asks_once_more_at_most() -> None:
    async with world() as there:
        wallet = await there.customer(10_000)
        for name in ("wholesale", "dear", "gone", "", "dear", "wholesale", ""):
            await there.give_list(wallet, name)
            for asked in (2, 1):
                there.accounts.holds.clear()
                there.accounts.charges.clear()
                await there.rpc(wallet, call("getBlock", 5))
                ahead = [one.hold for one in there.accounts.charges]
                holds = [*ahead, *(one for one in there.accounts.holds if one.items)]
                assert len(holds) <= asked and holds[-1].price_list == name
                assert holds[-1].items[0].ceiling == PRICES[name][0]
        debits = [credits for _, credits in await there.debits(wallet)]
        assert debits == [price for price in (7, 75, 25, 25, 75, 7, 25) for _ in range(2)]


async def test_a_call_that_is_held_pays_the_price_of_its_hold() -> None:
    """The list changes while the node answers: that call pays as before, the next one as after."""
    async with world() as there:
        wallet, gate = await there.customer(1_000), asyncio.Event()
        there.node.gate = gate
        under_way = asyncio.create_task(there.rpc(wallet, call("getBlock", 5)))
        while not there.accounts.holds or not there.accounts.holds[-1].items:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await there.give_list(wallet, "dear")
        gate.set()
        there.node.gate = None
        assert (await under_way).headers["x-credits-cost"] == "25"
        assert await paid(there, wallet, call("getBlock", 5)) == 75


async def test_percentages_that_change_between_starts_are_charged_from_the_start_on() -> None:
    """Balances and the names of lists live on; prices are those of the settings, or the public ones without them."""
    clock = ManualClock()
    store, wallet = MemoryAccountStore(clock), None
    for lists, cost in (({"a": {"percent": 60}}, 15), ({"a": {"percent": 80}}, 20), ({}, 25), ({"a": {}}, 25)):
        pricing = {"lists": lists}
        async with a_world(ScriptedNode(answered), account_store=store, clock=clock, pricing=pricing) as there:
            if wallet is None:
                wallet = await there.customer(1_000)
                await there.give_list(wallet, "a")
            assert [await paid(there, wallet, call("getBlock", 5)) for _ in range(2)] == [cost, cost]
            quoted = (await there.rpc(wallet, call("getBlock", 5), "/quote")).json()
            assert quoted["credits"] == cost
    assert store.rows[wallet.pubkey].head.balance == 1_000 - 2 * (15 + 20 + 25 + 25)


STEPS = st.lists(
    st.tuples(st.sampled_from(list(PRICES)), st.integers(0, 1), st.sampled_from(["key", "wallet"]), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15)
@given(steps=STEPS)
async def test_every_replica_charges_by_the_list_of_the_moment(steps: list[tuple[str, int, str, bool]]) -> None:
    """Two replicas that are told nothing: whoever calls where, by which credential, after whatever changes, pays what
    the list says now, singly and in a batch; and each hold is asked for twice at most."""
    async with world() as there:
        wallet, second = (
            await there.customer(100_000),
            HttpDoor(
                Dependencies(
                    *(there.config, there.accounts, there.node, there.identity_store, Pages(), there.clock),
                    replica_id=b"replica2",
                )
            ),
        )
        clients = [there.http, httpx.AsyncClient(transport=httpx.ASGITransport(second), base_url="http://second.test")]
        total = 0
        for name, replica, credential, is_batch in steps:
            await there.give_list(wallet, name)
            there.clock.advance(1)
            calls = [call("getBlock", 5, id=number) for number in range(3)]
            body = orjson.dumps(calls if is_batch else calls[0])
            sent = {"x-api-key": wallet.api_key} if credential == "key" else wallet.headers("POST", "/", body)
            there.accounts.holds.clear()
            there.accounts.charges.clear()
            answer = await clients[replica].post("/", content=body, headers=sent)
            cost = PRICES[name][0] * (3 if is_batch else 1)
            assert answer.status_code == 200 and int(answer.headers["x-credits-cost"]) == cost, answer.text
            assert len(there.accounts.holds) + len(there.accounts.charges) <= 2
            total += cost
        assert await there.balance(wallet) == 100_000 - total
        assert sum(credits for _, credits in await there.debits(wallet)) == total
        await second.close()
        await clients[1].aclose()


async def test_lists_that_change_under_load_lose_nothing_and_charge_no_price_between() -> None:
    """Threat 11: each call costs one of the prices there are, and the balance is what the ledger says."""
    async with world() as there:
        wallet = await there.customer(100_000)
        seen: list[int] = []

        async def caller() -> None:
            for _ in range(15):
                answer = await there.rpc(wallet, call("getBlock", 5))
                assert answer.status_code == 200, answer.text
                seen.append(int(answer.headers["x-credits-cost"]))

        async def operator() -> None:
            for name in ("wholesale", "dear", "", "gone", "wholesale") * 3:
                await there.give_list(wallet, name)
                await asyncio.sleep(0)

        await asyncio.gather(*(caller() for _ in range(4)), operator())
        assert len(seen) == 60 and set(seen) <= {7, 25, 75}
        assert sorted(credits for _, credits in await there.debits(wallet)) == sorted(seen)
        assert await there.balance(wallet) == 100_000 - sum(seen)


async def test_a_batch_costs_the_listed_price_of_each_call_though_its_slots_come_one_by_one() -> None:
    """Its later calls are held when the earlier ones end, at what the list says then."""
    async with world(accounts={"concurrency": 1}) as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "wholesale")
        asked = [call("getBlock", 5, id=number) for number in range(4)]
        assert await paid(there, wallet, asked) == 4 * 7
        there.node.gate = gate = asyncio.Event()
        there.accounts.holds.clear()
        under_way = asyncio.create_task(there.rpc(wallet, asked))
        while not there.accounts.holds:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await there.give_list(wallet, "dear")
        gate.set()
        assert (await under_way).headers["x-credits-cost"] == str(7 + 3 * 75)
        assert await there.balance(wallet) == 1_000 - 28 - 232


async def test_bulk_lists_and_the_relay_cost_their_listed_prices() -> None:
    async with world() as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "wholesale")
        two = {"addresses": [KEY, "1111111111111111111111111111111a"]}
        answer = await there.rpc(wallet, {"addresses": [KEY]}, "/bulk/getBalances")
        assert answer.headers["x-credits-cost"] == "3", two
        owners = await there.rpc(wallet, {"owners": [KEY]}, "/bulk/getTokenBalances")
        assert owners.headers["x-credits-cost"] == "3"  # 60 % of 5.
        there.node.answer = lambda method, params: replies.made(b"[]")
        assert await paid(there, wallet, call("getBundleStatuses", ["a"]), "/relay/bundles") == 2
        assert await there.debits(wallet) == [
            ("bulk/getBalances", 3),
            ("bulk/getTokenBalances", 3),
            ("relay/getBundleStatuses", 2),
        ]


async def test_an_answer_from_the_cache_costs_its_part_of_the_listed_price() -> None:
    async with world() as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "wholesale")
        there.node.answer = lambda method, params: msgspec.structs.replace(RESULT, cache="hit")
        assert await paid(there, wallet, call("getBlock", 5)) == 4  # Half of 7.
        assert await paid(there, wallet, call("getTransaction", "5" * 87)) == 2  # Half of 3.


@pytest.mark.parametrize(("name", "least"), [("wholesale", 7), ("dear", 75)])
@pytest.mark.parametrize("batch", [False, True])
async def test_the_limit_of_a_call_is_judged_by_the_prices_of_its_account(name: str, least: int, batch: bool) -> None:
    """X-Max-Credits of a caller whom this replica has never seen, and whose list it guesses wrong."""
    one = [call("getBlock", 5)] if batch else call("getBlock", 5)
    for most, is_let in ((least - 1, False), (least, True)):
        async with world() as there:
            wallet = await there.customer(1_000)
            await there.give_list(wallet, name)
            answer = await there.rpc(wallet, one, **{"x-max-credits": str(most)})
            found = answer.json()[0] if batch else answer.json()
            assert ("result" in found) is is_let, found
            if not is_let:
                assert found["error"]["data"]["constant"] == "MAX_CREDITS_EXCEEDED"
            assert sum(credits for _, credits in await there.debits(wallet)) == (least if is_let else 0)


async def test_a_signed_request_with_a_limit_uses_its_nonce_once() -> None:
    """Money rule 11: its list is asked for with it, and its call is made as the account that it proved."""
    async with world() as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "wholesale")
        body = orjson.dumps(call("getBlock", 5))
        signed = wallet.headers("POST", "/", body) | {"x-max-credits": "7"}
        first = await there.http.post("/", content=body, headers=signed)
        assert first.status_code == 200 and first.headers["x-credits-cost"] == "7"
        assert constant(await there.http.post("/", content=body, headers=signed)) == "NONCE_REUSED"
        plain = wallet.headers("POST", "/", body)
        assert (await there.http.post("/", content=body, headers=plain)).headers["x-credits-cost"] == "7"


async def test_quote_page_and_account_name_the_prices_of_the_asker() -> None:
    async with world() as there:
        wallet, other = await there.customer(1_000), await there.customer(1_000)
        await there.give_list(wallet, "wholesale")
        asked = [call("getBlock", 5), call("getSlot", id=2)]
        for who, total in ((wallet, 8), (other, 26), (None, 26), (wallet, 8)):
            quoted = await there.rpc(who, asked, "/quote")
            assert quoted.status_code == 200 and quoted.json()["credits"] == total
        info = await there.http.get("/account/info", headers={"x-api-key": wallet.api_key})
        assert info.json()["price_list"] == "wholesale"
        info = await there.http.get("/account/info", headers={"x-api-key": other.api_key})
        assert info.json()["price_list"] == "public"
