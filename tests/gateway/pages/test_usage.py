"""GET /account/usage: its parameters, its two forms, and the page through the real door."""

import asyncio
import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.accounts.usage import UsageLine
from actors.errors import Err, Refusal
from actors.gateway.pages.usage import UsageQuestion, parse_usage, usage_csv
from tests.gateway.world import a_world, call

NOW = 1_795_374_000 + 1_234  # 2026-11-22T19:20:34Z.
HOUR = 1_795_374_000 // 3_600


@pytest.mark.parametrize(
    ("query", "question"),
    [
        (b"", (HOUR - 23, HOUR + 1, ("method",), False)),
        (b"api-key=x&format=csv", (HOUR - 23, HOUR + 1, ("method",), True)),
        (b"by=hour,method&from=2026-11-22T18:59:59Z&to=2026-11-22T19:00:00.1Z", (HOUR - 1, HOUR + 1, None, False)),
        (b"from=1795374000&to=1795377600", (HOUR, HOUR + 1, ("method",), False)),
        (b"by=hour,method&from=2026-10-22T19:20:34Z&to=2026-11-22T19:20:34Z", (HOUR - 744, HOUR + 1, None, False)),
        (b"from=2026-11-21&to=2026-11-22T00:00+00:00", (HOUR - 43, HOUR - 19, ("method",), False)),
        (b"from=2026-11-22&to=2026-11-22", (HOUR - 19, HOUR - 19, ("method",), False)),
    ],
)
def test_times_are_rounded_outwards_to_whole_hours(query: bytes, question: tuple[object, ...]) -> None:
    """Default: the last 24 hours by method. Every sum is of whole hours, so it is exact."""
    asked = parse_usage(query, [], NOW)
    assert isinstance(asked, UsageQuestion)
    first, end, by, as_csv = question
    assert asked == (first, end, by or ("hour", "method"), as_csv)


@pytest.mark.parametrize(
    "query",
    [
        *(
            b"by=",
            b"by=method,",
            b"by=method,method",
            b"by=pubkey",
            b"by=method;drop",
            b"by='; --",
            b"by=method&by=hour",
        ),
        *(b"from=yesterday", b"from=2026-13-01", b"from=2026-11-22T19:00:00%2B02:00", b"from=-1", b"from=1e9"),
        *(b"from=%D9%A1", b"to=0", b"to=99999999999999999999", b"from=0", b"from=2026-11-23&to=2026-11-22"),
        *(b"by=hour&from=2026-01-01", b"from=9999-12-31", b"format=xml", b"format=csv&format=json", b"pubkey=x"),
        *(b"from=0001-01-01T00:00:00Z", b"by=hour%00", b"from='%20OR%201=1"),
    ],
)
def test_everything_else_is_refused_with_a_sentence(query: bytes) -> None:
    refused = parse_usage(query, [], NOW)
    assert isinstance(refused, Refusal) and refused.err is Err.INVALID_REQUEST and len(refused.detail) > 20


@settings(max_examples=40)
@given(names=st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=4))
def test_a_table_says_what_it_was_given_whatever_the_names(names: list[str]) -> None:
    """A name can neither add a cell nor a line, nor become a formula of a spreadsheet."""
    lines = [UsageLine(name, HOUR, 2, 7) for name in names]
    text = usage_csv(UsageQuestion(HOUR, HOUR + 1, ("hour", "method"), True), lines).decode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == ["hour", "method", "calls", "credits"]
    assert sorted(row[1].removeprefix("'") for row in rows) == sorted(name.removeprefix("'") for name in names)
    assert all(row[0] == "2026-11-22T19:00:00Z" and row[2:] == ["2", "7"] and row[1][0] not in "=+-@" for row in rows)


