"""Signals of a time as a Ray dataset: slices of the time are read in parallel, each by a task of its own.

Implements: README.md of this folder, "Ray". The API key travels to the tasks inside an object whose repr hides it. A
gateway lets an account have few exports at once; a task that finds no place asks again for minutes.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ledger_gateway.client import KEY_VARIABLE, Gateway
from ledger_gateway.credentials import ApiKey
from ledger_gateway.history import HistoryReader, HistoryStopped, SignalHistory, arrow_batches, is_orderly
from ledger_gateway.retries import RetryPolicy

if TYPE_CHECKING:
    import pyarrow
    import ray.data

_ROW_BYTES = 420  # Approximate memory of one signal.
_AT_ONCE = 2  # Exports of one account in one replica of a gateway.
_PATIENT = RetryPolicy(attempts_max=30, wait_seconds_max=30.0)


@dataclass(frozen=True, slots=True)
class _TimeSlice:
    """The range that one task reads. Times in microseconds since 1970."""

    url: str
    api_key: ApiKey = field(repr=False)
    start: int
    end: int
    filters: tuple[tuple[str, Any], ...]
    max_credits: int | None

    def blocks(self) -> "Iterator[pyarrow.Table]":
        """Yield tables. Raises LedgerGatewayError, also where the account may not read to the end."""
        import pyarrow

        with asyncio.Runner() as runner:
            gateway = Gateway(self.url, self.api_key, retry=_PATIENT)
            reader = HistoryReader(
                gateway, _moment(self.start), _moment(self.end), **dict(self.filters), max_credits=self.max_credits
            )
            groups = reader.groups()
            try:
                while (group := runner.run(_next(groups))) is not None:
                    yield pyarrow.Table.from_batches(arrow_batches(group))
                _check(reader)
            finally:
                runner.run(groups.aclose())
                runner.run(gateway.close())


async def _next(groups: Any) -> bytes | None:
    found: bytes | None = await anext(groups, None)
    return found


def _check(reader: HistoryReader) -> None:
    assert reader.end is not None
    if not is_orderly(reader.end):
        raise HistoryStopped(SignalHistory((), reader.end))


def read_signals(
    url: str,
    api_key: str | ApiKey | None,
    start: datetime | str,
    end: datetime | str,
    *,
    kinds: Sequence[str] | str | None = None,
    program: str | None = None,
    mint: str | None = None,
    parallelism: int = 4,
    concurrency: int = _AT_ONCE,
    max_credits: int | None = None,
) -> "ray.data.Dataset":
    """Return a dataset of the signals from start to before end, in `parallelism` equal slices of the time.

    api_key: None: that of LEDGER_GATEWAY_API_KEY. start, end: with a zone, or ISO 8601, which is UTC without one.
    concurrency: tasks at once. max_credits: of all slices together, an equal part each; a slice that reaches it ends
    there. A slice that its account may not read to the end fails its task. Each slice costs at least one started
    thousand, and each run of the dataset reads, and pays, again: `materialize()` keeps it.
    """
    if parallelism < 1 or concurrency < 1:
        raise ValueError("parallelism and concurrency must be at least 1")
    first, last = _micros(start), _micros(end)
    if first >= last:
        raise ValueError("start must be before end")
    text = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
    if text is None:
        raise ValueError(f"give an API key, or set {KEY_VARIABLE}")
    key = text if isinstance(text, ApiKey) else ApiKey(text)
    count = min(parallelism, last - first)
    if max_credits is not None and max_credits < count:
        raise ValueError("max_credits: too few for so many slices")
    bounds = [first + (last - first) * number // count for number in range(count + 1)]
    filters = (("kinds", kinds), ("program", program), ("mint", mint))
    each = None if max_credits is None else max_credits // count
    slices = [_TimeSlice(url, key, from_, to, filters, each) for from_, to in pairwise(bounds)]
    return _dataset(slices, concurrency)


def _dataset(slices: Sequence[_TimeSlice], concurrency: int) -> "ray.data.Dataset":
    import ray.data
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class SignalsDatasource(Datasource):  # type: ignore[misc]
        def get_name(self) -> str:
            return "LedgerGatewaySignals"

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
            unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(each.blocks, unknown) for each in slices]

    return ray.data.read_datasource(
        SignalsDatasource(), override_num_blocks=len(slices), concurrency=min(concurrency, len(slices))
    )


def _micros(time: datetime | str) -> int:
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    if moment.tzinfo is None:
        if not isinstance(time, str):
            raise ValueError("a time needs a zone: datetime(..., tzinfo=UTC)")
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
