"""Look-ups that fail are free, and what they make nodes do is bounded: decisions, "Free work of nodes"."""

import asyncio
from typing import Any

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.gateway.calls import free_work
from actors.gateway.calls.admission import PLANS
from actors.gateway.calls.free_work import DEBT_SECONDS_MAX, LIMITED, MINUTE_SECONDS, FreeWork, Reads, unpaid_calls
from actors.lookups.bulk import BulkLookups
from actors.lookups.endpoints import LookupMethods
from actors.lookups.fan_out import Asker
from actors.upstream import replies
from actors.upstream.node_work import current_work
from actors.upstream.replies import AnswerKind, NodeAnswer, OwnMethods
from tests.gateway.doubles import RESULT, ScriptedNode
from tests.gateway.world import a_world, call, constant

OWNER = "So11111111111111111111111111111111111111112"
NO_MINT = replies.made_error(-32602, "Invalid param: could not find mint", b"null")
ACCOUNT = b"a" * 32


def lookups(node: ScriptedNode) -> OwnMethods:
    asker = Asker(node, 100)
    return OwnMethods(node, LookupMethods(asker).handlers() | BulkLookups(asker).handlers())


def signatures(count: int) -> dict[str, Any]:
    return {"signatures": [base58.b58encode((number + 1).to_bytes(64, "big")).decode() for number in range(count)]}


def failing(method: str, _: Any) -> NodeAnswer:
    return RESULT if method == "getSlot" else NO_MINT


@pytest.mark.threat(75)
async def test_an_account_whose_lookups_fail_has_to_wait_and_others_go_on() -> None:
    """Beyond its minute nothing is asked of a node and nothing is charged; it is told how long; other methods go on."""
    node = ScriptedNode(failing)
    async with a_world(lookups(node), lookups={"free_node_calls_per_minute": 60}) as world:
        poor, other = await world.customer(150), await world.customer(150)
        bulk = "/bulk/getTransactions"
        for _ in range(3):  # The third one begins within the minute, and ends 30 s above it.
            assert len((await world.rpc(poor, signatures(30), bulk)).json()["errors"]) == 30
        asked = len(node.calls)
        assets = call("getTokenAccounts", {"owner": OWNER, "mint": OWNER})
        for body, path in ((signatures(1), bulk), (assets, "/"), (call("getAsset", {"id": OWNER}), "/")):
            refused = await world.rpc(poor, body, path)
            assert (refused.status_code, constant(refused)) == (429, "RATE_LIMITED"), path
            assert refused.headers["retry-after"] == "30" and refused.headers["x-credits-remaining"] == "150"
        assert len(node.calls) == asked
        assert (await world.rpc(poor, call("getSlot"))).status_code == 200
        assert (await world.rpc(other, assets)).json()["error"]["code"] == -32602
        world.clock.advance(30)
        assert (await world.rpc(poor, assets)).json()["error"]["code"] == -32602
        assert await world.debits(poor) == [("getSlot", 1)] and await world.debits(other) == []


async def test_what_is_paid_for_is_never_counted() -> None:
    """Also the answer that there is no such asset, and the part of a list that was found."""
    node = ScriptedNode(lambda method, _: replies.made(b"null"))
    async with a_world(lookups(node), lookups={"free_node_calls_per_minute": 60}) as world:
        customer = await world.customer(2_000)
        for _ in range(5):
            answer = await world.rpc(customer, signatures(50), "/bulk/getTransactions")
            assert answer.headers["x-credits-cost"] == "250"
        assert await world.balance(customer) == 750


@pytest.mark.parametrize("answer", [replies.UNREACHABLE, replies.overloaded(None)])
async def test_an_outage_of_the_nodes_locks_nobody_out(answer: NodeAnswer) -> None:
    async with a_world(lookups(ScriptedNode(lambda *_: answer)), lookups={"free_node_calls_per_minute": 60}) as world:
        customer = await world.customer(1_000)
        for _ in range(4):
            listed = await world.rpc(customer, signatures(50), "/bulk/getTransactions")
            assert listed.status_code == 200 and len(listed.json()["errors"]) == 50


