"""Large answers that another process compresses: their bytes, their places, and what becomes of them without it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable

import psutil
import pytest

from actors.gateway.calls import large_bodies
from actors.gateway.calls.large_bodies import PIECE_BYTES, PLACES, PLACES_OF_OWNER, CodedBody, LargeBodies
from tests.gateway.calls.test_uncompressed_rest import decoded

TEXT = b"".join(b'{"pubkey":"%032d","lamports":%d},' % (number, number * 7919 % 10_007) for number in range(70_000))
SIZES = (PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, (1 << 20) + 1, len(TEXT))


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110 - of another process.
            await asyncio.sleep(0.005)


async def ready(bodies: LargeBodies) -> int:
    """Have the process started; return its id."""
    assert bodies.take(b"gzip", (TEXT,), (), "first") is None
    await until(lambda: bodies._starting is None)
    assert bodies.pid is not None
    return bodies.pid


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[LargeBodies]:
    bodies = LargeBodies()
    try:
        await ready(bodies)
        yield bodies
    finally:
        await bodies.close()


def taken(bodies: LargeBodies, coding: str = "zstd", owner: str = "a", *parts: bytes | memoryview) -> CodedBody:
    body = bodies.take(coding.encode(), parts or (TEXT,), (), owner)
    assert body is not None
    return body


async def read(body: CodedBody) -> bytes:
    seen = [each async for each in body.pieces()]
    assert [is_last for _, is_last in seen] == [False] * (len(seen) - 1) + [True]
    assert all(piece for piece, _ in seen)
    return b"".join(piece for piece, _ in seen)


async def test_whoever_decodes_it_has_the_bytes_of_before() -> None:
    """Of any size and in any parts; of two bodies at once; and shorter."""
    async with running() as bodies:
        for size in SIZES:
            parts = b"", memoryview(TEXT)[:17], TEXT[17:100_000], b"", memoryview(TEXT)[100_000:size]
            both = [taken(bodies, coding, coding, *parts) for coding in ("gzip", "zstd")]
            for coding, whole in zip(("gzip", "zstd"), await asyncio.gather(*map(read, both)), strict=True):
                assert decoded(coding, whole) == TEXT[:size]
                assert len(whole) < size / 3
        assert bodies.taken == 0


async def test_there_is_a_process_only_for_large_answers() -> None:
    """None before the first one, which is sent as it is and starts it; one for all; none when nothing came for a while.

    It has a low priority and no secret, and a stranger's library neither."""
    bodies = LargeBodies(idle_seconds=0.2)
    assert bodies.pid is None
    process = psutil.Process(await ready(bodies))
    assert process.nice() == min(19, os.nice(0) + 10)
    assert not {name for name in process.environ() if "URL" in name or "KEY" in name or "SECRET" in name}
    await read(taken(bodies))
    assert bodies.pid == process.pid
    await until(lambda: bodies.pid is None and not psutil.pid_exists(process.pid))
    await bodies.close()


@pytest.mark.threat(13)
async def test_an_answer_that_finds_no_place_is_sent_as_it_is_at_once() -> None:
    """An owner has two, and all together four."""
    async with running() as bodies:
        assert (PLACES, PLACES_OF_OWNER) == (4, 2)
        held = [bodies.take(b"gzip", (TEXT,), (), owner) for owner in "aaabbbc"]
        assert [body is not None for body in held] == [True, True, False, True, True, False, False]
        wholes = await asyncio.gather(*(read(body) for body in held if body is not None))
        assert all(decoded("gzip", whole) == TEXT for whole in wholes)
        await until(lambda: bodies.taken == 0)


@pytest.mark.threat(60)
async def test_a_client_that_reads_slowly_holds_no_place_and_less_memory() -> None:
    """The pieces wait for it, and the body that they are made of is dropped."""
    async with running() as bodies:
        body = taken(bodies)
        assert body.held_bytes == len(TEXT)
        await until(lambda: bodies.taken == 0)
        assert 0 < body.held_bytes < len(TEXT) / 3
        assert decoded("zstd", await read(body)) == TEXT
        assert body.held_bytes == 0


