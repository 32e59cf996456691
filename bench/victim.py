"""The victim of an attack: a customer who makes `getSlot` calls at a fixed rate, in a process of its own.

The load is open: a call is due at its time whatever became of the earlier ones, and its latency counts from that time.
A call that fails is made once more at once, and both ends are told. `python -m bench.victim` reads the address and the
key from its first line, then a number of seconds from each further line, and answers each with one line of figures.
"""

import asyncio
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import aiohttp

from bench.children import Child

PER_SECOND: Final = 50
_CALL_SECONDS_MAX: Final = 20.0
_BODY: Final = b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
_ANSWERED: Final = "200"


@dataclass(frozen=True, slots=True)
class Call:
    """due: seconds from the begin of the measurement. end, second_end: a status, or the name of what broke."""

    due: float
    seconds: float
    end: str
    second_end: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Result of one measurement by the victim."""

    calls: tuple[Call, ...]

    @classmethod
    def of(cls, line: str) -> Self:
        return cls(tuple(Call(*found) for found in json.loads(line)))

    def latency(self, share: float, calls: Sequence[Call] | None = None) -> float:
        """Return the latency in seconds within which this share of the calls ended."""
        ordered = sorted(call.seconds for call in (self.calls if calls is None else calls))
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    @property
    def failures(self) -> Counter[str]:
        """Count the results of unanswered calls."""
        return Counter(call.end for call in self.calls if call.end != _ANSWERED)

    @property
    def failures_after_retry(self) -> Counter[str]:
        return Counter(call.second_end for call in self.calls if call.second_end != _ANSWERED)

    @property
    def failing_seconds(self) -> float:
        """Return the time between the first and the last call that failed."""
        due = [call.due for call in self.calls if call.end != _ANSWERED]
        return max(due) - min(due) if due else 0.0


class Victim:
    """The victim's process, from the side of the measurement."""

    def __init__(self, http_url: str, api_key: str) -> None:
        self._child = Child("bench.victim")
        self._child.tell(json.dumps([http_url, api_key]))
        self._child.hear()

    def begin(self, seconds: float) -> None:
        self._child.tell(str(seconds))

    def end(self) -> Seen:
        """Wait for the end of the measurement that has begun."""
        return Seen.of(self._child.hear())

    def measure(self, seconds: float) -> Seen:
        self.begin(seconds)
        return self.end()

    def close(self) -> None:
        self._child.close()


async def _one(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.post(url, data=_BODY) as answer:
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return type(error).__name__
    return str(answer.status) if answer.status != 200 or b'"result"' in body else "200 without a result"


async def _call(session: aiohttp.ClientSession, url: str, began: float, due: float) -> Call:
    first = second = await _one(session, url)
    seconds = time.monotonic() - began - due
    if first != _ANSWERED:
        second = await _one(session, url)
    return Call(due, seconds, first, second)


async def _measure(session: aiohttp.ClientSession, url: str, seconds: float) -> list[Call]:
    began, tasks = time.monotonic(), []
    for number in range(round(seconds * PER_SECOND)):
        due = number / PER_SECOND
        await asyncio.sleep(max(0.0, began + due - time.monotonic()))
        tasks.append(asyncio.create_task(_call(session, url, began, due)))
    return await asyncio.gather(*tasks)


async def _serve() -> None:
    url, key = json.loads(sys.stdin.readline())
    session: Any = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS_MAX),
        connector=aiohttp.TCPConnector(limit=0),
        headers={"X-Api-Key": key, "Content-Type": "application/json"},
    )
    async with session:
        await _measure(session, url, 0.5)
        _say([])
        while line := await asyncio.to_thread(sys.stdin.readline):
            calls = await _measure(session, url, float(line))
            _say([[call.due, call.seconds, call.end, call.second_end] for call in calls])


def _say(found: Any) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve())
