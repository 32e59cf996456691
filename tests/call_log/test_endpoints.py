"""GET /account/calls through the real doors: whose calls, which of them, and what they tell."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.call_log.endpoints import CallLogPages, wanted_of
from actors.call_log.writer import CallLogWriter
from actors.clock import ManualClock
from actors.errors import Refusal
from actors.gateway.pages.keys import KeyPages
from actors.telemetry.metrics import Metrics
from tests.call_log.memory_store import MemoryCallLogStore
from tests.gateway.pages.test_keys import Pages, called, made
from tests.gateway.world import Wallet, World, a_world, call, constant


class Log:
    """A world with a log that is written when the test says so."""

    def __init__(self, world: World, writer: CallLogWriter, store: MemoryCallLogStore) -> None:
        self.world, self.writer, self.store = world, writer, store

    async def read(self, credential: dict[str, str], query: str = "") -> dict[str, Any]:
        await self.writer.write()
        self.world.clock.advance(60)
        answer = await self.world.http.get(f"/account/calls{query}", headers=credential)
        assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store", answer.text
        body: dict[str, Any] = answer.json()
        return body


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    store, clock, keys = MemoryCallLogStore(), ManualClock(), Pages()
    writer = CallLogWriter(store, clock, Metrics())
    pages = [*keys.pages(), *CallLogPages(store, clock).pages()]
    async with a_world(pages=pages, clock=clock, recent=writer.recent) as world:
        KeyPages.__init__(keys, world.accounts)
        yield Log(world, writer, store)


def key_of(wallet: Wallet) -> dict[str, str]:
    return {"x-api-key": wallet.api_key}


async def test_an_account_finds_a_call_by_the_request_id_of_its_answer(log: Log) -> None:
    """Answered, refused by its parameters, and refused for lack of credits: method, outcome, credits and time."""
    wallet = await log.world.customer(6)
    answers = [
        await log.world.rpc(wallet, call("getBalance", wallet.text)),
        await log.world.rpc(wallet, call("getBalance", "secret-parameter")),
        await log.world.rpc(wallet, call("getBlock", 5)),
        await log.world.rpc(wallet, call("secret-method")),
        await log.world.rpc(wallet, call("getSlot"), **{"x-max-credits": "0"}),
    ]
    calls = (await log.read(key_of(wallet)))["calls"]
    told = [(one["method"], one["outcome"], one["credits"], one["key"]) for one in reversed(calls)]
    assert told == [
        ("getBalance", "result", 1, None),
        ("getBalance", "INVALID_PARAMS", 0, None),
        ("getBlock", "INSUFFICIENT_CREDITS", 0, None),
        (None, "METHOD_NOT_FOUND", 0, None),
        ("getSlot", "MAX_CREDITS_EXCEEDED", 0, None),
    ]
    assert "secret" not in str(calls) and all(one["ms"] >= 0 and one["at"].endswith("Z") for one in calls)
    for answer, wanted in zip(answers, reversed(calls), strict=True):
        found = await log.read(key_of(wallet), f"?request_id={answer.headers['x-request-id']}")
        assert found == {"calls": [wanted], "next_before": None}


async def test_a_batch_is_one_request_and_many_calls(log: Log) -> None:
    wallet = await log.world.customer(100)
    answer = await log.world.rpc(wallet, [call("getSlot"), call("getSlot", 1, 2, 3), call("getBlockHeight")])
    found = await log.read(key_of(wallet), f"?request_id={answer.headers['x-request-id']}")
    told = [(one["method"], one["outcome"], one["credits"]) for one in reversed(found["calls"])]
    assert told == [("getSlot", "result", 1), ("getSlot", "INVALID_PARAMS", 0), ("getBlockHeight", "result", 1)]


async def test_an_account_sees_its_own_calls_and_a_named_key_what_it_paid_for(log: Log) -> None:
    """A key whose methods do not name ACCOUNT sees its own calls too: they are no secret of the account."""
    wallet, other = await log.world.customer(100), await log.world.customer(100)
    number, key = await made(log.world, wallet, methods=["READ_CHEAP"])
    await log.world.rpc(wallet, call("getSlot"))
    await called(log.world, key, call("getBlockHeight"))
    await called(log.world, key, call("getBlock", 5))
    await log.world.rpc(other, call("getBalance", other.text))
    seen = [(one["method"], one["key"]) for one in (await log.read(key_of(wallet)))["calls"]]
    assert seen == [("getBlock", number), ("getBlockHeight", number), ("getSlot", None)]
    for query in ("", "?key=0", "?key=99"):
        assert [one["method"] for one in (await log.read(key, query))["calls"]] == ["getBlock", "getBlockHeight"]
    assert [one["method"] for one in (await log.read(key_of(wallet), "?key=0"))["calls"]] == ["getSlot"]
    assert [one["method"] for one in (await log.read(key_of(other)))["calls"]] == ["getBalance"]


async def test_a_call_without_a_good_credential_is_in_nobodys_log(log: Log) -> None:
    wallet = await log.world.customer(100)
    other = "A" if wallet.api_key[-9] != "A" else "B"
    almost = wallet.api_key[:-9] + other + wallet.api_key[-8:]
    for headers in ({"x-api-key": "srpc_live_nobody"}, {"x-api-key": almost}, {}):
        answer = await log.world.http.post("/", json=call("getSlot"), headers=headers)
        assert answer.status_code in (401, 402)
    assert log.writer.recent.take() == []
    assert (await log.read(key_of(wallet)))["calls"] == []
    assert (await log.world.http.get("/account/calls")).status_code == 402


async def test_the_log_is_read_page_by_page_and_filtered(log: Log) -> None:
    """A search reads on over many pages of the store."""
    log.store._of_account_max = 1_000
    wallet = await log.world.customer(10_000)
    await log.world.rpc(wallet, call("getBalance", wallet.text))
    for _ in range(3):
        await log.world.rpc(wallet, [call("getSlot")] * 100)
    assert len((await log.read(key_of(wallet)))["calls"]) == 50
    first = await log.read(key_of(wallet), "?limit=200")
    assert {one["method"] for one in first["calls"]} == {"getSlot"} and len(first["calls"]) == 200
    rest = await log.read(key_of(wallet), f"?limit=200&before={first['next_before']}")
    assert [len(rest["calls"]), rest["calls"][-1]["method"], rest["next_before"]] == [101, "getBalance", None]
    ids = [one["id"] for one in first["calls"] + rest["calls"]]
    assert len(set(ids)) == 301
    found = await log.read(key_of(wallet), "?method=getBalance")
    assert found == {"calls": [rest["calls"][-1]], "next_before": None}
    limited = ("result", "node_error", "refused", "RATE_LIMITED")
    counts = [len((await log.read(key_of(wallet), f"?limit=200&outcome={one}"))["calls"]) for one in limited]
    assert counts[1] == 0 and counts[2] == counts[3]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "x"},
        {"before": "x"},
        {"before": "-1"},
        {"request_id": "a b"},
        {"outcome": "good"},
        {"key": "-1"},
        {"method": ""},
        {"params": "1"},
    ],
)
def test_a_question_with_a_mistake_is_refused(query: dict[str, str]) -> None:
    assert isinstance(wanted_of(query), Refusal)


async def test_a_log_that_is_away_is_told_and_stops_no_call(log: Log) -> None:
    wallet = await log.world.customer(100)
    log.store.down = True
    assert (await log.world.rpc(wallet, call("getSlot"))).status_code == 200
    await log.writer.write()
    answer = await log.world.http.get("/account/calls", headers=key_of(wallet))
    assert (answer.status_code, constant(answer)) == (503, "SERVICE_TEMPORARILY_UNAVAILABLE")
