"""What every attacker shares: whom it attacks, how long, and what it saw.

An attacker only talks to the product of this machine, from the loopback address `source`, so that limits per address
meet it and not the victim. It ends by itself when its seconds are over.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

_PAUSE_SECONDS: Final = 0.02  # Pause after a broken connection; a client without pauses would starve itself first.
_READ_LIMIT: Final = 1 << 20
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_BROKEN: Final = (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError)

Work = Callable[[], Awaitable[None]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Target:
    """keys: API keys of the attacker's accounts. seconds: how long it attacks. kept_slots: replay window of gRPC."""

    host: str
    http_port: int
    grpc_target: str
    keys: tuple[str, ...]
    seconds: float
    source: str = "127.0.0.2"
    kept_slots: int = 100

    @classmethod
    def of(cls, text: str) -> Self:
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "keys": tuple(fields["keys"])})

    def text(self) -> str:
        return json.dumps(asdict(self))

    async def connect(self) -> Connection:
        return await asyncio.open_connection(self.host, self.http_port, local_addr=(self.source, 0), limit=_READ_LIMIT)


class Attack:
    """One run of an attacker. seen: counts of its actions and of the answers."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.seen: Counter[str] = Counter()
        self._end = time.monotonic() + target.seconds

    @property
    def left_seconds(self) -> float:
        return max(0.0, self._end - time.monotonic())

    async def repeat(self, workers: int, work: Work) -> None:
        """Let this many workers repeat the work until the time is over; broken connections are counted."""
        loops = [asyncio.create_task(self._again(work)) for _ in range(workers)]
        _, late = await asyncio.wait(loops, timeout=self.left_seconds)
        for task in late:
            task.cancel()
        for result in await asyncio.gather(*loops, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _again(self, work: Work) -> None:
        while self.left_seconds:
            try:
                await work()
            except _BROKEN as error:
                self.seen[type(error).__name__] += 1
                await asyncio.sleep(_PAUSE_SECONDS)


def post(path: str, body: bytes, key: str | None = None) -> bytes:
    """Return a whole HTTP request."""
    credential = "" if key is None else f"X-Api-Key: {key}\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{credential}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """Read one HTTP answer; return its status and whether the connection stays open."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = _LENGTH.search(head)
    if found is not None:
        await reader.readexactly(int(found[1]))
        return head[9:12].decode(), b"connection: close" not in head.lower()
    while await reader.read(_READ_LIMIT):  # Chunked: the connection is not used afterwards.
        if reader.at_eof():
            break
    return head[9:12].decode(), False


async def ask_for_ever(attack: Attack, next_request: Callable[[], bytes]) -> None:
    """Send requests on one connection, each after the answer to the previous one, until it closes."""
    reader, writer = await attack.target.connect()
    try:
        is_open = True
        while is_open and attack.left_seconds:
            writer.write(next_request())
            await writer.drain()
            status, is_open = await read_answer(reader)
            attack.seen[status] += 1
    finally:
        writer.close()
