"""GET /signals/history: what is sent, what is paid, and how it ends."""

import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
import orjson
import pytest

from actors.calls import HoldRequest
from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.price_lists import PriceList
from actors.pages import PageAnswer, PageRequest
from actors.signals import history_export, history_formats
from actors.signals.history import PostgresSignalHistory
from actors.signals.history_export import SLICE_SECONDS_MAX
from actors.signals.history_formats import END_KEY
from actors.signals.history_page import SignalHistoryPage
from actors.signals.history_process import HistoryEncoding, HistoryProcess
from actors.signals.history_rows import PostgresHistoryRows
from actors.signals.history_worker import CloseExport, EndExport, Exports, OpenExport, PrepareSlice, WriteSlice
from actors.signals.log import LogEntry, SignalGap
from tests.databases import emptied
from tests.gateway.doubles import PUBKEY, REPLICA, OneAccount
from tests.signals.memory_store import MemorySignalLog
from tests.signals.test_history import DAY_MS, NO_SIGNALS, NOW
from tests.signals.test_log import signal

FROM = str(NOW // 1000)
ACCOUNTS = [bytes([number]) * 32 for number in range(1, 12)]


def event(number: int, change: str = "event", **fields: Any) -> LogEntry:
    return LogEntry(f"{NOW + number // 100 * 1000}-{number}", change, msgspec.structs.replace(signal(number), **fields))


class EncoderHere:
    """An export whose rows are encoded in this process, by the code of the other one."""

    def __init__(self, exports: Exports, number: int, format_name: str) -> None:
        self._exports, self._number = exports, number
        self.head = self._do(OpenExport(number, format_name))[1][0]

    def _do(self, *request: Any) -> tuple[int, list[bytes]]:
        events, pieces = self._exports.do(*request)
        return events, list(pieces)

    async def prepare(self, reading: int, number: int, lines: Sequence[bytes], corrections: Sequence[bytes]) -> int:
        return self._do(PrepareSlice(self._number, reading, number, 0, 0), b"".join(lines), b"".join(corrections))[0]

    async def write(self, number: int) -> list[bytes]:
        return self._do(WriteSlice(self._number, number))[1]

    async def end(self, told: Mapping[str, Any]) -> bytes:
        return b"".join(self._do(EndExport(self._number, orjson.dumps(told)))[1])

    def close(self) -> None:
        self._do(CloseExport(self._number))


class EncodingHere:
    def __init__(self) -> None:
        self.exports, self._opened = Exports(), 0

    async def open(self, format_name: str) -> EncoderHere:
        self._opened += 1
        return EncoderHere(self.exports, self._opened, format_name)

    async def close(self) -> None:
        assert not self.exports._encoders and not self.exports._prepared  # Nothing is kept of what has ended.


class World:
    """One account of `credits`, a page, and the history of a database."""

    def __init__(self, pool: asyncpg.Pool, credits: int, encoding: HistoryEncoding | None) -> None:
        self.account, self.clock, self.log = OneAccount(credits), ManualClock(NOW + DAY_MS), MemorySignalLog()
        self.history = PostgresSignalHistory(pool)
        owners: Any = self.account
        self.meters = Meters(owners, self.clock, REPLICA)
        self.watch = StandingWatch(owners, spending=self.meters)
        rows, here = PostgresHistoryRows(pool), encoding or EncodingHere()
        self.page = SignalHistoryPage(rows, self.log, self.meters, self.watch, self.clock, here)

    async def ask(
        self,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        pubkey: bytes = PUBKEY,
        is_head: bool = False,
    ) -> PageAnswer | Refusal:
        return await self.page.answer(PageRequest(pubkey, query=query, headers=headers, is_head=is_head))

    async def lines(self, query: Mapping[str, str] = {}, **sent: Any) -> tuple[list[Any], dict[str, Any]]:
        """The rows of an answer as JSON lines, and its end."""
        answer = await self.ask(query, **sent)
        assert isinstance(answer, PageAnswer), answer
        *rows, last = [orjson.loads(line) for line in (await read(answer)).splitlines()]
        return rows, last["end"]

    def is_settled(self) -> bool:
        return not self.account.held and not self.page.exports and not self.watch._streams


async def read(answer: PageAnswer) -> bytes:
    assert not isinstance(answer.body, bytes)
    found = b"".join([piece async for piece in answer.body])
    await answer.body.aclose()
    return found


@asynccontextmanager
async def a_world(
    urls: tuple[str, str],
    entries: Sequence[LogEntry],
    credits: int = 1_000,
    encoding: HistoryEncoding | None = None,
) -> AsyncIterator[World]:
    async with emptied(*urls, *NO_SIGNALS) as pool:
        world = World(pool, credits, encoding)
        await world.history.add(entries)
        yield world
        await world.meters.stop()
        assert world.is_settled()  # Whatever a test did.
        await world.page.close()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of everything: what is paid for at once, slices, and pieces of text."""
    monkeypatch.setattr(history_export, "EVENTS", history_export.EVENTS // 10)
    monkeypatch.setattr(history_export, "SLICE_EVENTS_MAX", history_export.SLICE_EVENTS_MAX // 10)
    monkeypatch.setattr(history_formats, "_ROWS_A_PIECE", history_formats._ROWS_A_PIECE // 10)


@pytest.fixture
def urls(postgres_url: str, owner_url: str) -> tuple[str, str]:
    return postgres_url, owner_url


async def test_signals_come_in_order_and_what_is_started_is_paid_once(urls: tuple[str, str]) -> None:
    """Decisions, "history of signals": the price is of the whole answer, whatever its slices."""
    entries = [event(number) for number in range(432)]
    async with a_world(urls, entries) as world:
        rows, end = await world.lines({"from": FROM})
        assert [row["cursor"] for row in rows] == [entry.cursor for entry in entries]
        assert rows[1] == {
            "time_ms": NOW,
            "cursor": entries[1].cursor,
            "kind": "newPair",
            "program": "P" * 32,
            "signature": "S1",
            "slot": 100,
            "mint": "M1",
            "quote_asset": "SOL",
            "curve_type": "classic",
            "complete": False,
            "lamports": None,
            "accounts": ["a", "b"],
            "wallets": [],
            "block_time": None,
        }
        assert (end["reason"], end["events"], end["credits"]) == ("complete", 432, 50)
        assert world.account.posted == {"signals/history": 50} and world.account.credits == 950


async def test_corrections_of_forks_are_applied_and_gaps_are_told(urls: tuple[str, str]) -> None:
    """Also where a correction is outside the range: what a fork removed is nowhere, and moved signals are in their new
    slot; one that landed again is where it was restored."""
    entries = [event(number) for number in range(5)]
    entries += [event(1, "removed"), event(2, "moved", slot=777), event(3, "removed"), event(3, "restored", slot=9)]
    entries = [msgspec.structs.replace(each, cursor=f"{NOW + n * 1000}-1") for n, each in enumerate(entries)]
    entries.append(LogEntry(f"{NOW + 20_000}-1", "gap", gap=SignalGap(5, 6, "no node")))
    async with a_world(urls, entries) as world:
        rows, end = await world.lines({"from": FROM})
        found = [(row["mint"], row["slot"], (row["time_ms"] - NOW) // 1000) for row in rows]
        assert found == [("M0", 100, 0), ("M2", 777, 2), ("M4", 100, 4), ("M3", 9, 8)]
        assert end["gaps"] == [{"from_slot": 5, "to_slot": 6, "reason": "no node"}] and end["events"] == 4
        rows, _ = await world.lines({"from": FROM, "to": str(NOW // 1000 + 4)})
        assert [row["mint"] for row in rows] == ["M0", "M2"]


async def test_all_formats_have_the_same_rows_and_tell_their_end(urls: tuple[str, str]) -> None:
    """Whole numbers stay whole; the end is where each format can have it."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    large = {"kind": "largeSwap", "lamports": (1 << 64) - 1, "mint": 'M"\\\n,1', "wallets": ("w",)}
    entries = [event(number, **(large if number % 2 else {})) for number in range(250)]
    async with a_world(urls, entries, encoding=HistoryProcess()) as world:
        rows, end = await world.lines({"from": FROM})
        assert rows[1]["mint"] == 'M"\\\n,1' and rows[1]["lamports"] == (1 << 64) - 1
        told = {name: end[name] for name in ("reason", "events", "credits", "cursor")}
        answer = await world.ask({"from": FROM}, {"accept": "application/vnd.apache.parquet"})
        assert isinstance(answer, PageAnswer) and answer.content_type == "application/vnd.apache.parquet"
        file = io.BytesIO(await read(answer))
        kept = orjson.loads(parquet.read_metadata(file).metadata[END_KEY])
        assert {name: kept[name] for name in told} == told
        table = parquet.read_table(file)
        answer = await world.ask({"from": FROM, "format": "arrow"}, {"accept": "text/csv"})
        assert isinstance(answer, PageAnswer)
        reader, batches = pyarrow.ipc.open_stream(await read(answer)), []
        for _ in range(3):
            batch, metadata = reader.read_next_batch_with_custom_metadata()
            batches.append(batch)
        kept = orjson.loads(metadata[END_KEY])
        assert {name: kept[name] for name in told} == told
        assert pyarrow.Table.from_batches(batches).equals(table)
        times = table.column("time").cast(pyarrow.int64()).to_pylist()
        of_table = [{"time_ms": at, **row} for at, row in zip(times, table.drop(["time"]).to_pylist(), strict=True)]
        assert of_table == rows
        answer = await world.ask({"from": FROM}, {"accept": "text/csv"})
        assert isinstance(answer, PageAnswer)
        text = (await read(answer)).decode()
        *lines, last = csv.reader(io.StringIO(text.rpartition("# end: ")[0])), text.rpartition("# end: ")[2]
        table_rows = list(lines[0])
        assert table_rows[0] == list(rows[0]) and len(table_rows) == 251
        assert table_rows[2][6] == 'M"\\\n,1' and table_rows[2][10:13] == [str((1 << 64) - 1), "a b", "w"]
        kept = orjson.loads(last)
        assert {name: kept[name] for name in told} == told
        assert world.account.posted == {"signals/history": 4 * 30}


async def test_a_cap_ends_it_in_order_and_its_cursor_goes_on(urls: tuple[str, str]) -> None:
    """What is allowed is never exceeded, and the two answers together have each signal once."""
    entries = [event(number) for number in range(450)]
    async with a_world(urls, entries) as world:
        first, end = await world.lines({"from": FROM}, headers={"x-max-credits": "29"})
        assert (len(first), end["reason"], end["credits"]) == (200, "max_credits", 20)
        rest, end = await world.lines({"from": FROM, "cursor": end["cursor"]}, headers={"x-max-credits": "30"})
        assert (len(rest), end["reason"], end["credits"]) == (250, "complete", 30)
        assert [row["cursor"] for row in (*first, *rest)] == [entry.cursor for entry in entries]
        too_low = await world.ask({}, {"x-max-credits": "9"})
        assert isinstance(too_low, Refusal) and too_low.err is Err.MAX_CREDITS_EXCEEDED


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ("INSUFFICIENT_CREDITS", "insufficient_credits"),
        ("KEY_BUDGET_EXCEEDED", "key_budget_exceeded"),
        ("HOURLY_LIMIT_EXCEEDED", "hourly_limit_exceeded"),
        ("METHOD_NOT_ALLOWED", "method_not_allowed"),
        ("SERVICE_TEMPORARILY_UNAVAILABLE", "unavailable"),  # Its owner moves.
    ],
)
async def test_an_account_that_may_not_pay_ends_it_in_order(urls: tuple[str, str], refusal: str, reason: str) -> None:
    """Balance, a named key's budget, the hourly limit and a suspension: what was paid for is delivered."""
    async with a_world(urls, [event(number) for number in range(900)]) as world:

        async def refuse(request: HoldRequest) -> None:
            if len(world.account.holds) == 2:
                world.account.refusal = refusal

        world.account.before_hold = refuse
        rows, end = await world.lines({"from": FROM})
        assert (len(rows), end["reason"], end["cursor"]) == (300, reason, rows[-1]["cursor"])
        assert end["credits"] == 30 == world.account.posted["signals/history"]


