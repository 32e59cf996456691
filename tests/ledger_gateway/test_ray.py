"""The Ray dataset: which slices of time, what its tasks give, and where the API key is shown: nowhere."""

import asyncio
import pickle
import threading
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from ledger_gateway import ApiKey, HistoryStopped
from ledger_gateway.ray import _AT_ONCE, _TimeSlice, read_signals

from .test_history import answer, end, row
from .world import raw_server

START, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)


def slices_of(monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[_TimeSlice]:
    made: list[_TimeSlice] = []
    monkeypatch.setattr("ledger_gateway.ray._dataset", lambda slices, concurrency: made.extend(slices))
    read_signals("http://a", "srpc_live_secret", options.pop("start", START), END, **options)
    return made


def test_a_dataset_is_equal_slices_of_time_whose_key_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    made = slices_of(monkeypatch, parallelism=5, max_credits=103, kinds=["newPair"])
    assert [made[0].start, made[-1].end] == [at.timestamp() * 1e6 for at in (START, END)]
    assert all(one.end == other.start for one, other in pairwise(made))
    assert {one.end - one.start for one in made} == {86_400_000_000 // 5} and made[0].max_credits == 20
    assert "secret" not in repr(made) and "secret" not in str(made[0].blocks)
    assert pickle.loads(pickle.dumps(made[0])).api_key.text == "srpc_live_secret"
    assert slices_of(monkeypatch, start="2026-11-01")[0].start == made[0].start and _AT_ONCE == 2


@pytest.mark.parametrize(
    "wrong",
    [{"parallelism": 0}, {"concurrency": 0}, {"start": END}, {"max_credits": 3}, {"start": datetime(2026, 1, 1)}],
)
def test_a_dataset_that_cannot_be_is_refused_before_anything_is_asked(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError):
        slices_of(monkeypatch, **wrong)


def test_a_slice_gives_tables_and_fails_where_its_account_may_not_read_on() -> None:
    """In a thread, as in a worker of Ray, which runs no event loop of its own."""
    pytest.importorskip("pyarrow")
    found: list[Any] = []

    async def serve() -> None:
        answers = [answer(row(1) + row(2) + end("complete", 2)), answer(end("insufficient_credits", 2))]
        async with raw_server(*answers) as (url, _):
            await asyncio.to_thread(read, url)

    def read(url: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        one = _TimeSlice(url, ApiKey("k"), 0, 1_000_000, (), None)
        found.extend(one.blocks())
        with pytest.raises(HistoryStopped):
            list(one.blocks())

    asyncio.run(serve())
    assert [table.num_rows for table in found] == [2] and found[0].column_names[0] == "time"
