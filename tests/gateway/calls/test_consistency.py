"""X-Consistency through the real door and the real owner of accounts: what is promised, refused and charged."""

import asyncio
import random

import pytest

from actors.gateway.calls.consistency import MALFORMED, one_monotonic, parse_consistency, with_consistency
from actors.gateway.calls.jsonrpc import NO_ID, BadCall, Call
from actors.upstream import monotonic_reads
from tests.gateway.world import a_world, call, constant
from tests.upstream.lagging import ADDRESS, of

MONOTONIC = {"x-consistency": "monotonic"}
MCP = {"content-type": "application/json"}
BALANCE = call("getBalance", ADDRESS, {"commitment": "confirmed"})
# Of another address, so that no answer in the cache is still the newest.
OTHER = call("getBalance", "So11111111111111111111111111111111111111112", {"commitment": "confirmed"})
TOOL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getSlot", "arguments": {}}}
BULK = {"addresses": [ADDRESS]}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(monotonic_reads, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(monotonic_reads, "WAIT_SECONDS", 0.02)


def slot_in(response) -> int:
    return response.json()["result"]["context"]["slot"]


@pytest.mark.parametrize(("value", "wanted"), [(b"any", False), (b"monotonic", True), (b" monotonic\t", True)])
def test_the_two_words_of_the_header(value, wanted):
    """Decisions, "Monotonic reads": any other word is refused."""
    assert parse_consistency(value) is wanted


def test_a_call_carries_the_wish():
    asked, bad = Call(b"1", "getSlot", b"[]", []), BadCall(b"2", MALFORMED)
    assert with_consistency(asked, None) is asked and with_consistency(asked, b"any") is asked
    assert with_consistency([asked, bad], b"monotonic") == [one_monotonic(asked), bad]
    assert one_monotonic(asked).monotonic and one_monotonic(bad) is bad
    assert with_consistency([asked], b"linear") == BadCall(NO_ID, MALFORMED)
    assert with_consistency(asked, b"linear") == BadCall(b"1", MALFORMED)


@pytest.mark.parametrize("value", ["", "strong", "Monotonic", "any,monotonic", "monotonic monotonic", "1", "x" * 5_000])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", BALANCE),
        ("/rpc", [BALANCE]),
        ("/bulk/getBalances", BULK),
        ("/mcp", TOOL),
        ("/mcp", [TOOL]),
        ("/quote", BALANCE),
    ],
)
async def test_an_unknown_word_is_400_before_any_charge(path, body, value):
    """In the shape of every refusal; a batch is refused whole, and no other refusal of the call comes before."""
    async with a_world(of(0)) as world:
        customer = await world.customer(100)
        for more in ({}, {"x-max-credits": "0"}):
            response = await world.rpc(customer, body, path, **MCP, **more, **{"x-consistency": value})
            assert (response.status_code, constant(response)) == (400, "INVALID_REQUEST"), more
        assert "X-Consistency must be any or monotonic" in response.text
        assert await world.debits(customer) == []
        assert world.node.nodes[0].calls == []


async def test_a_flood_of_wrong_words_counts_as_refused_calls():
    """Threat 35: it has to wait like every other flood of refused calls."""
    async with a_world(of(0), gateway={"account_refusals_per_second": 5}, accounts={"requests_per_second": 5}) as world:
        customer = await world.customer(100)
        await world.rpc(customer, BALANCE)
        statuses = [
            (await world.rpc(customer, BALANCE, **{"x-consistency": f"word{number}"})).status_code
            for number in range(30)
        ]
        assert statuses[0] == 400 and statuses[-1] == 429
        assert len(await world.debits(customer)) == 1


async def test_reads_do_not_step_back_and_others_may():
    """The account has read slot 1000. Its node falls behind, and another one is asked, at the same price."""
    async with a_world(of(0, 0)) as world:
        customer = await world.customer(100)
        first = await world.rpc(customer, BALANCE, **MONOTONIC)
        assert slot_in(first) == 1_000
        nodes = world.node.nodes
        nodes[0].lag = nodes[1].lag = 5
        world.node.probe()
        assert slot_in(await world.rpc(customer, OTHER)) == 995
        assert slot_in(await world.rpc(customer, OTHER, **{"x-consistency": "any"})) == 995
        behind = await world.rpc(customer, OTHER, **MONOTONIC)
        assert (behind.status_code, constant(behind)) == (503, "SERVICE_TEMPORARILY_UNAVAILABLE")
        assert behind.headers["retry-after"] == "1" and "slot 1000" in behind.text
        assert len(await world.debits(customer)) == 3, "the refusal costs nothing"
        nodes[1].lag = 0
        assert slot_in(await world.rpc(customer, OTHER, **MONOTONIC)) == 1_000