async def test_the_last_credits_are_spent_in_smallest_slices(urls: tuple[str, str]) -> None:
    """A slice of 200 that is too dear is read again as one of 100."""
    async with a_world(urls, [event(number) for number in range(900)], credits=25) as world:
        rows, end = await world.lines({"from": FROM})
        assert (len(rows), end["reason"]) == (200, "insufficient_credits") and world.account.credits == 5
        poor = await world.ask({"from": FROM})
        assert isinstance(poor, Refusal) and poor.err is Err.INSUFFICIENT_CREDITS and world.account.credits == 5


@pytest.mark.threat(36)
@pytest.mark.parametrize(("taken", "charged"), [(0, 0), (1, 10), (7, 10), (8, 30), (21, 30), (22, 70)])
async def test_a_client_that_leaves_pays_for_slices_that_it_was_given_a_piece_of(
    urls: tuple[str, str], taken: int, charged: int
) -> None:
    """100 events are 7 pieces of at most 15, and slices have 100, 200, 400."""
    async with a_world(urls, [event(number) for number in range(900)]) as world:
        answer = await world.ask({"from": FROM})
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
        for _ in range(taken):
            await anext(answer.body)
        await answer.body.aclose()
        await world.meters.stop()
        assert world.account.posted.get("signals/history", 0) == charged and not world.account.held


