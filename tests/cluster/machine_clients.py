"""Well-behaved clients of several machines: each call is asked again once, on another machine, where it met a broken
connection, 502 or 503. The clients of HTTP; those of the other doors are in machine_sockets.py, machine_sends.py and
machine_streams.py."""

import asyncio
import contextlib
import itertools
import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

ANSWER_SECONDS = 15.0  # How long a client waits for an answer, unless it is told otherwise.
AGAIN = (502, 503)
_PAUSE_SECONDS = 0.2  # Before a call is asked again.


@dataclass
class Record:
    """What the clients saw. failed: when each call was made that failed for good, in seconds since the start, and why;
    once: when a call failed for the first time, and was asked again. unknown: how often a client asked and was told
    nothing: the answer may have been lost on its way. began: the start, of the monotonic clock."""

    calls: int = 0
    answered: int = 0
    unknown: int = 0
    began: float = 0.0
    failed: list[tuple[float, str]] = field(default_factory=list)
    once: list[tuple[float, str]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)  # Seconds of each call, the second time included.

    @property
    def slowest_seconds(self) -> float:
        return max(self.took, default=0.0)

    @property
    def asked_again(self) -> int:
        return len(self.once)

    @property
    def window_seconds(self) -> float:
        """From the first to the last call that failed, by when it was made: how long its client waited does not
        count."""
        return _window(self.failed)

    @property
    def asked_again_seconds(self) -> float:
        """From the first to the last call that was asked again."""
        return _window(self.once)

    def last_trouble(self) -> float:
        """Return when a call last failed for the first time, or was made that failed for good, of the monotonic clock;
        0.0: none did."""
        moments = [moment for moment, _ in self.failed + self.once]
        return self.began + max(moments) if moments else 0.0

    def __str__(self) -> str:
        reasons = dict(Counter(reason for _, reason in self.once + self.failed))
        return (
            f"{self.calls} calls, {len(self.failed)} failed within {self.window_seconds:.1f} s, {self.asked_again} "
            f"asked again within {self.asked_again_seconds:.1f} s, {self.unknown} unknown, the slowest took "
            f"{self.slowest_seconds:.1f} s; {reasons}"
        )


def _window(failed: Sequence[tuple[float, str]]) -> float:
    moments = [moment for moment, _ in failed]
    return max(moments) - min(moments) if moments else 0.0


class Calling(ABC):
    """Makes calls at a fixed rate, one machine after the other, until `stop`; each once more where it met a fault."""

    def __init__(self, machines: int, calls_per_second: float) -> None:
        self.record = Record()
        self.answer_seconds = ANSWER_SECONDS
        self._machines, self._pause = machines, 1.0 / calls_per_second
        self._stopped = asyncio.Event()

    @property
    def credits(self) -> int:
        """Return the credits that these calls must have cost, by their answers."""
        return self.record.answered

    async def run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            await self._open(stack)
            began = self.record.began = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for number in itertools.count():
                    if self._stopped.is_set():
                        break
                    group.create_task(self._call(number, began))
                    await asyncio.sleep(max(0.0, began + (number + 1) * self._pause - time.monotonic()))
            await self._end()

    def stop(self) -> None:
        self._stopped.set()

    async def _call(self, number: int, began: float) -> None:
        self.record.calls += 1
        asked = time.monotonic()
        reason = await self._ask(number % self._machines, number)
        if reason is not None and not reason.startswith("final"):
            self.record.once.append((time.monotonic() - began, reason))
            await asyncio.sleep(_PAUSE_SECONDS)
            reason = await self._ask((number + 1) % self._machines, number)
        if reason is not None:
            self.record.failed.append((asked - began, reason))
        self.record.took.append(time.monotonic() - asked)

    @abstractmethod
    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        """Open what all calls share; the stack closes it."""

    async def _end(self) -> None:  # noqa: B027 - most clients have nothing to ask.
        """Ask what is not known yet, once all calls have ended."""

    @abstractmethod
    async def _ask(self, machine: int, number: int) -> str | None:
        """Make the call of this number. None: answered. Else why not; what begins with "final" is not asked again."""


class Callers(Calling):
    """Asks getSlot over HTTP."""

    def __init__(self, urls: Sequence[str], api_key: str, calls_per_second: float) -> None:
        super().__init__(len(urls), calls_per_second)
        self._urls, self._headers = list(urls), {"X-Api-Key": api_key}

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        timeout = aiohttp.ClientTimeout(total=self.answer_seconds, sock_connect=2.0)
        self._session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))

    async def _ask(self, machine: int, number: int) -> str | None:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getSlot"})
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            async with self._session.post(self._urls[machine], data=body, headers=headers) as answer:
                found = await answer.json(content_type=None)
                if answer.status == 200 and "result" in found:
                    self.record.answered += 1
                    return None
                return f"{'' if answer.status in AGAIN else 'final '}{answer.status}"
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:  # Nothing was asked.
            return type(error).__name__
        except TimeoutError:
            self.record.unknown += 1
            return "timeout"
        except (aiohttp.ClientError, ValueError, OSError) as error:
            self.record.unknown += 1
            return type(error).__name__