async def test_usage_tells_an_account_its_own_calls_and_nobody_elses() -> None:
    """The contract of the page, in both forms; another account sees nothing of it; no credentials, no answer."""
    async with a_world() as world:
        alice, bob = await world.customer(100), await world.customer(100)
        for _ in range(3):
            await world.http.post("/", json=call("getSlot"), headers={"x-api-key": alice.api_key})
        key = {"x-api-key": alice.api_key}
        answer = await world.http.get("/account/usage?by=method,hour", headers=key)
        body = answer.json()
        assert answer.status_code == 200 and list(body) == ["from", "to", "by", "rows", "totals"]
        assert body["by"] == ["method", "hour"]
        (row,) = body["rows"]
        assert list(row) == ["method", "hour", "calls", "credits"]
        assert (row["method"], row["calls"], row["credits"]) == ("getSlot", 3, 3)
        assert body["from"] <= row["hour"] < body["to"] and body["totals"] == {"calls": 3, "credits": 3}
        assert answer.headers["x-credits-remaining"] == "97"

        for path, headers in (("?by=method&format=csv", {}), ("?by=method", {"accept": "text/csv"})):
            answer = await world.http.get(f"/account/usage{path}", headers=key | headers)
            assert answer.headers["content-type"] == "text/csv" and answer.headers["vary"] == "accept"
            assert answer.text == "method,calls,credits\r\ngetSlot,3,3\r\n"
        other = await world.http.get("/account/usage", headers={"x-api-key": bob.api_key})
        assert other.json()["rows"] == [] and other.json()["totals"] == {"calls": 0, "credits": 0}
        empty = await world.http.get("/account/usage?from=0&to=0", headers=key)
        assert empty.status_code == 200 and empty.json()["rows"] == [] and empty.json()["to"] == "1970-01-01T00:00:00Z"
        assert (await world.http.get("/account/usage")).status_code == 402
        wrong = await world.http.get("/account/usage?by=pubkey", headers=key)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "INVALID_REQUEST")
        assert (await world.http.get("/account/usage?by=pubkey", headers={"x-api-key": "no"})).status_code == 401


@pytest.mark.parametrize(
    ("paths", "refused"),
    [
        (["/account/usage"] * 8, 6),  # Two questions of an account at a time.
        # Deep listings are made one at a time for all accounts of an owner.
        (["/account/ledger?offset=1000000", "/account/history?offset=1000000"] * 6, 4),
    ],
    ids=["usage", "listings"],
)
async def test_a_flood_by_one_account_is_told_to_wait(
    monkeypatch: pytest.MonkeyPatch, paths: list[str], refused: int
) -> None:
    """Another account is answered meanwhile, and so are other pages and paid calls."""
    async with a_world() as world:
        alice, bob = await world.customer(10), await world.customer(10)
        keys = {"x-api-key": alice.api_key}, {"x-api-key": bob.api_key}
        page, gate = paths[0].partition("?")[0], asyncio.Event()
        of_usage = page == "/account/usage"
        store, name = (world.store.usage, "read") if of_usage else (world.store, "entries")
        read = getattr(store, name)

        async def slow(pubkey: bytes, *rest: Any) -> Any:
            if pubkey == alice.pubkey:
                await gate.wait()
            return await read(pubkey, *rest)

        monkeypatch.setattr(store, name, slow)
        flood = [asyncio.create_task(world.http.get(path, headers=keys[0])) for path in paths]
        told = [await done for _, done in zip(range(refused), asyncio.as_completed(flood), strict=False)]
        assert {(answer.status_code, answer.headers["retry-after"]) for answer in told} == {(429, "1")}
        assert (await world.http.get(page, headers=keys[1])).status_code == 200
        if not of_usage:
            assert (await world.http.get("/account/usage", headers=keys[0])).status_code == 200
        assert "result" in (await world.http.post("/", json=call("getSlot"), headers=keys[0])).json()
        gate.set()
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*flood))
        assert statuses == [200] * (len(paths) - refused) + [429] * refused
        assert (await world.http.get(page, headers=keys[0])).status_code == 200