@pytest.mark.threat(35)
async def test_a_slow_client_is_cut_off_within_the_life_of_its_hold(urls: tuple[str, str]) -> None:
    """Threat 35. It pays for the slice that it did not take in time, and the answer has no end."""
    async with a_world(urls, [event(number) for number in range(300)]) as world:
        answer = await world.ask({"from": FROM})
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
        await anext(answer.body)
        world.clock.advance(SLICE_SECONDS_MAX + 1)
        assert [piece async for piece in answer.body] == []
        await answer.body.aclose()
        await world.meters.stop()
        assert world.account.posted == {"signals/history": 10}


async def test_an_answer_without_signals_costs_its_minimum_and_a_head_nothing(urls: tuple[str, str]) -> None:
    async with a_world(urls, [event(number) for number in range(10)]) as world:
        rows, end = await world.lines({"kinds": "graduation"})
        assert (rows, end["reason"], end["credits"], world.account.credits) == ([], "complete", 10, 990)
        head = await world.ask({"from": FROM}, is_head=True)
        assert isinstance(head, PageAnswer) and await read(head) == b"" and world.account.credits == 990
        told = dict(head.headers)
        assert int(told["x-credits-estimated"]) % 10 == 0 and told["x-signals-from"].startswith("1970")


@pytest.mark.threat(31)
async def test_a_replaced_key_or_a_suspension_ends_it_between_two_slices(urls: tuple[str, str]) -> None:
    """Threat 31, for answers that go on; few credits do not, as the slice that is sent is paid."""
    async with a_world(urls, [event(number) for number in range(500)], credits=600) as world:
        answer = await world.ask({"from": FROM})
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
        first = await anext(answer.body)
        (question,) = world.watch._streams
        (told,) = world.watch._streams[question].values()
        told(Refusal(Err.INSUFFICIENT_CREDITS))
        pieces = [first]
        for _ in range(7):
            pieces.append(await anext(answer.body))
        told(Refusal(Err.AUTH_FAILED))
        pieces += [piece async for piece in answer.body]
        await answer.body.aclose()
        *rows, last = b"".join(pieces).splitlines()
        assert len(rows) == 300 and orjson.loads(last)["end"]["reason"] == "auth_failed"


