"""The process that encodes exports: when there is one, what is lost with it, and what ends it."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import orjson
import psutil
import pytest

from actors.errors import Err, Refusal
from actors.pages import PageAnswer
from actors.side_process import ProcessLost, RequestFailed
from actors.signals.history_process import HistoryProcess
from actors.signals.history_slices import StoredSignal
from tests.signals.test_history_export import FROM, a_world, event, read
from tests.signals.test_log import signal as a_signal


def lines(first: int, last: int) -> bytes:
    rows = [StoredSignal(1_000 + number, number, a_signal(number)) for number in range(first, last)]
    return msgspec.json.Encoder().encode_lines(rows)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110 - of another process.
            await asyncio.sleep(0.01)


async def test_there_is_a_process_only_for_exports_and_it_works_for_all_of_them() -> None:
    """None while nothing is exported; one for two exports, of low priority and without secrets; none when idle."""
    encoding = HistoryProcess(idle_seconds=0.05)
    assert encoding.pid is None
    first, second = await encoding.open("jsonl"), await encoding.open("csv")
    assert encoding.pid is not None
    process = psutil.Process(encoding.pid)
    assert process.nice() == min(19, os.nice(0) + 10)
    assert not {name for name in process.environ() if "URL" in name or "KEY" in name or "SECRET" in name}
    assert "ray" not in {Path(each.path).parent.name for each in process.memory_maps()}
    cut = [lines(0, 900)[start : start + 1_000] for start in range(0, len(lines(0, 900)), 1_000)]
    assert await asyncio.gather(first.prepare(1, 1, cut, []), second.prepare(1, 1, cut, [])) == [900, 900]
    assert [orjson.loads(row)["slot"] for row in b"".join(await first.write(1)).splitlines()] == [
        a_signal(number).slot for number in range(900)
    ]
    assert second.head.startswith(b"time_ms,") and len(b"".join(await second.write(1)).splitlines()) == 900
    with pytest.raises(RequestFailed):
        await first.prepare(1, 2, [b"[no row\n"], [])
    assert await first.prepare(1, 3, [lines(0, 1)], []) == 1
    assert await first.prepare(2, 4, [lines(0, 1)], []) == 1
    with pytest.raises(RequestFailed):
        await first.write(3)  # Of a reading that was given up.
    first.close()
    second.close()
    await until(lambda: encoding.pid is None and not psutil.pid_exists(process.pid))
    await encoding.close()


async def test_a_cancelled_request_does_not_shift_the_answers_of_others() -> None:
    encoding = HistoryProcess()
    export = await encoding.open("jsonl")
    left = asyncio.ensure_future(export.prepare(1, 1, [lines(0, 500)], []))
    waits = asyncio.ensure_future(export.prepare(1, 2, [lines(0, 400)], []))
    await asyncio.sleep(0)
    left.cancel()
    waits.cancel()
    assert await export.prepare(1, 3, [lines(0, 3)], []) == 3
    assert len(b"".join(await export.write(3)).splitlines()) == 3
    await encoding.close()


async def test_a_killed_process_loses_the_exports_under_way_and_the_next_one_has_another(
    postgres_url: str, owner_url: str
) -> None:
    """Decisions, "history of signals": what was sent is paid, the slice that was not is free, and nobody waits."""
    encoding = HistoryProcess()
    async with a_world(
        (postgres_url, owner_url), [event(number) for number in range(20_000)], encoding=encoding
    ) as world:
        answer = await world.ask({"from": FROM})
        assert isinstance(answer, PageAnswer) and not isinstance(answer.body, bytes) and encoding.pid is not None
        killed, pieces = encoding.pid, [await anext(answer.body)]
        os.kill(killed, signal.SIGKILL)
        pieces += [piece async for piece in answer.body]
        await answer.body.aclose()
        await world.meters.stop()
        rows = b"".join(pieces).splitlines()
        assert b'{"end"' not in rows[-1] and len(rows) % 1_000 == 0
        assert world.account.posted == {"signals/history": len(rows) // 100} and not world.account.held
        await until(lambda: not psutil.pid_exists(killed))
        answer = await world.ask({"from": FROM, "to": str(int(FROM) + 5)})
        assert isinstance(answer, PageAnswer) and b'"reason":"complete"' in await read(answer)
        assert encoding.pid is not None and encoding.pid != killed
        await (await encoding.open("csv")).prepare(1, 1, [lines(0, 1)], [])
        os.kill(encoding.pid, signal.SIGKILL)  # While it has nothing to do: nobody notices.
        await until(lambda: psutil.Process(encoding.pid).status() == psutil.STATUS_ZOMBIE)
        answer = await world.ask({"from": FROM, "to": str(int(FROM) + 5)})
        assert isinstance(answer, PageAnswer) and b'"reason":"complete"' in await read(answer)


async def test_a_process_that_hangs_or_cannot_be_started_is_given_up(
    postgres_url: str, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export that cannot begin is refused, free."""
    encoding = HistoryProcess()
    async with a_world((postgres_url, owner_url), [event(1)], encoding=encoding) as world:
        export = await encoding.open("jsonl")
        assert encoding.pid is not None
        hanging = encoding.pid
        os.kill(hanging, signal.SIGSTOP)
        running = encoding._side.running
        assert running is not None
        running.answer_seconds_max = 0.1
        with pytest.raises(ProcessLost):
            await export.prepare(1, 1, [lines(0, 9)], [])
        export.close()
        await until(lambda: not psutil.pid_exists(hanging))
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        answer = await world.ask({"from": FROM})
        assert isinstance(answer, Refusal) and answer.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
        assert not world.account.holds