@pytest.mark.threat(60)
@pytest.mark.parametrize("bound", ["WAITING_BYTES_OF_OWNER_MAX", "WAITING_BYTES_MAX"])
async def test_pieces_that_wait_for_slow_clients_are_bounded(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """However many clients read a few bytes now and then: of one owner, others go on; and of all. Until some are read,
    or their clients leave, answers are sent as they are."""
    monkeypatch.setattr(large_bodies, bound, 1)
    async with running() as bodies:
        for is_read in (True, False):
            slow = taken(bodies, "zstd", "a")
            await until(lambda: bodies.taken == 0)
            assert bodies.take(b"zstd", (TEXT,), (), "a") is None
            others = bodies.take(b"zstd", (TEXT,), (), "b")
            assert (others is None) is (bound == "WAITING_BYTES_MAX")
            if others is not None:
                assert decoded("zstd", await read(others)) == TEXT
            if is_read:
                assert decoded("zstd", await read(slow)) == TEXT
            slow.close()
            slow.close()
        assert decoded("zstd", await read(taken(bodies, "zstd", "a"))) == TEXT
        assert (bodies._waiting_bytes, dict(bodies._waiting)) == (0, {})


@pytest.mark.threat(36)
async def test_a_client_that_leaves_frees_its_place_and_its_memory() -> None:
    """In the middle, and before the first piece; the process forgets the body, and goes on."""
    async with running() as bodies:
        middle, early = taken(bodies, "gzip"), taken(bodies, "gzip")
        async for _ in middle.pieces():
            middle.close()
        early.close()
        early.close()
        await until(lambda: bodies.taken == 0)
        assert (middle.held_bytes, early.held_bytes) == (0, 0)
        assert [piece async for piece in early.pieces()] == []
        assert decoded("gzip", await read(taken(bodies, "gzip"))) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_an_answer_whose_process_is_killed_is_whole_all_the_same(coding: str) -> None:
    """Before its first piece or in its middle. The next answer is sent as it is, and starts another process."""
    async with running() as bodies:
        killed = bodies.pid
        assert killed is not None
        middle, late = taken(bodies, coding), taken(bodies, coding, "b")
        begun = middle.pieces()
        first, _ = await anext(begun)
        os.kill(killed, signal.SIGKILL)
        whole = first + b"".join([piece async for piece, _ in begun])
        assert decoded(coding, whole) == decoded(coding, await read(late)) == TEXT
        await until(lambda: bodies.taken == 0)
        assert await ready(bodies) != killed
        assert decoded(coding, await read(taken(bodies, coding))) == TEXT


async def test_an_answer_does_not_wait_for_a_process_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rest is sent uncompressed; the process is killed, and until then its places are taken."""
    monkeypatch.setattr(large_bodies, "PIECE_SECONDS_MAX", 0.05)
    async with running() as bodies:
        hanging, connection = bodies.pid, bodies._side.running
        assert hanging is not None and connection is not None
        connection.answer_seconds_max = 0.3
        os.kill(hanging, signal.SIGSTOP)
        held = [taken(bodies, "zstd", owner) for owner in "aabb"]
        assert [decoded("zstd", whole) for whole in await asyncio.gather(*map(read, held))] == [TEXT] * 4
        assert bodies.take(b"zstd", (TEXT,), (), "c") is None and bodies.taken == 4
        await until(lambda: bodies.taken == 0 and not psutil.pid_exists(hanging))


async def test_a_process_that_cannot_be_started_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are sent as they are, and do not each start one."""
    executable, bodies = sys.executable, LargeBodies()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert bodies.take(b"gzip", (TEXT,), (), "a") is None
    await until(lambda: bodies._starting is None)
    monkeypatch.setattr(sys, "executable", executable)
    assert bodies.take(b"gzip", (TEXT,), (), "a") is None and bodies._starting is None
    bodies._start_after = 0.0
    await ready(bodies)
    await bodies.close()


async def test_what_is_left_when_the_replica_ends_is_uncompressed() -> None:
    """No task and no process is left behind."""
    bodies = LargeBodies()
    pid = await ready(bodies)
    body = taken(bodies)
    await bodies.close()
    assert decoded("zstd", await read(body)) == TEXT
    assert not psutil.pid_exists(pid) and bodies.pid is None
    other = LargeBodies()
    assert other.take(b"gzip", (TEXT,), (), "a") is None
    await other.close()  # While it starts.
    assert other.pid is None