async def test_the_view_is_the_accounts_whatever_the_door():
    """By JSON-RPC, a batch, a bulk list and a tool of MCP, by header or `_meta`."""
    async with a_world(of(0)) as world:
        customer, node = await world.customer(1_000), world.node.nodes[0]
        slots = {"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": [{"commitment": "confirmed"}]}
        assert (await world.rpc(customer, slots, **MONOTONIC)).json()["result"] == 1_000
        node.lag = 1
        world.node.probe()
        named = {**TOOL, "params": {"name": "getSlot", "arguments": {"params": [{"commitment": "confirmed"}]}}}
        in_meta = {**named, "params": {**named["params"], "_meta": {"ledger-gateway/consistency": "monotonic"}}}
        for path, body, sent in (
            ("/", [slots, slots], MONOTONIC),
            ("/mcp", named, MONOTONIC),
            ("/mcp", in_meta, {}),
            ("/mcp", in_meta, {"x-consistency": "any"}),
            ("/mcp", [named], MONOTONIC),
        ):
            response = await world.rpc(customer, body, path, **MCP, **sent)
            assert "no node has reached slot 1000" in response.text, (path, body)
        for path, body in (("/", slots), ("/mcp", named)):
            assert "999" in (await world.rpc(customer, body, path, **MCP)).text


async def test_a_wrong_word_in_meta_is_refused_for_free():
    async with a_world(of(0)) as world:
        customer = await world.customer(100)
        for word in ("strong", 7, ["monotonic"], {}):
            asked = {**TOOL, "params": {**TOOL["params"], "_meta": {"ledger-gateway/consistency": word}}}
            response = await world.rpc(customer, asked, "/mcp", **MCP)
            assert "ledger-gateway/consistency" in response.text and "must be" in response.text
        assert await world.debits(customer) == []


async def test_a_poor_account_is_refused_before_a_node_is_asked():
    async with a_world(of(0)) as world:
        poor = await world.customer(0)
        response = await world.rpc(poor, BALANCE, **MONOTONIC)
        assert (response.status_code, constant(response)) == (402, "INSUFFICIENT_CREDITS")
        assert world.node.nodes[0].calls == []


async def test_accounts_have_views_of_their_own():
    async with a_world(of(0)) as world:
        one, other = await world.customer(100), await world.customer(100)
        await world.rpc(one, BALANCE, **MONOTONIC)
        world.node.nodes[0].lag = 5
        world.node.probe()
        assert (await world.rpc(one, OTHER, **MONOTONIC)).status_code == 503
        assert slot_in(await world.rpc(other, OTHER, **MONOTONIC)) == 995


async def test_a_call_that_is_not_monotonic_asks_for_no_view():
    """What it costs is what it cost before: no floor travels, and the fast way stays open to it."""
    async with a_world(of(0)) as world:
        customer = await world.customer(1_000)
        for _ in range(3):
            await world.rpc(customer, BALANCE)
        told = [request.reads_view for request in world.accounts.holds]
        told += [request.hold.reads_view for request in world.accounts.charges]
        shown = [request.shown for request in world.accounts.settles]
        shown += [request.settle.shown for request in world.accounts.charges]
        assert not any(told) and shown.count(None) == len(shown)
        assert len(world.accounts.charges) == 2, "asked ahead"
        await world.rpc(customer, BALANCE, **MONOTONIC)
        assert world.accounts.holds[-1].reads_view and world.accounts.settles[-1].shown == (0, 1_000, 0)


async def test_the_floor_falls_when_nothing_reached_it_for_a_minute():
    """A chain that started again: refused for a minute, and then read from its new beginning."""
    async with a_world(of(0)) as world:
        customer = await world.customer(1_000)
        await world.rpc(customer, BALANCE, **MONOTONIC)
        world.node.nodes[0].chain.slot = 10
        world.node.probe()
        assert (await world.rpc(customer, BALANCE, **MONOTONIC)).status_code == 503
        world.clock.advance(61)
        assert slot_in(await world.rpc(customer, BALANCE, **MONOTONIC)) == 10


@pytest.mark.parametrize("seed", range(2))
async def test_two_clients_of_one_account_with_swapped_nodes(seed):
    """Calls and batches of one account, while the nodes swap their lags and one of them lies: no answer that comes
    after another one has a lower slot."""
    chance = random.Random(seed)
    async with a_world(of(0, 1, 4, 0)) as world:
        nodes, chain = world.node.nodes, world.node.nodes[0].chain
        nodes[3].lies = {"getBalance": {"context": {"slot": 10**12}, "value": 1}}
        customer = await world.customer(100_000)
        lags, newest, served = [0, 1, 4], 0, 0

        async def client() -> None:
            nonlocal newest, served
            for _ in range(40):
                before, body = newest, BALANCE if chance.random() < 0.7 else [BALANCE, BALANCE]
                response = await world.rpc(customer, body, **MONOTONIC)
                items = response.json() if isinstance(body, list) else [response.json()]
                for item in items:
                    if "result" in item:
                        slot = item["result"]["context"]["slot"]
                        assert before <= slot <= chain.slot
                        newest, served = max(newest, slot), served + 1
                if chance.random() < 0.4:
                    chain.slot += 1
                if chance.random() < 0.3:
                    chance.shuffle(lags)
                    for node, lag in zip(nodes, lags, strict=False):
                        node.lag = lag
                if chance.random() < 0.3:
                    world.node.probe()
                world.clock.advance(1)

        await asyncio.gather(client(), client())
        assert served > 60
        assert sum(amount for _, amount in await world.debits(customer)) == served