@pytest.mark.parametrize(
    ("answer", "unpaid"),
    [
        (RESULT, 0),
        (replies.absent(Err.INVALID_PARAMS, "Asset Not Found", ""), 0),
        (replies.own_error(Err.INVALID_PARAMS, "too many", {}), 200),
        (NO_MINT, 200),
        (replies.OVERSIZED, 200),
        (replies.TIMED_OUT, 200),
        (replies.GARBAGE, 200),
        (replies.UNREACHABLE, 0),
        (replies.refused(Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE)), 0),
        (replies.made_of_pieces(b"{}", 3, 3), 0),
        (replies.made_of_pieces(b"{}", 3, 2), 67),
        (replies.made_of_pieces(b"{}", 3, 0), 200),
        (None, 200),
    ],
)
def test_what_is_charged_is_not_unpaid(answer: NodeAnswer | None, unpaid: int) -> None:
    """None: the client left. A list counts by the part of it that failed, rounded up."""
    assert unpaid_calls(answer, 200) == unpaid


def test_every_kind_of_answer_has_a_rule() -> None:
    for kind in AnswerKind:
        assert unpaid_calls(NodeAnswer(kind), 0) in (0, 1)


@pytest.mark.threat(75)
async def test_a_client_that_leaves_is_counted_for_what_was_asked() -> None:
    """Else whoever hangs up a moment before the end would never be counted."""

    class Slow:
        async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            work = current_work()
            assert work is not None
            for _ in range(700):
                work.began()
            await asyncio.Event().wait()
            raise AssertionError

    clock = ManualClock()
    limits = FreeWork(600)
    reads = Reads(Slow(), clock, limits)
    plan = PLANS["getAssetsByOwner"]
    left = asyncio.create_task(reads.call(plan, b"[]", ACCOUNT))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    refusal = limits.refusal(ACCOUNT, clock.monotonic())
    assert refusal is not None and refusal.retry_seconds == 10
    assert limits.refusal(b"b" * 32, clock.monotonic()) is None and current_work() is None


async def test_a_plain_method_is_asked_whatever_was_counted() -> None:
    limits, node = FreeWork(600), ScriptedNode()
    limits.count(ACCOUNT, 10_000, 0.0)
    reads = Reads(node, ManualClock(0), limits)
    assert (await reads.call(PLANS["getSlot"], b"[]", ACCOUNT)).kind is AnswerKind.RESULT
    assert isinstance(await reads.call(PLANS["getAsset"], b"[]", ACCOUNT), replies.RefusedAnswer)
    assert len(node.calls) == 1 and "getSlot" not in LIMITED and "bulk/getBalances" in LIMITED


@pytest.mark.threat(75)
@given(steps=st.lists(st.tuples(st.floats(0, 200), st.integers(0, 216)), max_size=60))
def test_in_the_long_run_an_account_causes_what_is_allowed(steps: list[tuple[float, int]]) -> None:
    """One call after the other: never more than a minute's calls, those of the time that went by, and the last call."""
    limits, now, caused = FreeWork(600), 0.0, 0
    for seconds, calls in steps:
        now += seconds
        refusal = limits.refusal(ACCOUNT, now)
        if refusal is None:
            caused += calls
            limits.count(ACCOUNT, calls, now)
            assert caused <= 10 * (now + MINUTE_SECONDS) + 216
        else:
            assert refusal.retry_seconds is not None and 0 < refusal.retry_seconds <= DEBT_SECONDS_MAX
            assert limits.refusal(ACCOUNT, now + refusal.retry_seconds) is None, "the wait that is told is enough"


def test_a_flood_of_accounts_is_bounded_and_old_debts_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_work, "ACCOUNTS_MAX", 2)
    limits = FreeWork(600)
    for name in (b"a", b"b", b"c"):
        limits.count(name, 10_000, 0.0)
    assert [limits.refusal(name, 0.0) is None for name in (b"a", b"b", b"c")] == [False, False, True]
    later = MINUTE_SECONDS + DEBT_SECONDS_MAX
    limits.count(b"c", 10_000, later)
    assert limits.refusal(b"a", later) is None and limits.refusal(b"c", later) is not None
