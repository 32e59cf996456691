"""The parameters of GET /signals/history: each mistake is named before anything is asked or charged."""

from typing import Any

import pytest

from actors.errors import Err, Refusal
from actors.signals.history import HistoryQuery
from actors.signals.history_query import HistoryRequest, read_history

NOW = 1_795_276_800_000
FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
MINT = "So11111111111111111111111111111111111111112"


def read(query: dict[str, str], **headers: str) -> Any:
    return read_history(query, {name.replace("_", "-"): value for name, value in headers.items()}, FORMATS, NOW)


def test_without_parameters_it_is_everything_until_now() -> None:
    assert read({}) == HistoryRequest("jsonl", 0, NOW, (0, 0), HistoryQuery(until_ms=NOW), None)


def test_a_range_is_read_with_its_filters() -> None:
    """`from` is inclusive, so what comes before its millisecond is left out."""
    asked = read(
        {
            "from": "2026-11-22",
            "to": "2026-11-22T19:00:00.5Z",
            "kinds": "newPair,largeSwap",
            "program": MINT,
            "mint": MINT,
        },
        x_max_credits=" 50 ",
    )
    first, last = 1_795_305_600_000, 1_795_374_000_500
    assert asked.after == (first - 1, (1 << 32) - 1) and asked.credits_max == 50
    assert asked.query == HistoryQuery(["largeSwap", "newPair"], [MINT], MINT, last)


@pytest.mark.parametrize(
    ("cursor", "after"), [("1795305600001-7", (1_795_305_600_001, 7)), ("5-1", (1_795_305_599_999, (1 << 32) - 1))]
)
def test_a_cursor_goes_on_and_never_leaves_its_range(cursor: str, after: tuple[int, int]) -> None:
    assert read({"from": "2026-11-22", "to": "2026-11-23", "cursor": cursor}).after == after


@pytest.mark.parametrize(
    ("format", "accept", "wanted"),
    [
        (None, "", "jsonl"),
        (None, "*/*", "jsonl"),
        (None, "text/html, text/csv;q=0.9", "csv"),
        (None, "Application/Vnd.Apache.Parquet", "parquet"),
        ("jsonl", "text/csv", "jsonl"),
    ],
)
def test_the_format_is_named_by_a_parameter_or_by_accept(format: str | None, accept: str, wanted: str) -> None:
    assert read({} if format is None else {"format": format}, accept=accept).format == wanted


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"cursor": "garbage"}, "cursor: "),
        ({"cursor": "1-9999999999"}, "cursor: "),
        ({"cursor": "1-1\n"}, "cursor: "),
        ({"cursor": "-1-1"}, "cursor: "),
        ({"from": "yesterday"}, "from: "),
        ({"from": "-5"}, "from: "),
        ({"to": "1e9"}, "to: "),
        ({"to": "9" * 19}, "to: "),
        ({"from": "2026-11-23", "to": "2026-11-22"}, "from must be before to"),
        ({"from": "99999999999"}, "from must be before to"),
        ({"to": "0"}, "from must be before to"),
        ({"format": "xml"}, "format: wanted jsonl or csv or parquet"),
        ({"format": "arrow"}, "format: "),
        ({"kinds": "newPair,foo"}, "kinds: "),
        ({"kinds": ""}, "kinds: "),
        ({"mint": "x"}, "mint: "),
        ({"program": "x"}, "programs: "),
        ({"wallets": MINT}, "unknown parameter"),
        ({"limit": "5"}, "unknown parameter"),
    ],
)
def test_a_mistake_is_named(query: dict[str, str], named: str) -> None:
    found = read(query)
    assert isinstance(found, Refusal) and found.err is Err.INVALID_REQUEST and found.detail.startswith(named), found


@pytest.mark.parametrize("cap", ["", "-1", "1.5", "x", "9" * 19, "٣"])
def test_a_cap_is_a_whole_number(cap: str) -> None:
    assert isinstance(read({}, x_max_credits=cap), Refusal)


def test_a_range_of_a_billion_years_ends_with_the_year_9999() -> None:
    assert read({"to": "999999999999"}).until_ms == 100_000_000_000_000 and read({"to": "9999-12-31"}).until_ms > NOW
