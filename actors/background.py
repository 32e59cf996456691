"""Keeps background tasks, logs and counts their crashes, and awaits their ends.

asyncio keeps only a weak reference to a task, and reports the exception of an unawaited task when the task is
collected, if ever. Not here: tasks whose result is awaited.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, ClassVar, TypeVar

CANCEL_AGAIN_SECONDS = 5.0
_Result = TypeVar("_Result")


class Background:
    """The background tasks of one object, in one event loop. failure: the log message of a crash."""

    crashes: ClassVar[int] = 0  # Crashes in this process, for its metrics.

    def __init__(self, logger: logging.Logger, failure: str) -> None:
        self._logger, self._failure = logger, failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return how many tasks run."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, _Result]) -> "asyncio.Task[_Result]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def repeat(
        self,
        work: Callable[[], Awaitable[object]],
        seconds: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Do the work until `stop`, with a pause of so many seconds after each time. A crash does not end it."""
        self.start(self._repeat(work, seconds, sleep))

    async def stop(self, but: Collection["asyncio.Task[Any]"] = ()) -> None:
        """Cancel the tasks, and wait until all have ended. but: tasks that end by themselves.

        A driver may turn a cancellation into a broken connection, which a loop catches, and then goes on: what has not
        ended after a while is cancelled again.
        """
        left = set(self._tasks)
        while left:
            for task in left.difference(but):
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_SECONDS)

    async def finish(self) -> None:
        """Wait until no task runs, including tasks started in the meantime."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _repeat(
        self, work: Callable[[], Awaitable[object]], seconds: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - logged; the next round may succeed.
                self._crashed(error)
            if task.cancelling():  # A driver may turn a cancellation into a broken connection, which the work catches.
                return
            await sleep(seconds)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        Background.crashes += 1
        self._logger.error(self._failure, exc_info=error)
