"""Reading the history of signals: cuts, caps, ends, and the same rows in every frame."""

import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ledger_gateway import Gateway, HistoryReader, HistoryStopped, RetryPolicy
from ledger_gateway.errors import BadRequest, Unreachable
from ledger_gateway.history import COLUMNS, HistoryEnd, SignalHistory

from .world import Waits, http, raw_server

U64 = (1 << 64) - 1
PRICE = b"x-signals-price: credits=10; events=1000; cut=2000\r\n"


def row(number: int, **fields: Any) -> bytes:
    found: dict[str, Any] = dict.fromkeys(COLUMNS) | {
        "time_ms": 1_700_000_000_123 + number,
        "cursor": f"{number}-1",
        "kind": "largeSwap",
        "program": "P",
        "signature": f"S{number}",
        "slot": number,
        "accounts": ["a", "b"],
        "wallets": [],
        "lamports": U64,
    }
    return json.dumps(found | fields).encode() + b"\n"


def end(reason: str, number: int, **fields: Any) -> bytes:
    return json.dumps({"end": {"reason": reason, "cursor": f"{number}-1", **fields}}).encode() + b"\n"


def answer(body: bytes, is_cut: bool = False) -> bytes:
    length = len(body) + 100 if is_cut else len(body)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n%bcontent-length: %d\r\n\r\n" % (PRICE, length)
    return head + body


def gateway(url: str, **options: Any) -> Gateway:
    return Gateway(url, "k", sleep=Waits(), jitter=lambda: 0.0, **options)


async def test_a_cut_answer_is_gone_on_with_behind_its_last_whole_line() -> None:
    """Each signal once: a half line is read again, and so is an answer that has no end."""
    whole = row(1) + row(2)
    answers = [answer(whole + row(3)[:50], is_cut=True), answer(row(3)), answer(end("complete", 9, credits=10))]
    async with raw_server(*answers) as (url, heads), gateway(url) as client:
        history = await HistoryReader(client, "2026-11-22", datetime(2026, 11, 23, tzinfo=UTC), kinds=["a", "b"]).read()
        assert [signal.slot for signal in history.signals()] == [1, 2, 3] and len(history) == 3
        assert history.is_complete and history.end.cursor == "9-1"
        assert b"from=2026-11-22&to=2026-11-23T00%3A00%3A00.000000Z&kinds=a%2Cb&format=jsonl" in heads[0]
        assert [head.partition(b"cursor=")[2][:3] for head in heads] == [b"", b"2-1", b"3-1"]


async def test_a_cap_is_of_all_answers_and_counts_what_a_cut_one_may_have_cost() -> None:
    """2 rows and 2,000 that may be paid and not received: at most 30 of the 45 credits are gone."""
    answers = [answer(row(1) + row(2), is_cut=True), answer(row(3) + end("max_credits", 3, credits=10))]
    async with raw_server(*answers) as (url, heads), gateway(url) as client:
        history = await HistoryReader(client, max_credits=45).read()
        assert [head.lower().partition(b"x-max-credits: ")[2][:2] for head in heads] == [b"45", b"15"]
        assert (history.end.reason, len(history)) == ("max_credits", 3) and not history.is_complete
    async with raw_server(answers[0]) as (url, heads), gateway(url) as client:
        history = await HistoryReader(client, max_credits=39).read()
        assert (len(heads), history.end.reason, history.end.cursor) == (1, "max_credits", "2-1")


async def test_an_account_that_may_not_go_on_raises_with_what_came() -> None:
    async with (
        raw_server(answer(row(1) + end("hourly_limit_exceeded", 1, credits=10))) as (url, _),
        gateway(url) as client,
    ):
        with pytest.raises(HistoryStopped, match="hourly_limit_exceeded, after 1 signals") as stopped:
            await HistoryReader(client).read()
        assert stopped.value.history.end.cursor == "1-1" and len(stopped.value.history.signals()) == 1


async def test_refusals_are_raised_and_attempts_are_bounded() -> None:
    refused = http(400, b'{"error":{"code":"INVALID_REQUEST","constant":"INVALID_REQUEST","message":"from"}}')
    async with raw_server(refused) as (url, heads), gateway(url) as client:
        with pytest.raises(BadRequest):
            await HistoryReader(client, "x").read()
        assert len(heads) == 1
    async with (
        raw_server(answer(b"", is_cut=True)) as (url, heads),
        gateway(url, retry=RetryPolicy(attempts_max=3)) as client,
    ):
        with pytest.raises(Unreachable):
            await HistoryReader(client).read()
        assert len(heads) == 3


async def test_a_history_that_was_unavailable_is_asked_again() -> None:
    answers = [answer(row(1) + end("unavailable", 1, credits=10)), answer(row(2) + end("complete", 2, credits=10))]
    async with raw_server(*answers) as (url, _), gateway(url) as client:
        history = await HistoryReader(client).read()
        assert len(history.signals()) == 2 and history.end.credits == 20


HISTORY = SignalHistory((row(1), row(2, complete=True, mint="M", lamports=None)), HistoryEnd("complete", "2-1", 2))
TIMES = [datetime(2023, 11, 14, 22, 13, 20, 124_000, UTC), datetime(2023, 11, 14, 22, 13, 20, 125_000, UTC)]


def test_every_frame_has_the_same_rows_and_whole_numbers() -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    table, frame = HISTORY.to_arrow(), HISTORY.to_pandas()
    assert table.column_names == ["time", *COLUMNS[1:]] == list(frame.columns)
    assert table.column("time").to_pylist() == TIMES == [time.to_pydatetime() for time in frame["time"]]
    assert table.column("lamports").to_pylist() == [U64, None] and frame["lamports"].iloc[0] == U64
    assert frame["lamports"].iloc[1] is pandas.NA and frame["complete"].tolist() == [pandas.NA, True]
    empty = SignalHistory((), HistoryEnd("complete", "0-0"))
    assert empty.to_arrow().schema == table.schema and len(empty.to_pandas()) == 0


def test_polars_frames_have_them_too() -> None:
    polars = pytest.importorskip("polars")
    frame = HISTORY.to_polars()
    assert frame.columns == ["time", *COLUMNS[1:]] and frame["time"].to_list() == TIMES
    assert frame["lamports"].to_list() == [U64, None] and frame["lamports"].dtype == polars.UInt64
    assert SignalHistory((), HistoryEnd("complete", "0-0")).to_polars().schema == frame.schema


@pytest.mark.parametrize(("module", "act"), [("polars", "to_polars"), ("pyarrow", "to_arrow"), ("pandas", "to_pandas")])
def test_a_missing_extra_is_named(module: str, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"need {module}: pip install 'ledger-gateway\["):
        getattr(HISTORY, act)()


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        HistoryReader(Gateway("http://a"), datetime(2026, 1, 1))
    reader = HistoryReader(Gateway("http://a"), datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert reader._query["from"] == "2026-01-01T00:00:00.000000Z"
