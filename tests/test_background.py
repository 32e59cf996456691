"""Background tasks are kept, logged and counted when they crash, and awaited at the end."""

import asyncio
import contextlib
import logging

import pytest

from actors import background
from actors.background import Background


async def _crash() -> None:
    raise ValueError("a bug")


def _background() -> Background:
    return Background(logging.getLogger("tests.background"), "the work failed")


async def test_a_crash_is_logged_and_counted_and_the_task_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    background, before = _background(), Background.crashes
    background.start(_crash())
    await background.finish()
    assert [record.getMessage() for record in caplog.records] == ["the work failed"]
    assert caplog.records[0].exc_info is not None and Background.crashes == before + 1
    assert len(background) == 0


async def test_stop_cancels_every_task_and_waits_for_its_end_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    background = _background()
    ended: list[int] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    for _ in range(3):
        background.start(work())
    await asyncio.sleep(0)
    assert len(background) == 3
    await background.stop()
    assert ended == [1, 1, 1] and len(background) == 0 and not caplog.records


async def test_finish_waits_for_tasks_that_start_meanwhile() -> None:
    background = _background()
    done: list[str] = []

    async def last() -> None:
        await asyncio.sleep(0)
        done.append("last")

    async def first() -> None:
        await asyncio.sleep(0)
        background.start(last())
        done.append("first")

    background.start(first())
    await background.finish()
    assert done == ["first", "last"]


async def test_repeated_work_goes_on_after_a_crash_with_the_pause_it_was_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = _background()
    rounds: list[int] = []
    pauses: list[float] = []
    enough = asyncio.Event()

    async def work() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            await _crash()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            enough.set()
            await asyncio.get_running_loop().create_future()

    background.repeat(work, 0.5, sleep)
    await enough.wait()
    await background.stop()
    assert rounds == [0, 1, 2] and pauses == [0.5, 0.5, 0.5]
    assert [record.getMessage() for record in caplog.records] == ["the work failed"]


async def test_work_that_swallows_its_cancellation_ends_all_the_same() -> None:
    """As a driver does that takes a cancelled read for a broken connection; `stop` would wait for ever."""
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    background = Background(logging.getLogger(__name__), "it failed")
    background.repeat(work, 60.0)
    await started.wait()
    async with asyncio.timeout(10):
        await background.stop()
    assert len(background) == 0


async def test_a_task_that_loses_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does whose driver turns it into a broken connection."""
    monkeypatch.setattr(background, "CANCEL_AGAIN_SECONDS", 0.01)
    lost = 0

    async def reads_on() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    made = Background(logging.getLogger("x"), "x")
    task = made.start(reads_on())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await made.stop()
    assert lost == 3 and task.cancelled()
