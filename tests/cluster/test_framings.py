"""Requests whose end is in doubt, sent to the real front: no answer, charge or identity reaches another client.

Rules: threats 7, 45 and 46. The framings are the table of tests/framings.py. Each is sent many times over a
connection of its own, with another client's call on its heels: HAProxy hands the connection to a replica on.
"""

import asyncio
import contextlib
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httptools
import pytest

from bench.product import Product
from tests.customers import Customer
from tests.framings import FRAMINGS, Framing, body

# Two of each pause; with LONG_TESTS=1 five of each.
_TIMES = 20 if "LONG_TESTS" in os.environ else 8
_CONNECTIONS = 4  # Of the victim: HAProxy has several connections to hand on, and all must be sound.
_PAUSES_SECONDS = (0.0, 0.0005, 0.001, 0.003)  # In turn: what matters is what is under way when the rest arrives.
_QUIET_SECONDS = 3.0  # An attacker's connection on which nothing arrives for so long has had its answers.
_ANSWER_SECONDS = 90.0
_CREDITS = {"attacker": 500_000, "victim": 1_000_000}  # Far enough apart to tell whose figures an answer carries.


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_paid(self) -> bool:
        return self.status == 200 and "x-credits-remaining" in self.headers and "result" in self.json


@dataclass
class Answers:
    """The whole answers that have arrived over one connection."""

    found: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = b""
        self.raw = b""
        self.is_sound = True
        self.frames: bytes | None = (
            None  # Of a WebSocket: the service takes a handshake that it refuses by a close code.
        )

    def feed(self, data: bytes) -> None:
        self.raw += data
        if self.frames is not None:
            self.frames += data
        elif self.is_sound:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self.frames = data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self.is_sound = False

    @property
    def paid(self) -> int:
        """How many answers cost something. Those of HTTP/2 are counted as bytes."""
        return sum(answer.is_paid for answer in self.found) if self.is_sound else self.raw.count(b'"result":')

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        self.found.append(Answer(self._parser.get_status_code(), self._headers, self._body))
        self._headers, self._body = {}, b""


