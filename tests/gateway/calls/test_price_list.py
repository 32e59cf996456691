"""Each way in which a call can end, as GET /pricing lists it: list, ledger, header, receipt and balance say the same.

Rules: decisions, "pricing"; interface, "Method classes and credits"; COSTS.md.
"""

from typing import Any

import msgspec
import orjson
import pytest

from actors.errors import Err
from actors.gateway.calls.outcomes import PUBLISHED
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.gateway.doubles import RESULT, ScriptedNode
from tests.gateway.world import a_world, call

KEY = "So11111111111111111111111111111111111111112"
BLOCK, PRICE = call("getBlock", 5), 25


def error(code: int, message: str) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": 1}))


ABSENT = replies.absent(Err.INVALID_PARAMS, "Asset Not Found", "")
# Path, body, the node's answer, and the price of what would be charged.
ENDS: dict[str, tuple[str, Any, NodeAnswer, int]] = {
    "result": ("/", BLOCK, RESULT, PRICE),
    "cached_result": ("/", BLOCK, msgspec.structs.replace(RESULT, cache=replies.CACHE_HIT), 13),
    "upstream_error": ("/", BLOCK, error(-32602, "no"), PRICE),
    "purged_block": ("/", BLOCK, error(-32001, "Block 5 cleaned up, does not exist on node."), PRICE),
    "block_not_available": ("/", BLOCK, error(-32004, "Block not available for slot 5"), PRICE),
    "method_unknown_to_node": ("/", BLOCK, error(-32601, "Method not found"), PRICE),
    "composed_method_upstream_error": ("/", call("suggestPriorityFee"), error(-32005, "Node is unhealthy"), 1),
    "composed_method_nothing_found": ("/", call("getAsset", {"id": KEY}), ABSENT, 5),
    "bulk_item_completed": ("/bulk/getBalances", {"addresses": [KEY]}, replies.made_of_pieces(b"{}", 1, 1), 1),
    "bulk_item_failed": ("/bulk/getBalances", {"addresses": [KEY]}, replies.made_of_pieces(b"{}", 1, 0), 1),
    "timeout": ("/", BLOCK, replies.TIMED_OUT, PRICE),
    "upstream_unreachable": ("/", BLOCK, replies.UNREACHABLE, PRICE),
    "upstream_invalid_answer": ("/", BLOCK, replies.GARBAGE, PRICE),
    "upstream_overloaded": ("/", BLOCK, replies.overloaded(None), PRICE),
    "refused_before_admission": ("/", call("noSuchMethod"), RESULT, PRICE),
}
# Nobody is there to read a header: tests/gateway/test_callers_who_leave.py compares list and ledger.
UNSEEN = {"client_left_before_answer", "client_left_after_answer"}


def test_every_listed_end_is_shown() -> None:
    assert ENDS.keys() | UNSEEN == PUBLISHED.keys()


@pytest.mark.parametrize(
    ("name", "in_batch"),
    [(name, in_batch) for name, end in ENDS.items() for in_batch in (False, True) if end[0] == "/" or not in_batch],
)
async def test_all_say_the_same_of_what_an_end_costs(name: str, in_batch: bool) -> None:
    """An answer that costs nothing says 0, and names no receipt."""
    path, body, answer, price = ENDS[name]
    expected = price if PUBLISHED[name] else 0
    async with a_world(ScriptedNode(lambda *_: answer)) as world:
        customer = await world.customer(1_000)
        answered = await world.rpc(customer, [body] if in_batch else body, path)
        assert answered.headers["x-credits-cost"] == str(expected), answered.text
        named = answered.headers.get("x-receipt", "").split(",") if expected else []
        assert ("x-receipt" in answered.headers) == bool(expected) and len(named) == bool(expected)
        assert sum(credits for _, credits in await world.debits(customer)) == expected
        assert await world.balance(customer) == 1_000 - expected
        for operation in named:
            found = await world.http.get(
                f"/account/ledger?operation={operation}", headers={"x-api-key": customer.api_key}
            )
            assert [entry["amount"] for entry in found.json()["entries"]] == [-expected]


async def test_a_request_that_nobody_may_make_costs_nothing_and_says_so() -> None:
    """Every error on a path of calls, also those of strangers; what is no call has no cost to tell."""
    async with a_world() as world:
        for answered in (
            await world.rpc(None, BLOCK),
            await world.http.post("/", content=b"{", headers={"content-type": "application/json"}),
            await world.http.post("/bulk/getBalances", content=b"{"),
            await world.http.get("/relay/tipFloor"),
        ):
            assert answered.status_code >= 400 and answered.headers["x-credits-cost"] == "0", answered.headers
        for path in ("/account/info", "/nowhere", "/health"):
            assert "x-credits-cost" not in (await world.http.get(path)).headers


@pytest.mark.parametrize(("percent", "price"), [(1, 1), (50, 13), (99, 25), (100, 25)])
async def test_an_answer_from_the_cache_costs_its_part_and_says_so(percent: int, price: int) -> None:
    """Decisions, "pricing": rounded up, at least 1; in the ledger and the receipt `hit`; a hold of the whole price."""
    hit = msgspec.structs.replace(RESULT, cache=replies.CACHE_HIT)
    async with a_world(ScriptedNode(lambda *_: hit), pricing={"cached_percent": percent}) as world:
        customer = await world.customer(24)
        assert (await world.rpc(customer, BLOCK)).status_code == 402  # It may turn out to be no hit.
        await world.grant(customer, 76)
        answered = await world.rpc(customer, [BLOCK, call()])
        assert answered.headers["x-cache"] == "hit" and answered.headers["x-credits-cost"] == str(price + 1)
        found = await world.http.get("/account/ledger?details=true", headers={"x-api-key": customer.api_key})
        debits = {entry["method"]: entry for entry in found.json()["entries"] if entry["type"] == "debit"}
        assert {name: (entry["amount"], entry["cache"]) for name, entry in debits.items()} == {
            "getBlock": (-price, "hit"),
            "getSlot": (-1, "hit"),
        }
        assert all(len(entry["digest"]) == 22 for entry in debits.values())
        assert await world.balance(customer) == 100 - price - 1
