"""Asks one address a day's mix of calls, and checks every answer: a process of its own, driven line by line.

`python -m bench.mix_load` reads what to ask from its first line (Mix), then a step from each further line (Step; null:
none, and its connections are closed), and answers each with one line. A step of a rate is an open model: a call is due
at its time whatever became of the others, waits for a free connection, and its latency counts from the time at which it
was due. Every call is waited for. Connections are made before a step begins, and stay open until the next one, so that
their bytes can be read from the kernel.
"""

import asyncio
import itertools
import sys
import time
from array import array
from collections import Counter
from contextlib import closing
from typing import Any, Self, cast
from urllib.parse import urlsplit

import msgspec
import orjson
import uvloop

from bench import mix_questions
from bench.blocks import Caller
from bench.children import Child
from bench.figures import percentile
from bench.load import Client, Tally, request_bytes
from bench.mix_questions import OTHER_CONTENT, Question

_END_SECONDS_MAX = 90.0  # Beyond the last call of a step.
# A server says so of a connection on which no call came in time, and closes it: a step of a rate may leave some unused.
_REQUEST_TIMEOUT = 408
_TIMER_SECONDS = 0.0005  # uvloop's timers are of whole milliseconds, rounded.


class Mix(msgspec.Struct):
    """What is asked. slots: of the filled blocks of the chain at chain_url; None: the node has its answers ready."""

    count: int
    chain_url: str = ""
    slots: list[int] | None = None

    def questions(self) -> list[Question]:
        if self.slots is None:
            return mix_questions.mixed(mix_questions.ready, self.count)
        with closing(Caller(self.chain_url)) as caller:
            return mix_questions.mixed(mix_questions.OfChain(caller, self.slots).question, self.count)


class Step(msgspec.Struct):
    """rate: calls a second; None: each connection asks again after each answer."""

    url: str
    api_key: str
    connections: int
    seconds: float
    rate: float | None = None


class Seen(msgspec.Struct):
    """What became of a step. answered: by method, and "METHOD hit" where the answer came from a cache. faults: of other
    answers, by kind. seconds: until the last answer."""

    answered: dict[str, int]
    faults: dict[str, int]
    seconds: float
    bytes: int
    p50_ms: float
    p99_ms: float
    p999_ms: float

    @property
    def calls(self) -> int:
        return sum(self.answered.values())


class MixLoad:
    """The load process, from the side of the measurement."""

    def __init__(self, mix: Mix) -> None:
        self._child = Child("bench.mix_load")
        self._child.tell(orjson.dumps(msgspec.to_builtins(mix)).decode())
        self._child.hear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def leave(self) -> None:
        """Close the connections of the previous step."""
        self._child.tell("null")
        self._child.hear()

    def step(self, step: Step) -> Seen:
        self._child.tell(msgspec.json.encode(step).decode())
        return msgspec.json.decode(self._child.hear(), type=Seen)


class Asking(Tally):
    """A running step. questions: without end."""

    def __init__(self, step: Step, questions: Any) -> None:
        super().__init__(None, 0.0)
        self.questions, self.began, self.rate = questions, 0.0, step.rate
        self.good, self.faults, self.bytes = Counter[str](), Counter[str](), 0
        self.in_flight, self._taken = 0, 0
        self.given_back: list[
            tuple[float, Question]
        ] = []  # Calls that are due, of connections that closed before them.
        self.ended = asyncio.get_running_loop().create_future()

    def take_call(self) -> tuple[float, Question] | None:
        """The next call, and the time at which it is due; None: there is none in this step."""
        if self.given_back:
            return self.given_back.pop()
        due = time.perf_counter() if self.rate is None else self.began + self._taken / self.rate
        if due >= self.deadline:
            self.check_end()
            return None
        self._taken += 1
        self.in_flight += 1
        return due, next(self.questions)

    def over(self, question: Question, fault: str | None, is_hit: bool, size: int, due: float) -> None:
        self.in_flight -= 1
        if fault is None:
            self.latencies_us.append((time.perf_counter() - due) * 1e6)
            self.good[question.method + " hit" * is_hit] += 1
            self.bytes += size
        else:
            self.faults[f"{question.method}: {fault}"] += 1

    def check_end(self) -> None:
        if self.in_flight == 0 and not self.ended.done():
            self.ended.set_result(time.perf_counter())

    def seen(self) -> Seen:
        ordered: array[float] | list[float] = sorted(self.latencies_us)
        times = [percentile(ordered, percent) / 1e3 for percent in (50, 99, 99.9)]
        seconds = self.ended.result() - self.began if self.ended.done() else time.perf_counter() - self.began
        return Seen(dict(self.good), dict(self.faults), seconds, self.bytes, *times)


