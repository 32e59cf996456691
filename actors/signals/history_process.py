"""Runs the process that encodes the rows of a replica's exports, and sends it requests.

Implements: decisions, "history of signals". A shell over side_process.py; what the process does is history_worker.py's.
In threads of the replica the same work held Python's lock so often that calls of other clients took up to thirty times
as long. The first export starts it. When it is killed, or does not answer in time, the exports that it had are lost,
and the next export starts another process. Of each export three requests at most wait.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import orjson

from actors.side_process import IDLE_SECONDS, ProcessConnection, ProcessLost, SideProcess
from actors.signals.history_worker import CloseExport, EndExport, OpenExport, PrepareSlice, WriteSlice

# A slice takes some hundredths of a second. Also applies to a start, whose imports take a second.
_ANSWER_SECONDS_MAX = 20.0
_MODULE = "actors.signals.history_worker"


class HistoryEncoder(Protocol):
    """One export. All raise ProcessLost and RequestFailed."""

    head: bytes

    async def prepare(self, reading: int, number: int, lines: Sequence[bytes], corrections: Sequence[bytes]) -> int:
        """Make of rows what `write` takes; return how many signals they are. See history_worker.PrepareSlice."""
        ...

    async def write(self, number: int) -> list[bytes]: ...

    async def end(self, told: Mapping[str, Any]) -> bytes: ...

    def close(self) -> None:
        """Forget the export. A second call changes nothing."""
        ...


class HistoryEncoding(Protocol):
    async def open(self, format_name: str) -> HistoryEncoder:
        """Begin an export. Raises ProcessLost and RequestFailed."""
        ...

    async def close(self) -> None: ...


class HistoryProcess:
    """Used by one event loop. The process ends after a while without exports."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._side = SideProcess(_MODULE, "encodes exports", _ANSWER_SECONDS_MAX, idle_seconds)
        self._last_export = 0

    @property
    def pid(self) -> int | None:
        return self._side.pid

    async def open(self, format_name: str) -> HistoryEncoder:
        self._last_export += 1
        number = self._last_export
        self._side.enter()
        try:
            running, head = await self._begun(OpenExport(number, format_name))
        except BaseException:
            self._side.leave()
            raise
        return _ProcessEncoder(running, number, head, lambda: self._close(running, number))

    async def _begun(self, request: OpenExport) -> tuple[ProcessConnection, bytes]:
        """Return the process that now has the export, and the bytes before all rows."""
        while True:
            running, is_new = await self._side.started()
            try:
                _, pieces = await running.ask(request)
            except ProcessLost:
                if is_new:
                    raise
                continue  # It was just killed.
            return running, b"".join(pieces)

    def _close(self, running: ProcessConnection, number: int) -> None:
        if not running.is_lost:
            self._side.tell(running, CloseExport(number))
        self._side.leave()

    async def close(self) -> None:
        await self._side.close()


class _ProcessEncoder:
    def __init__(self, running: ProcessConnection, export: int, head: bytes, on_close: Callable[[], None]) -> None:
        self.head = head
        self._running, self._export = running, export
        self._on_close: Callable[[], None] | None = on_close

    async def prepare(self, reading: int, number: int, lines: Sequence[bytes], corrections: Sequence[bytes]) -> int:
        sizes = sum(map(len, lines)), sum(map(len, corrections))
        events, _ = await self._running.ask(PrepareSlice(self._export, reading, number, *sizes), (*lines, *corrections))
        return events

    async def write(self, number: int) -> list[bytes]:
        return (await self._running.ask(WriteSlice(self._export, number)))[1]

    async def end(self, told: Mapping[str, Any]) -> bytes:
        return b"".join((await self._running.ask(EndExport(self._export, orjson.dumps(told))))[1])

    def close(self) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
