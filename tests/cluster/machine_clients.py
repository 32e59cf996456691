"""Well-behaved clients of several machines: each call is asked again once, on another machine, where it met a broken
connection, 502 or 503."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

_TIMEOUT_SECONDS = 15.0
_AGAIN = (502, 503)
_PAUSE_SECONDS = 0.2  # Before a call is asked again.


@dataclass
class Record:
    """What the clients saw. failed: when each call failed for good, in seconds since the start, and why; once: when it
    failed for the first time, and was asked again. unknown: how often a client asked and was told nothing: the answer
    may have been lost on its way."""

    calls: int = 0
    answered: int = 0
    unknown: int = 0
    slowest_seconds: float = 0.0
    failed: list[tuple[float, str]] = field(default_factory=list)
    once: list[tuple[float, str]] = field(default_factory=list)

    @property
    def asked_again(self) -> int:
        return len(self.once)

    @property
    def window_seconds(self) -> float:
        """From the first to the last failed call."""
        return _window(self.failed)

    def __str__(self) -> str:
        reasons = dict(Counter(reason for _, reason in self.once + self.failed))
        return (
            f"{self.calls} calls, {len(self.failed)} failed within {self.window_seconds:.1f} s, {self.asked_again} "
            f"asked again within {_window(self.once):.1f} s, {self.unknown} unknown, the slowest took "
            f"{self.slowest_seconds:.1f} s; {reasons}"
        )


def _window(failed: Sequence[tuple[float, str]]) -> float:
    moments = [moment for moment, _ in failed]
    return max(moments) - min(moments) if moments else 0.0


class Callers:
    """Asks getSlot at a fixed rate, one machine after the other, until `stop`."""

    def __init__(self, urls: Sequence[str], api_key: str, calls_per_second: int) -> None:
        self.record = Record()
        self._urls, self._headers, self._pause = list(urls), {"X-Api-Key": api_key}, 1.0 / calls_per_second
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        began = time.monotonic()
        machines = itertools.cycle(range(len(self._urls)))
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS, sock_connect=2.0)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            for number in itertools.count():
                if self._stopped.is_set():
                    break
                group.create_task(self._call(session, next(machines), began))
                await asyncio.sleep(max(0.0, began + (number + 1) * self._pause - time.monotonic()))

    def stop(self) -> None:
        self._stopped.set()

    async def _call(self, session: aiohttp.ClientSession, machine: int, began: float) -> None:
        self.record.calls += 1
        asked = time.monotonic()
        reason = await self._ask(session, self._urls[machine])
        if reason is not None and not reason.startswith("final"):
            self.record.once.append((time.monotonic() - began, reason))
            await asyncio.sleep(_PAUSE_SECONDS)
            reason = await self._ask(session, self._urls[(machine + 1) % len(self._urls)])
        if reason is not None:
            self.record.failed.append((time.monotonic() - began, reason))
        self.record.slowest_seconds = max(self.record.slowest_seconds, time.monotonic() - asked)

    async def _ask(self, session: aiohttp.ClientSession, url: str) -> str | None:
        """Ask once. None: answered. Else why not; what begins with "final" is not asked again."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getSlot"})
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                found = await answer.json(content_type=None)
                if answer.status == 200 and "result" in found:
                    self.record.answered += 1
                    return None
                return f"{'' if answer.status in _AGAIN else 'final '}{answer.status}"
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:  # Nothing was asked.
            return type(error).__name__
        except TimeoutError:
            self.record.unknown += 1
            return "timeout"
        except (aiohttp.ClientError, ValueError, OSError) as error:
            self.record.unknown += 1
            return type(error).__name__