class MixClient(Client):
    """One connection with one call in flight; it stays open when no call is left."""

    _numbers = itertools.count(1)

    def __init__(self, asking: Asking, head: bytes) -> None:
        super().__init__(asking, head)
        self._asking = asking
        self._question: Question | None = None
        self._waiting: asyncio.TimerHandle | None = None  # For the time at which its call is due.
        self._raw_id, self._is_hit = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._asking.began:
            super().connection_made(transport)
        else:
            self._transport = cast(asyncio.Transport, transport)

    def begin(self) -> None:
        """Begin, once all connections are open."""
        super().connection_made(self._transport)

    def _send(self) -> None:
        call = self._asking.take_call()
        if call is None:
            return
        self._sent_at, self._question = call
        wait = call[0] - time.perf_counter()
        if wait > 0:  # Never before it is due.
            self._waiting = asyncio.get_running_loop().call_later(wait + _TIMER_SECONDS, self._send_now)
        else:
            self._send_now()

    def _send_now(self) -> None:
        question, self._waiting = self._question, None
        assert question is not None
        self._raw_id = b"%d" % next(self._numbers)
        body = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
            *(self._raw_id, question.method.encode(), question.params),
        )
        self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (self._request, len(body), body))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_hit = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if value == b"hit" and name.lower() == b"x-cache":
            self._is_hit = True

    def on_message_complete(self) -> None:
        status, body, self._parts = self._parser.get_status_code(), b"".join(self._parts), []
        question, due = self._question, self._sent_at
        if question is None or due is None or self._waiting is not None:  # Nothing was asked.
            if status != _REQUEST_TIMEOUT:
                self._asking.faults[f"no call: {OTHER_CONTENT}"] += 1
            self._transport.close()
            return
        self._question = self._sent_at = None
        fault = question.fault(body, self._raw_id) if status == 200 else f"status {status}"
        self._asking.over(question, fault, self._is_hit, len(body), due)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if self._question is not None and self._sent_at is not None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._asking.given_back.append((self._sent_at, self._question))
            else:
                self._asking.over(self._question, "the connection broke", False, 0, self._sent_at)
                self._asking.check_end()
        self._sent_at = None
        super().connection_lost(error)

    def leave(self) -> None:
        self._question = None
        self._transport.close()


def head_of(url: str, api_key: str) -> bytes:
    """Make a request up to its length."""
    return request_bytes(url, api_key, "/", "").partition(b"Content-Length")[0]


def leave(open_ones: list[MixClient]) -> None:
    for client in open_ones:
        client.leave()
    open_ones.clear()


async def run(step: Step, questions: Any, open_ones: list[MixClient]) -> Seen:
    """Run a step. open_ones: collects its connections."""
    leave(open_ones)
    parts, loop = urlsplit(step.url), asyncio.get_running_loop()
    host, port = parts.hostname, parts.port
    assert host is not None and port is not None, step.url
    asking, head = Asking(step, questions), head_of(step.url, step.api_key)

    async def connect() -> MixClient:
        _, client = await loop.create_connection(lambda: MixClient(asking, head), host, port)
        open_ones.append(client)
        return client

    async def keep(client: MixClient) -> None:
        while True:
            await client.ended  # When it breaks.
            if client in open_ones:
                open_ones.remove(client)
            client = await connect()

    clients = [await connect() for _ in range(step.connections)]
    asking.began = time.perf_counter()
    asking.deadline = asking.began + step.seconds
    tasks = [asyncio.create_task(keep(client)) for client in clients]
    for client in clients:
        client.begin()
    await asyncio.wait([asking.ended], timeout=step.seconds + _END_SECONDS_MAX)
    for task in tasks:
        task.cancel()
    if asking.in_flight:
        asking.faults["no answer"] += asking.in_flight
    return asking.seen()


async def _serve() -> None:
    mix = msgspec.json.decode(sys.stdin.readline(), type=Mix)
    questions, open_ones = mix_questions.in_turn(await asyncio.to_thread(mix.questions)), list[MixClient]()
    _say(b"{}")
    while line := await asyncio.to_thread(sys.stdin.readline):
        step = msgspec.json.decode(line, type=Step | None)
        if step is None:
            leave(open_ones)
            _say(b"{}")
        else:
            _say(msgspec.json.encode(await run(step, questions, open_ones)))


def _say(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_serve())
