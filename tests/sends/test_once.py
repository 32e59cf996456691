"""The same bytes twice are one send, at one replica or two, and what was no send may be tried again."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from actors.sends import once
from actors.sends.api import RacerUnreachable
from actors.sends.once import WINDOW_SECONDS, RedisSendMarks, SendMarks, SentOnce
from actors.units import base58_text
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer
from tests.sends.world import turns

RESULT = replies.made(b'"signature"')
SETTINGS = b"[]"
ERROR = replies.made_error(-32002, "Transaction simulation failed", b"{}")


class Node:
    def __init__(self) -> None:
        self.answer, self.calls, self.gate = RESULT, 0, asyncio.Event()
        self.gate.set()

    async def call(self) -> NodeAnswer:
        self.calls += 1
        await self.gate.wait()
        return self.answer


async def never(_: bytes) -> bool:
    raise AssertionError("no race has this signature")


async def test_calls_at_once_and_later_in_the_window_share_one_send() -> None:
    """Decisions: one broadcast within the window, and each call gets the signature."""
    once, node = SentOnce(never), Node()
    node.gate.clear()
    tasks = [asyncio.create_task(once.send(b"s", SETTINGS, node.call, 10.0)) for _ in range(5)]
    await asyncio.sleep(0)
    node.gate.set()
    assert await asyncio.gather(*tasks) == [RESULT] * 5
    assert await once.send(b"s", SETTINGS, node.call, 10.0 + WINDOW_SECONDS - 0.1) == RESULT
    assert node.calls == 1
    await once.send(b"other", SETTINGS, node.call, 10.0)
    await once.send(b"s", SETTINGS, node.call, 10.0 + WINDOW_SECONDS)
    assert node.calls == 3


@pytest.mark.parametrize("refused", [ERROR, RESULT])
async def test_a_refusal_reaches_only_callers_with_the_same_settings(refused: NodeAnswer) -> None:
    """Who wants no preflight hears of no preflight. What was sent is sent for all."""
    marks, first, second = MemoryMarks(), Node(), Node()
    once, settings = (
        SentOnce(never, marks, lambda _: asyncio.sleep(0)),
        (b'{"skipPreflight":false}', b'{"skipPreflight":true}'),
    )
    first.answer = refused
    first.gate.clear()
    tasks = [asyncio.create_task(once.send(b"s", settings[0], first.call, 10.0)) for _ in range(3)]
    await asyncio.sleep(0)
    other = asyncio.create_task(once.send(b"s", settings[1], second.call, 10.0))
    await asyncio.sleep(0)
    first.gate.set()
    assert await asyncio.gather(*tasks) == [refused] * 3
    assert (await other).kind is AnswerKind.RESULT
    assert (first.calls, second.calls) == (1, int(refused is ERROR))


async def test_what_the_node_refused_or_did_not_answer_is_tried_again() -> None:
    once, node = SentOnce(never), Node()
    for node.answer in (ERROR, replies.TIMED_OUT, RESULT, RESULT):
        assert await once.send(b"s", SETTINGS, node.call, 10.0) == node.answer
        await asyncio.sleep(0)
    assert node.calls == 3


async def test_a_caller_that_leaves_ends_the_send_of_nobody_else() -> None:
    once, node = SentOnce(never), Node()
    node.gate.clear()
    first, second = (asyncio.create_task(once.send(b"s", SETTINGS, node.call, 10.0)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    node.gate.set()
    assert await second == RESULT and node.calls == 1


async def test_memory_is_bounded_by_the_window() -> None:
    once, node = SentOnce(never), Node()
    for number in range(50):
        await once.send(bytes([number]), SETTINGS, node.call, 10.0)
    await once.send(b"late", SETTINGS, node.call, 10.0 + WINDOW_SECONDS)
    assert len(once._sends) == 1


class MemoryMarks:
    def __init__(self) -> None:
        self.marks: dict[bytes, bytes] = {}

    async def claim(self, signature: bytes) -> bytes | None:
        found = self.marks.get(signature)
        if found is None:
            self.marks[signature] = b"sending"
        return found

    async def sent(self, signature: bytes) -> None:
        self.marks[signature] = b"sent"

    async def racing(self, signature: bytes) -> None:
        self.marks[signature] = b"racing"

    async def failed(self, signature: bytes) -> None:
        self.marks.pop(signature, None)


@pytest.fixture(params=["memory", "redis"])
async def marks(
    request: pytest.FixtureRequest, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SendMarks]:
    if request.param == "memory":
        yield MemoryMarks()
        return
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.flushall()
        # A claim that is not answered in time counts as made, which on a busy machine is another rule than this one.
        monkeypatch.setattr(once, "_REDIS_SECONDS", 30.0)
        yield RedisSendMarks(client)


async def test_a_mark_is_claimed_once_until_its_send_fails(marks: SendMarks) -> None:
    """Both kinds of marks, by the same rules."""
    claims = await asyncio.gather(*(marks.claim(b"s") for _ in range(9)))
    assert sorted(map(str, claims)) == sorted(["None"] + ["b'sending'"] * 8)
    await marks.sent(b"s")
    assert await marks.claim(b"s") == b"sent"
    await marks.racing(b"s")
    assert await marks.claim(b"s") == b"racing"
    await marks.failed(b"s")
    assert await marks.claim(b"s") is None
    assert await marks.claim(b"other") is None


async def test_a_mark_lasts_for_a_window(redis_url: str) -> None:
    """Each step sets its end anew, and nothing stays for ever."""
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.flushall()
        marks = RedisSendMarks(client)
        for step in (marks.claim, marks.sent, marks.racing):
            await step(b"s")
            (name,) = await client.keys("*")
            assert 0 < await client.pttl(name) <= WINDOW_SECONDS * 1000


async def test_two_replicas_send_once() -> None:
    """Decisions, "same bytes sent again": the second caller waits for the first one's end, and gets the signature."""
    marks, node, looks = MemoryMarks(), Node(), asyncio.Event()
    node.gate.clear()

    async def sleep(seconds: float) -> None:
        looks.set()
        await asyncio.sleep(0)

    replicas = [SentOnce(never, marks, sleep) for _ in range(2)]
    first = asyncio.create_task(replicas[0].send(b"s", SETTINGS, node.call, 10.0))
    await turns()
    second = asyncio.create_task(replicas[1].send(b"s", SETTINGS, node.call, 10.0))
    await looks.wait()
    node.gate.set()
    assert await first == RESULT
    assert (await second).value() == b'"%b"' % base58_text(b"s").encode()
    assert node.calls == 1


