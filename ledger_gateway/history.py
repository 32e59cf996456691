"""GET /signals/history: reads the signals of a time range completely, even if connections are cut, and converts them to
frames.

Implements: actors/signals/README.md, "History". Rows come as JSON lines; after a cut the next answer begins behind the
last whole line. pandas, Polars and pyarrow are optional extras, imported by the functions that need them.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from ledger_gateway.errors import BadAnswer, LedgerGatewayError, Unavailable, Unreachable
from ledger_gateway.retries import Repeatable
from ledger_gateway.signals import Signal

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ledger_gateway.client import Gateway

Time = datetime | str | int
PATH = "/signals/history"
_END = b'{"end":'
_LINE_BYTES_MAX = 1 << 20
_READ_BYTES = 1 << 20  # Bytes of lines read as one group of rows.
_PRICE = re.compile(r"credits=(\d{1,9}); events=(\d{1,9}); cut=(\d{1,9})")
_ORDERLY = frozenset(("complete", "newest", "max_credits"))
_SYNTAX = "pip install 'ledger-gateway[{}]'"
_TEXTS = ("cursor", "kind", "program", "signature", "mint", "quote_asset", "curve_type")
COLUMNS = (
    *("time_ms", "cursor", "kind", "program", "signature", "slot", "mint", "quote_asset", "curve_type", "complete"),
    *("lamports", "accounts", "wallets", "block_time"),
)


class HistoryEnd(msgspec.Struct, frozen=True):
    """How an answer ended.

    reason: complete; newest (the range is not over, or the newest signals are not in the history yet); max_credits; or
    why the account could not go on. cursor: goes on behind the last row. events, credits: of all answers, where several
    were needed; what a cut answer cost is in the ledger, and not here. kept_from: older signals are not kept any more.
    gaps: times or slots whose signals nobody has.
    """

    reason: str
    cursor: str
    events: int = 0
    credits: int = 0
    kept_from: str = ""
    gaps: list[dict[str, Any]] = []


class HistoryStopped(LedgerGatewayError):
    """The account could not pay for, or may not read, the rest. history: what came before; its cursor goes on."""

    next_step = "Look at the balance, the key's budget and the hourly limit; then go on with `cursor`."

    def __init__(self, history: "SignalHistory") -> None:
        super().__init__(f"the history ended early: {history.end.reason}, after {len(history)} signals")
        self.history = history


class SignalHistory:
    """Signals of a time, in the order of the log, in memory as JSON lines."""

    def __init__(self, groups: Sequence[bytes], end: HistoryEnd) -> None:
        self._groups, self.end = groups, end

    def __len__(self) -> int:
        return self.end.events

    def __repr__(self) -> str:
        return f"SignalHistory({len(self)} signals, {self.end.reason})"

    @property
    def is_complete(self) -> bool:
        """Return whether it has every signal of its range that anybody has."""
        return self.end.reason == "complete"

    def signals(self) -> list[Signal]:
        decoder = msgspec.json.Decoder(Signal)
        return [signal for group in self._groups for signal in decoder.decode_lines(group)]

    def to_arrow(self) -> "pyarrow.Table":
        """Return a table. `time` is when the gateway's log got the signal, in UTC; lamports are whole numbers."""
        arrow = _needed("pyarrow", "Arrow tables", "data")
        schema = arrow_schema()
        return arrow.Table.from_batches([batch for group in self._groups for batch in arrow_batches(group)], schema)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a frame with nullable types: no float touches lamports."""
        pandas = _needed("pandas", "pandas frames", "data")
        arrow = _needed("pyarrow", "pandas frames", "data")
        types = {
            arrow.int64(): pandas.Int64Dtype(),
            arrow.uint64(): pandas.UInt64Dtype(),
            arrow.bool_(): pandas.BooleanDtype(),
        }
        return self.to_arrow().to_pandas(types_mapper=types.get)

    def to_polars(self) -> "polars.DataFrame":
        polars = _needed("polars", "Polars frames", "polars")
        schema = dict.fromkeys(COLUMNS, polars.String) | {"complete": polars.Boolean, "lamports": polars.UInt64}
        schema |= dict.fromkeys(("time_ms", "slot", "block_time"), polars.Int64)
        schema |= {name: polars.List(polars.String) for name in ("accounts", "wallets")}
        frames = [polars.read_ndjson(group, schema=schema) for group in self._groups]
        frame = polars.concat(frames) if frames else polars.DataFrame(schema=schema)
        time = polars.col("time_ms").cast(polars.Datetime("ms", "UTC")).alias("time")
        return frame.select(time, polars.exclude("time_ms"))


def arrow_schema() -> "pyarrow.Schema":
    arrow = _needed("pyarrow", "Arrow tables", "data")
    return arrow.schema([("time", arrow.timestamp("ms", tz="UTC")), *list(_wire_schema(arrow))[1:]])


def _wire_schema(arrow: Any) -> Any:
    whole, texts = arrow.int64(), arrow.list_(arrow.string())
    types = dict.fromkeys(COLUMNS, arrow.string()) | dict.fromkeys(("time_ms", "slot", "block_time"), whole)
    types |= {"complete": arrow.bool_(), "lamports": arrow.uint64(), "accounts": texts, "wallets": texts}
    return arrow.schema(list(types.items()))


def arrow_batches(lines: bytes) -> list[Any]:
    """Return record batches of whole JSON lines, which must be at least one."""
    arrow, json = _needed("pyarrow", "Arrow tables", "data"), import_module("pyarrow.json")
    schema = arrow_schema()
    table = json.read_json(
        arrow.BufferReader(lines),
        read_options=json.ReadOptions(use_threads=False, block_size=2 * _READ_BYTES),
        parse_options=json.ParseOptions(explicit_schema=_wire_schema(arrow), unexpected_field_behavior="ignore"),
    )
    time = table.column("time_ms").cast(schema.field("time").type)
    return arrow.Table.from_arrays([time, *table.columns[1:]], schema=schema).to_batches()  # type: ignore[no-any-return]


class HistoryReader:
    """One range of time, to its end. end: set once `groups` has given everything.

    from_, to: a datetime, ISO 8601 in UTC, or Unix seconds. max_credits: of all answers together; a cut answer counts
    with all that it may have cost.
    """

    def __init__(
        self,
        gateway: "Gateway",
        from_: Time | None = None,
        to: Time | None = None,
        *,
        kinds: Sequence[str] | str | None = None,
        program: str | None = None,
        mint: str | None = None,
        cursor: str | None = None,
        max_credits: int | None = None,
    ) -> None:
        listed = kinds if kinds is None or isinstance(kinds, str) else ",".join(kinds)
        query = {"from": _time(from_), "to": _time(to), "kinds": listed, "program": program, "mint": mint}
        self._query = {name: value for name, value in query.items() if value is not None} | {"format": "jsonl"}
        self._transport, self._cursor, self._credits_left = gateway._transport, cursor, max_credits
        self._events = self._credits = 0  # Totals of all answers that ended in order.
        self._received = 0  # Rows received of the present answer.
        self.end: HistoryEnd | None = None

    async def read(self) -> SignalHistory:
        """Return everything, for frames. Raises HistoryStopped, which has what came before, where the account may not
        go on; an end at `max_credits` or at the newest signals is none: see `end`."""
        groups = [group async for group in self.groups()]
        assert self.end is not None
        history = SignalHistory(groups, self.end)
        if not is_orderly(self.end):
            raise HistoryStopped(history)
        return history

    async def groups(self) -> AsyncGenerator[bytes, None]:
        """Yield whole lines, about a mebibyte at once. Raises LedgerGatewayError when it cannot go on."""
        attempts = 0
        while True:
            attempts, self._received = attempts + 1, 0
            try:
                async with aclosing(self._answer()) as lines:
                    async for group in lines:
                        yield group
                assert self.end is not None
                if self.end.reason != "unavailable":
                    return
                raise Unavailable("SERVICE_TEMPORARILY_UNAVAILABLE", 200, "the history could not be read further")
            except LedgerGatewayError as error:
                if self._received:
                    attempts = 1
                if self._is_spent():
                    return
                policy = self._transport.retry
                wait = policy.wait_seconds(error, attempts, Repeatable.HARMLESS, self._transport.jitter())
                if wait is None:
                    raise
            await self._transport.sleep(wait)

    def _is_spent(self) -> bool:
        """Return whether a cut answer may have used up the caller's limit."""
        if self._credits_left is None or self._credits_left >= self._price[0]:
            return False
        self.end = HistoryEnd("max_credits", self._cursor or "0-0", self._events, self._credits)
        return True

    _price = (
        0,
        1,
        0,
    )  # Credits of each started number of events, and how many more than it received a cut answer may cost.

    async def _answer(self) -> AsyncGenerator[bytes, None]:
        """Yield one answer. Raises Unreachable if it has no end."""
        query = self._query | ({} if self._cursor is None else {"cursor": self._cursor})
        headers = {} if self._credits_left is None else {"X-Max-Credits": str(self._credits_left)}
        end: HistoryEnd | None = None
        try:
            async with self._transport.streamed("GET", PATH, query, headers) as response:
                self._price = _price_of(response.headers)
                async for group in _whole_lines(response):
                    rows, end = _split_end(group)
                    if rows:
                        self._note(rows)
                        yield rows
        except (httpx.HTTPError, httpx.StreamError) as error:
            self._count_cut()
            raise Unreachable(f"the answer was cut: {error or type(error).__name__}", was_sent=True) from None
        if end is None:
            self._count_cut()
            raise Unreachable("the answer was cut: it has no end", was_sent=True)
        self._credits += end.credits
        if self._credits_left is not None:
            self._credits_left -= end.credits
        self._cursor = end.cursor
        self.end = msgspec.structs.replace(end, events=self._events, credits=self._credits)

    def _note(self, rows: bytes) -> None:
        last = rows[rows.rfind(b"\n", 0, -1) + 1 :]
        count = rows.count(b"\n")
        self._cursor = msgspec.json.decode(last)["cursor"]
        self._events, self._received = self._events + count, self._received + count

    def _count_cut(self) -> None:
        """Subtract all that a cut answer may have cost from the limit: more may be paid for than was received."""
        credits, events, more = self._price
        if self._credits_left is not None:
            most = -(-(self._received + more) // events) * credits
            self._credits_left = max(0, self._credits_left - most)


def _split_end(group: bytes) -> tuple[bytes, HistoryEnd | None]:
    """Separate the end of an answer from its rows."""
    start = group.rfind(b"\n", 0, -1) + 1
    if not group.startswith(_END, start):
        return group, None
    try:
        return group[:start], msgspec.json.decode(group[start:], type=dict[str, HistoryEnd])["end"]
    except (msgspec.MsgspecError, KeyError):
        raise BadAnswer("the end of the history cannot be read", 200) from None


async def _whole_lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield whole lines, including those before a break, which is raised after them."""
    parts, length, broken = list[bytes](), 0, None
    try:
        async for part in response.aiter_raw():
            parts.append(part)
            length += len(part)
            if length < _READ_BYTES:
                continue
            whole, found, rest = b"".join(parts).rpartition(b"\n")
            if len(rest) > _LINE_BYTES_MAX:
                raise BadAnswer("a line of the history is too long", 200)
            parts, length = [rest], len(rest)
            if found:
                yield whole + b"\n"
    except (httpx.HTTPError, httpx.StreamError) as error:
        broken = error
    whole, found, _ = b"".join(parts).rpartition(b"\n")  # A line without its end was cut.
    if found:
        yield whole + b"\n"
    if broken is not None:
        raise broken


def is_orderly(end: HistoryEnd) -> bool:
    return end.reason in _ORDERLY


def _price_of(headers: Mapping[str, str]) -> tuple[int, int, int]:
    found = _PRICE.fullmatch(headers.get("x-signals-price", ""))
    return (int(found[1]), max(1, int(found[2])), int(found[3])) if found else (0, 1, 0)


def _time(given: Time | None) -> str | None:
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError("a time needs a zone: datetime(..., tzinfo=UTC)")
        return f"{given.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return str(given)


def _needed(module: str, what: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{what} need {module}: {_SYNTAX.format(extra)}") from None
