"""X-Credits-Cost and X-Max-Credits (COSTS.md): the cost that is told is the charge, and a limit is never exceeded."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import is_lasting
from actors.errors import Err
from actors.gateway.calls.admission import PLANS
from actors.gateway.calls.cost_limits import ceiling_of, parse_limit, within_limit
from actors.gateway.calls.jsonrpc import NO_ID, BadCall, Call
from actors.upstream import replies
from tests.gateway.doubles import TRANSACTION
from tests.gateway.payment_doubles import Desk, header_v2
from tests.gateway.world import a_world, call, constant
from tests.idempotency.memory_store import MemoryIdempotencyStore

KEY = "So11111111111111111111111111111111111111112"
SNIPE = call("executeSnipe", {"mint": KEY, "amount_sol": 1})
TOOL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "getBlock", "arguments": {"params": [5]}}}
MCP = {"content-type": "application/json"}


async def _race(params: bytes, hold: Any, timeout_ms: int) -> Any:
    return replies.made_deferred(b'{"status":"confirmed"}', final=True, posted=50)


async def _build(params: bytes, pubkey: bytes, timeout_ms: int) -> Any:
    return replies.made_quoted(b'{"fee_credits":75}', 75)


BASE64 = {"encoding": "base64"}
OFFERED: dict[str, Any] = {"callers": {"sendAndConfirm": _race}, "quotes": {"executeSnipe": _build}, "relay": True}
PAID: list[tuple[str, Any, int]] = [
    ("/", call("getBlock", 5), 25),
    ("/rpc", [call(), call("getBlock", 5), call("noSuchMethod")], 26),
    ("/", [call(), call("sendAndConfirm", TRANSACTION)], 51),
    ("/", call("sendAndConfirm", TRANSACTION), 50),
    ("/", SNIPE, 75),
    ("/relay/bundles", call("getTipAccounts"), 1),
    ("/bulk/getBalances", {"addresses": [KEY, "1" * 32]}, 2),
    ("/mcp", TOOL, 25),
    ("/mcp", [TOOL, TOOL | {"id": 2}], 50),
]


async def paid_by(world, customer, operations):
    """Credits of the entries that these operations name in the ledger, each of one call. Those of a send are the
    racer's to write, and there is none here."""
    paid = 0
    for operation in operations:
        if is_lasting(bytes.fromhex(operation)):
            continue
        headers = {"x-api-key": customer.api_key}
        answer = await world.http.get(f"/account/ledger?operation={operation}", headers=headers)
        (entry,) = answer.json()["entries"]
        assert (entry["type"], entry["operation"]) == ("debit", operation)
        paid -= entry["amount"]
    return paid


@pytest.mark.parametrize(("path", "body", "cost"), PAID)
async def test_a_paid_answer_tells_its_charge_and_a_limit_below_it_refuses(path, body, cost):
    """COSTS.md: at the limit the request runs, and one credit below nothing is charged, held or asked."""
    async with a_world(**OFFERED) as world:
        customer = await world.customer(1_000)
        paid = await world.rpc(customer, body, path, **MCP, **{"x-max-credits": str(cost)})
        assert (paid.status_code, paid.headers["x-credits-cost"]) == (200, str(cost))
        operations = paid.headers["x-receipt"].split(",") if "x-receipt" in paid.headers else []
        assert await paid_by(world, customer, operations) == cost - (50 if "sendAndConfirm" in str(body) else 0)
        calls = body if isinstance(body, list) else [body]
        assert len(operations) == sum(each.get("method") != "noSuchMethod" for each in calls)
        before, asked = await world.debits(customer), len(world.node.calls)
        refused = await world.rpc(customer, body, path, **MCP, **{"x-max-credits": str(cost - 1)})
        errors = refused.json() if isinstance(body, list) else [refused.json()]
        assert refused.status_code == (200 if isinstance(body, list) else 412)
        assert "MAX_CREDITS_EXCEEDED" in refused.text and not any("result" in error for error in errors)
        assert refused.headers["x-credits-cost"] == "0" and "x-receipt" not in refused.headers
        assert "x-credits-remaining" in refused.headers
        assert (await world.debits(customer), len(world.node.calls)) == (before, asked)
        told = int(paid.headers["x-credits-cost"]) - sum(credits for _, credits in before)
        assert told == (50 if "sendAndConfirm" in str(body) else 0)  # Its hold is the racer's to end.


