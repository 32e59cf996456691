"""GET /account/ledger beyond the interface's offset and limit: places, filters, details, CSV, Parquet."""

import csv
import io
from typing import Any

import pytest

from actors.errors import Refusal
from actors.gateway.pages.ledger import parse_ledger
from tests.gateway.world import Wallet, World, a_world, call


async def ask(world: World, customer: Wallet, query: str, **headers: str) -> Any:
    return await world.http.get(f"/account/ledger{query}", headers={"x-api-key": customer.api_key, **headers})


async def test_pages_by_a_cursor_meet_each_entry_once() -> None:
    """Whatever is charged between two pages; the last page names no next one."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        for _ in range(5):
            await world.rpc(customer, call())
        seen, query = list[int](), "?details=true&limit=2"
        while True:
            body = (await ask(world, customer, query)).json()
            seen += [entry["number"] for entry in body["entries"]]
            await world.rpc(customer, call("getBlock", 5))
            if body["next_cursor"] is None:
                break
            query = f"?limit=2&cursor={body['next_cursor']}"
        assert len(seen) == 6 and seen == sorted(seen, reverse=True)


async def test_entries_say_what_they_paid_for_to_those_who_ask() -> None:
    """The interface's five fields without a new parameter."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        await world.rpc(customer, call())
        plain = (await ask(world, customer, "?limit=1")).json()
        assert list(plain) == ["entries"] and len(plain["entries"][0]) == 5
        (entry,) = (await ask(world, customer, "?method=getSlot&type=debit")).json()["entries"]
        assert {"method": "getSlot", "outcome": "answered", "signature": None}.items() <= entry.items()
        assert bytes.fromhex(entry["operation"]) and plain["entries"][0].items() <= entry.items()
        (grant,) = (await ask(world, customer, "?type=adjustment")).json()["entries"]
        assert (grant["amount"], grant["method"], grant["outcome"]) == (1_000, None, None)
        nothing = (await ask(world, customer, "?to=2023-11-14")).json()
        assert nothing == {"entries": [], "next_cursor": None}


async def test_the_same_as_a_table() -> None:
    """By the parameter or the Accept header; the place of the next page is in a header."""
    async with a_world() as world:
        customer = await world.customer(1_000)
        await world.rpc(customer, call())
        (newest,) = (await ask(world, customer, "?details=true&limit=1")).json()["entries"]
        number = newest["number"]
        for answer in (
            await ask(world, customer, "?format=csv&limit=1"),
            await ask(world, customer, "?limit=1", accept="text/csv"),
        ):
            assert answer.headers["content-type"] == "text/csv"
            (row,) = csv.DictReader(io.StringIO(answer.text))
            assert (row["type"], row["method"], row["amount"], row["balance"]) == ("debit", "getSlot", "-1", "999")
            assert row["signature"] == ""  # A cell without a value, also no mark of a text.
            assert answer.headers["x-next-cursor"].endswith(f"-{number}")


async def test_the_same_as_a_parquet_file() -> None:
    """By the parameter or the Accept header, beside CSV where it is liked more; every field is that of the JSON."""
    parquet = pytest.importorskip("pyarrow.parquet")
    async with a_world() as world:
        customer = await world.customer(1_000)
        await world.rpc(customer, call())
        entries = (await ask(world, customer, "?details=true")).json()["entries"]
        for query, accept in (
            ("?format=parquet", "*/*"),
            ("", "application/vnd.apache.parquet"),
            ("", "text/csv;q=0.5, application/vnd.apache.parquet"),
        ):
            answer = await ask(world, customer, query, accept=accept)
            assert answer.headers["content-type"] == "application/vnd.apache.parquet"
            assert answer.headers["content-disposition"] == 'attachment; filename="ledger.parquet"'
            assert "x-next-cursor" not in answer.headers and "accept" in answer.headers["vary"].lower()
            found = parquet.read_table(io.BytesIO(answer.content)).to_pylist()
            times = [
                f"{row['timestamp']:%Y-%m-%dT%H:%M:%S}.{row['timestamp'].microsecond // 1000:03d}Z" for row in found
            ]
            assert [row | {"timestamp": at} for row, at in zip(found, times, strict=True)] == entries
        page = await ask(world, customer, "?limit=1&format=parquet")
        behind = await ask(world, customer, f"?format=parquet&to=2023-11-14&cursor={page.headers['x-next-cursor']}")
        assert parquet.read_table(io.BytesIO(behind.content)).num_rows == 0
        refused = await ask(world, customer, "?type=gift", accept="application/vnd.apache.parquet")
        assert refused.status_code == 400 and refused.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "query",
    [
        *("cursor=x", "cursor=", "cursor=5-5&offset=1", "cursor=5-5&cursor=5-5", "from=x", "to=2026-13-01"),
        *("type=gift", "type=DEBIT", "method=", "format=xml", "details=1", "limit=501"),
        *("operation=", "operation=0g", f"operation={'0' * 31}"),
    ],
)
def test_what_a_listing_cannot_be_asked_for_is_refused_by_name(query: str) -> None:
    refusal = parse_ledger(query.encode(), [])
    assert isinstance(refusal, Refusal) and query.partition("=")[0] in refusal.detail