async def test_what_one_replica_could_not_send_another_may() -> None:
    marks, node = MemoryMarks(), Node()
    for node.answer in (ERROR, replies.TIMED_OUT, RESULT):
        assert await SentOnce(never, marks).send(b"s", SETTINGS, node.call, 10.0) == node.answer
        await turns()
    assert node.calls == 3 and marks.marks == {b"s": b"sent"}


async def test_a_replica_that_died_while_it_sent_holds_up_nobody_for_long() -> None:
    """Its mark is ignored after two seconds: a chain takes the same bytes twice without harm."""
    marks, node, slept = MemoryMarks(), Node(), list[float]()
    marks.marks[b"s"] = b"sending"

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert await SentOnce(never, marks, sleep).send(b"s", SETTINGS, node.call, 10.0) == RESULT
    assert node.calls == 1 and sum(slept) == pytest.approx(2)


async def test_a_race_sends_for_all_once_it_has_sent() -> None:
    """A caller waits for the first leg of the race. A race that the racer refused is no race."""
    marks, node, asked = MemoryMarks(), Node(), list[bytes]()

    async def race_sent(signature: bytes) -> bool:
        asked.append(signature)
        return len(asked) > 2

    racing, sending = SentOnce(never, marks), SentOnce(race_sent, marks, lambda _: asyncio.sleep(0))
    racing.race_begins(b"s")
    await turns()
    assert (await sending.send(b"s", SETTINGS, node.call, 10.0)).value() == b'"%b"' % base58_text(b"s").encode()
    assert node.calls == 0 and asked == [b"s"] * 3
    racing.race_begins(b"t")
    await turns()
    racing.race_refused(b"t")
    await turns()
    assert await sending.send(b"t", SETTINGS, node.call, 10.0) == RESULT and node.calls == 1


@pytest.mark.parametrize("reachable", [False, True])
@pytest.mark.threat(65)
async def test_no_signature_is_told_for_bytes_that_a_race_has_not_sent(reachable: bool) -> None:
    """The racer is away, or has never stored the race: the bytes go to the node by this send, and its error is told."""
    marks, node = MemoryMarks(), Node()

    async def race_sent(_: bytes) -> bool:
        if not reachable:
            raise RacerUnreachable("gone")
        return False

    once = SentOnce(race_sent, marks, lambda _: asyncio.sleep(0))
    once.race_begins(b"s")
    await turns()
    for node.answer in (ERROR, RESULT):
        assert await once.send(b"s", SETTINGS, node.call, 10.0) == node.answer
        await turns()
    assert node.calls == 2 and marks.marks == {b"s": b"sent"}


async def test_without_redis_each_replica_knows_of_its_own_sends(unused_tcp_port: int) -> None:
    """Nothing waits for it, and nothing fails."""
    async with redis.asyncio.Redis.from_url(f"redis://127.0.0.1:{unused_tcp_port}") as client:
        node, replicas = Node(), [SentOnce(never, RedisSendMarks(client)) for _ in range(2)]
        for replica in (*replicas, *replicas):
            assert await replica.send(b"s", SETTINGS, node.call, 10.0) == RESULT
        assert node.calls == 2