@pytest.mark.parametrize("value", ["", "-1", "+1", "1.0", "1e3", "0x10", "٣", "1 2", "9" * 19, "all"])
@pytest.mark.parametrize(("path", "body"), [("/", call()), ("/", [call()]), ("/mcp", TOOL), ("/mcp", [TOOL])])
async def test_a_limit_of_another_form_is_400_and_free(path, body, value):
    """COSTS.md: a limit that is misread would be no limit."""
    async with a_world(**OFFERED) as world:
        customer = await world.customer(100)
        response = await world.rpc(customer, body, path, **MCP, **{"x-max-credits": value.encode()})
        assert (response.status_code, constant(response)) == (400, "INVALID_REQUEST")
        assert await world.debits(customer) == []


async def test_without_credentials_the_terms_come_first():
    """The order of checks: a stranger hears 402, whatever the limit says."""
    async with a_world() as world:
        for limit in ("0", "none"):
            assert (await world.rpc(None, call(), **{"x-max-credits": limit})).status_code == 402


async def test_no_payment_is_settled_for_a_request_over_its_limit():
    """COSTS.md: nobody pays for a refusal."""
    desk = Desk()
    async with a_world(desk=desk) as world:
        desk.world, desk.payer = world, await world.customer()
        sent = {"payment-signature": header_v2(), "x-max-credits": "24"}
        refused = await world.rpc(None, call("getBlock", 5), **sent)
        assert (refused.status_code, constant(refused), desk.paid) == (412, "MAX_CREDITS_EXCEEDED", [])
        bought = await world.rpc(None, call("getBlock", 5), **(sent | {"x-max-credits": "25"}))
        assert (bought.status_code, bought.headers["x-credits-cost"]) == (200, "25")


async def test_a_free_answer_says_that_it_costs_nothing():
    """A refusal, a node that fails, and a purged block."""
    async with a_world() as world:
        customer = await world.customer(100)
        world.node.answer = lambda method, params: replies.UNREACHABLE
        for body in (call("noSuchMethod"), call("getBalance", 7), call()):
            assert (await world.rpc(customer, body)).headers["x-credits-cost"] == "0"
        assert await world.debits(customer) == []


async def test_a_repeated_answer_tells_the_cost_of_its_first_time():
    """COSTS.md: with the header by which a client that adds up costs leaves it out."""
    async with a_world(idempotency=MemoryIdempotencyStore(), **OFFERED) as world:
        customer = await world.customer(100)
        for body, cost in (
            (call("sendTransaction", TRANSACTION, BASE64), "2"),
            (call("sendAndConfirm", TRANSACTION), "50"),
        ):
            sent = {"idempotency-key": cost}
            first, second = [await world.rpc(customer, body, **sent) for _ in range(2)]
            assert first.headers["x-credits-cost"] == second.headers["x-credits-cost"] == cost
            assert first.headers["x-receipt"] == second.headers["x-receipt"], "the charge of the key, once for ever"
            assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
        assert await world.debits(customer) == [("sendTransaction", 2)]


def a_call(method: str, *arguments: Any) -> Call:
    return Call(b"1", method, json.dumps(arguments).encode(), list(arguments))


CALLS = st.sampled_from(
    [
        a_call("getSlot"),
        a_call("getBlock", 5),
        a_call("sendAndConfirm", TRANSACTION),
        a_call("executeSnipe", {"mint": KEY, "amount_sol": 1}),
        a_call("noSuchMethod"),
        BadCall(NO_ID, parse_limit(b"x")),  # type: ignore[arg-type]
    ]
)


@given(calls=st.lists(CALLS, min_size=1, max_size=8), limit=st.integers(0, 400))
def test_whatever_the_builders_cost_a_batch_stays_within_its_limit(calls, limit):
    """COSTS.md: fixed prices, and at most cost_max for each builder; or no call at all."""
    found = within_limit(calls, b"%d" % limit, PLANS)
    assert isinstance(found, list) and len(found) == len(calls)
    dearest = sum(one.cost_max or 0 for one in found if isinstance(one, Call))
    assert dearest <= limit
    least = sum(ceiling_of(one, PLANS) for one in calls)
    for before, after in zip(calls, found, strict=True):
        if isinstance(before, BadCall) or least <= limit:
            if isinstance(before, BadCall):
                assert after is before
                continue
            assert isinstance(after, Call) and after.cost_max is not None
            assert msgspec.structs.replace(after, cost_max=None) == before
            assert ceiling_of(before, PLANS) <= after.cost_max <= ceiling_of(before, PLANS) + limit - least
        else:
            assert isinstance(after, BadCall) and after.refusal.err is Err.MAX_CREDITS_EXCEEDED