async def test_a_history_that_goes_away_ends_it_and_costs_nothing_more(urls: tuple[str, str]) -> None:
    """The slice that could not be read is not charged, and the cursor goes on behind the last one that came."""
    async with a_world(urls, [event(number) for number in range(500)]) as world:
        answer = await world.ask({"from": FROM})
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
        pieces = [await anext(answer.body)]
        while not world.account.held or len(pieces) < 7:
            pieces.append(await anext(answer.body))

        async def away(*_: Any) -> Any:
            raise history_export.HistoryUnavailable("gone")

        world.page.rows.slice = away  # type: ignore[method-assign]
        pieces += [piece async for piece in answer.body]
        await answer.body.aclose()
        *rows, last = b"".join(pieces).splitlines()
        end = orjson.loads(last)["end"]
        assert end["reason"] == "unavailable" and end["events"] == len(rows) == end["credits"] * 10
        assert end["cursor"] == orjson.loads(rows[-1])["cursor"]


async def test_an_export_costs_what_the_list_of_its_account_says(urls: tuple[str, str]) -> None:
    """Decisions, "Price lists": each started thousand, told before and charged after; the cap is by it too."""
    async with a_world(urls, [event(number) for number in range(250)]) as world:
        world.meters._lists = {"cheap": PriceList("cheap", 25)}
        world.account.price_list = "cheap"
        asked = PageRequest(PUBKEY, price_list="cheap", is_head=True)
        head = await world.page.answer(asked)
        assert isinstance(head, PageAnswer) and int(dict(head.headers)["x-credits-estimated"]) % 3 == 0
        assert dict(head.headers)["x-signals-price"].startswith("credits=3;")
        rows, end = await world.lines()
        assert (len(rows), end["credits"], end["reason"]) == (250, 9, "complete")
        answer = await world.page.answer(PageRequest(PUBKEY, price_list="cheap", headers={"x-max-credits": "6"}))
        assert isinstance(answer, PageAnswer)
        told = [orjson.loads(line) for line in (await read(answer)).splitlines()]
        assert (len(told) - 1, told[-1]["end"]["credits"], told[-1]["end"]["reason"]) == (200, 6, "max_credits")
        refused = await world.page.answer(PageRequest(PUBKEY, price_list="cheap", headers={"x-max-credits": "2"}))
        assert isinstance(refused, Refusal) and refused.err is Err.MAX_CREDITS_EXCEEDED
        # Its owner knows of a dearer list before this replica does.
        world.meters._lists["dear"], world.account.price_list = PriceList("dear", 200), "dear"
        posted = world.account.posted
        refused = await world.page.answer(PageRequest(PUBKEY, price_list="cheap", headers={"x-max-credits": "6"}))
        assert isinstance(refused, Refusal) and refused.err is Err.MAX_CREDITS_EXCEEDED
        assert world.account.held == {} and world.account.posted == posted


async def test_an_export_whose_account_gets_a_dearer_list_meanwhile_keeps_its_cap(urls: tuple[str, str]) -> None:
    async with a_world(urls, [event(number) for number in range(1_000)]) as world:
        world.meters._lists = {"dear": PriceList("dear", 400)}
        answer = await world.page.answer(PageRequest(PUBKEY, headers={"x-max-credits": "60"}))
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes)
        first = await anext(answer.body)
        world.account.price_list = "dear"
        rest = b"".join([piece async for piece in answer.body])
        end = orjson.loads((first + rest).splitlines()[-1])["end"]
        assert end["reason"] == "max_credits" and end["credits"] <= 60
        assert sum(world.account.posted.values()) == end["credits"]
        await answer.body.aclose()