class Victim:
    """An honest client with several connections, whose every answer is looked at."""

    def __init__(self, customer: Customer) -> None:
        self.customer, self.calls, self.remaining = customer, 0, customer.balance
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def connect(self) -> None:
        port = self.customer.product.ports.http
        self._streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(_CONNECTIONS)]

    async def asks_on_all(self) -> None:
        """Raises AssertionError when an answer is not the one to its request, or another account's."""
        first, *others = self._streams
        figures, _ = await asyncio.gather(asyncio.gather(*(self._call(*one) for one in others)), self._info(*first))
        before, self.remaining = self.remaining, self.remaining - len(figures)
        # Calls that end at once are charged together, so their answers may carry the same figure.
        assert all(self.remaining <= figure < before for figure in figures), f"not this account's figures: {figures}"

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """What is left of the credits, by the answer."""
        self.calls += 1
        request_id = f"victim-{self.calls}"
        content = body(request_id.encode())
        writer.write(self._head("POST / HTTP/1.1", f"content-length: {len(content)}") + content)
        answer = await _answer(reader)
        assert answer.status == 200 and answer.json.get("id") == request_id and "result" in answer.json, answer
        return int(answer.headers["x-credits-remaining"])

    async def _info(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A request without a body: its credentials alone could be taken for somebody else's trailers."""
        writer.write(self._head("GET /account/info HTTP/1.1"))
        answer = await _answer(reader)
        assert answer.status == 200 and answer.json.get("pubkey") == self.customer.pubkey, answer

    def _head(self, start: str, *headers: str) -> bytes:
        return "\r\n".join((start, "host: a", f"x-api-key: {self.customer.api_key}", *headers, "", "")).encode()

    def close(self) -> None:
        for _, writer in self._streams:
            writer.close()


async def _answer(reader: asyncio.StreamReader) -> Answer:
    answers = Answers()
    async with asyncio.timeout(_ANSWER_SECONDS):
        while not answers.found:
            data = await reader.read(65_536)
            assert data, "the connection ended"
            answers.feed(data)
    (answer,) = answers.found
    return answer


async def attack(product: Product, framing: Framing, key: str, number: int, sent: asyncio.Event) -> Answers:
    """Send one stream and keep its connection open; the answers to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", product.ports.http)
    answers = Answers()
    try:
        with contextlib.suppress(ConnectionError):
            for index, piece in enumerate(framing.pieces(key.encode(), b"%012d" % number)):
                if index:
                    await asyncio.sleep(_PAUSES_SECONDS[number % len(_PAUSES_SECONDS)])
                writer.write(piece)
                await writer.drain()
        sent.set()
        with contextlib.suppress(ConnectionError, TimeoutError):
            while data := await asyncio.wait_for(reader.read(65_536), _QUIET_SECONDS):
                answers.feed(data)
    finally:
        sent.set()
        writer.close()
    return answers


def complaints(framing: Framing, answers: Answers) -> list[str]:
    """What is wrong with the attacker's own answers."""
    found = []
    if not answers.is_sound and not framing.is_http2:
        found.append(f"what came back is no answer: {answers.raw[:200]!r}")
    if answers.frames is not None and b"HTTP/1" in answers.frames:
        found.append(f"an answer behind a handshake: {answers.frames!r}")
    if answers.paid > framing.calls:
        found.append(f"{answers.paid} calls were answered, at most {framing.calls} were sent")
    for answer in answers.found:
        if not answer.is_paid:
            continue
        if answer.json["id"].startswith("victim") or int(answer.headers["x-credits-remaining"]) > _CREDITS["attacker"]:
            found.append(f"another client's answer: {answer}")
    # The front waits for the start of a body, so it says "100 Continue" itself before the replica has seen the head.
    ends = [answer.status for answer in answers.found if answer.status != 100]
    if framing.refused and set(ends) != {400}:
        found.append(f"not refused with 400: {ends}")
    return found


@pytest.fixture(scope="module")
def customers(product: Product) -> dict[str, Customer]:
    made = {name: Customer(product) for name in _CREDITS}
    for name, customer in made.items():
        customer.grant(_CREDITS[name])
        customer.limits(10_000, 1_000)
    return made


@pytest.mark.threat(45, 46)
async def test_no_framing_reaches_another_client(product: Product, customers: dict[str, Customer]) -> None:
    """Threats 7, 45 and 46: the victim's every answer is the one to its call, for one credit; the attacker pays
    for what it was answered, and for nothing else; both ledgers say the same afterwards."""
    victim, attacker = Victim(customers["victim"]), customers["attacker"]
    await victim.connect()
    attacks: list[tuple[Framing, asyncio.Task[Answers]]] = []
    found: list[str] = []
    for framing in FRAMINGS:
        for _ in range(_TIMES):
            sent = asyncio.Event()
            task = asyncio.create_task(attack(product, framing, attacker.api_key, len(attacks), sent))
            attacks.append((framing, task))
            await sent.wait()
            try:
                await victim.asks_on_all()
            except (AssertionError, TimeoutError) as error:
                pytest.fail(f"{framing.name}: {error}")
    for framing, task in attacks:
        found += [f"{framing.name}: {complaint}" for complaint in complaints(framing, await task)]
    paid = sum(task.result().paid for _, task in attacks)
    victim.close()
    assert not found, "\n".join(f"{count} times {text}" for text, count in Counter(found).items())
    assert (attacker.balance, customers["victim"].balance) == (_CREDITS["attacker"] - paid, victim.remaining)
    debits = {name: [e for e in customer.entries() if e["type"] == "debit"] for name, customer in customers.items()}
    assert (len(debits["attacker"]), len(debits["victim"])) == (paid, victim.calls)
