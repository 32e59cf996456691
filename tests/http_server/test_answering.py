"""Answers of a door that come later, and what a client that takes nothing holds."""

import asyncio
import contextlib
import random
from asyncio import selector_events
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from actors.http_server.exchange import Answer, Doorway, HttpRequest
from actors.http_server.responses import HttpResponse, refusal
from tests.framings import post
from tests.raw_sockets import Line

from .test_server import App, standing


class Door:
    """Answers each request with a future that the test sets; `hurry` sets it at once."""

    body_bytes_max = 1_000
    late = None

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[bytes]] = []
        self.reached = asyncio.Event()

    def takes(self, request: HttpRequest) -> bool:
        return True

    def answer(self, request: HttpRequest) -> Answer:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        request.hurry = partial(self.give, answer, b"hurried")
        self.asked.append(answer)
        self.reached.set()
        return answer

    def give(self, answer: "asyncio.Future[bytes]", body: bytes) -> None:
        if not answer.done():
            answer.set_result(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    def too_long(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(413, b"", [(b"content-length", b"0")])

    def refused(self, reason: str, status: int) -> HttpResponse:
        return refusal(reason, status)


@contextlib.asynccontextmanager
async def connected(door: Any) -> AsyncIterator[Line]:
    async with standing(App(), Doorway(door)) as port:
        line = Line(port)
        yield line
        line.close()


async def test_an_answer_leaves_when_its_future_is_set() -> None:
    """Rule: nothing is written before."""
    door = Door()
    async with connected(door) as line:
        await line.says(post(b"content-length: %d"))
        await door.reached.wait()
        door.give(door.asked[0], b"in time")
        assert (await line.hears(until=b"in time")).startswith(b"HTTP/1.1 200 ")


async def test_a_second_request_has_the_first_answered_at_once() -> None:
    """Rule: answers keep the order of the requests, and none waits for a check that the door can do without."""
    door = Door()
    async with connected(door) as line:
        await line.says(post(b"content-length: %d") * 3)
        said = await line.hears(until=b"hurriedHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nhurried")
        assert said.count(b"HTTP/1.1 200 ") == 2 and len(door.asked) == 3


async def test_a_refusal_has_the_answer_before_it_made_at_once() -> None:
    """Rule: what came whole is answered first."""
    async with connected(Door()) as line:
        await line.says(post(b"content-length: %d") + post(b"connection: upgrade", b"upgrade: x"))
        said = await line.hears()
    assert said.startswith(b"HTTP/1.1 200 ") and said.index(b"hurried") < said.index(b"HTTP/1.1 400 ")


async def test_a_future_that_fails_ends_its_connection(caplog: Any) -> None:
    """500, and the whole story in the log."""
    door = Door()
    async with connected(door) as line:
        await line.says(post(b"content-length: %d"))
        await door.reached.wait()
        door.asked[0].set_exception(AssertionError("an invariant is broken"))
        assert (await line.hears()).startswith(b"HTTP/1.1 500 ")
    assert "an invariant is broken" in caplog.text


async def test_a_body_that_is_too_long_is_answered_before_its_end_and_the_connection_goes_on() -> None:
    """Rule: the door says whether a refusal ends the connection."""
    door = Door()
    async with connected(door) as line:
        whole = post(b"content-length: %d", content=b"x" * 1_002)
        await line.says(whole[:-1])
        assert (await line.hears(until=b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
        await line.says(whole[-1:] + post(b"content-length: %d"))
        await door.reached.wait()
        door.give(door.asked[0], b"in time")
        assert (await line.hears(until=b"in time")).startswith(b"HTTP/1.1 200 ")


# --- answers in parts

CHANCE = random.Random(1)
PART_BYTES = 256 << 10


class PartsDoor(Door):
    """Answers each request with this many parts. late: the door itself, which offers them one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.parts = [CHANCE.randbytes(PART_BYTES) for _ in range(count)]
        self.offered = 0
        self.late: Any = self

    def answer(self, request: HttpRequest) -> Answer:
        return self._response()

    async def _response(self) -> HttpResponse:
        length = b"%d" % sum(map(len, self.parts))
        return HttpResponse(200, b"", [(b"content-length", length)], parts=[memoryview(part) for part in self.parts])

    async def send_parts(self, send: Callable[[Any], Awaitable[None]], response: HttpResponse) -> bool:
        for part in response.parts:
            self.offered += 1
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return True


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each write of an answer in parts."""
    found: list[int] = []
    real = selector_events._SelectorSocketTransport.writelines  # type: ignore[attr-defined]

    def noted(transport: Any, pieces: Any) -> None:
        found.append(sum(map(len, pieces)))
        real(transport, pieces)

    monkeypatch.setattr(selector_events._SelectorSocketTransport, "writelines", noted)  # type: ignore[attr-defined]
    return found


async def test_the_parts_of_an_answer_leave_with_its_head_in_few_writes(writes: list[int]) -> None:
    """In their order, and each once; the answer behind it begins where it ends."""
    door = PartsDoor(9)
    async with connected(door) as line:
        await line.says(post(b"content-length: %d"))
        said = await line.hears(until=door.parts[-1])
        head, _, body = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ") and body == b"".join(door.parts)
        assert len(writes) == 3 and sum(writes) == len(said)
        door.parts = door.parts[:1]
        await line.says(post(b"content-length: %d"))
        said = await line.hears(until=door.parts[0])
        assert said.partition(b"\r\n\r\n")[2] == door.parts[0] and writes[3:] == [len(said)]


async def test_no_part_is_taken_up_before_the_client_has_read_what_was_written(writes: list[int]) -> None:
    """Rule: of a client that reads nothing, one write waits, however long its answer is."""
    door = PartsDoor(40)
    async with connected(door) as line:
        await line.says(post(b"content-length: %d"))
        async with asyncio.timeout(10):
            while not writes:  # noqa: ASYNC110
                await asyncio.sleep(0)
        for _ in range(200):
            await asyncio.sleep(0)
        assert max(writes) < (1 << 20) + 2 * PART_BYTES and door.offered < len(door.parts)
        assert (await line.hears(until=door.parts[-1])).endswith(b"".join(door.parts))
