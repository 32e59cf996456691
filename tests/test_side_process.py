"""A process beside this one: when there is one, whose answers are whose, and what ends it. Its program is real."""

import asyncio
import gzip
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from actors.gateway.calls.compressing_worker import CompressPiece, ForgetBody
from actors.side_process import ProcessLost, RequestFailed, SideProcess

MODULE = "actors.gateway.calls.compressing_worker"


def side(idle_seconds: float = 60.0) -> SideProcess:
    return SideProcess(MODULE, "compresses", 10.0, idle_seconds)


def whole(number: int, text: bytes) -> CompressPiece:
    return CompressPiece(number, "gzip", len(text), len(text), is_last=True)


async def test_a_cancelled_request_does_not_shift_the_answers_of_others() -> None:
    """Large ones, of which the socket takes a part at a time."""
    process, texts = side(), [bytes([number]) * 1_000_000 for number in range(3)]
    running, is_new = await process.started()
    left, waits = (asyncio.ensure_future(running.ask(whole(at, texts[at]), [texts[at]])) for at in range(2))
    await asyncio.sleep(0)
    left.cancel()
    waits.cancel()
    _, made = await running.ask(whole(2, texts[2]), [texts[2][:400_000], memoryview(texts[2])[400_000:]])
    assert is_new and gzip.decompress(b"".join(made)) == texts[2]
    assert await process.started() == (running, False)
    await process.close()


async def test_a_request_that_fails_is_told_to_its_asker_alone() -> None:
    """The process goes on; one that is killed is noticed before it is asked, and the next one is another."""
    process = side()
    running, _ = await process.started()
    with pytest.raises(RequestFailed, match="ZstdError"):
        await running.ask(CompressPiece(1, "zstd", 2, 1, is_last=True), [b"ab"])  # More than it was to be.
    assert await running.ask(ForgetBody(1)) == (0, [])
    os.kill(running.pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        while process.running is not None:  # noqa: ASYNC110 - of another process.
            await asyncio.sleep(0.005)
    with pytest.raises(ProcessLost):
        await running.ask(ForgetBody(1))
    other, is_new = await process.started()
    assert is_new and other.pid != running.pid
    await process.close()
    assert process.pid is None and not psutil.pid_exists(other.pid)


async def test_it_ends_only_when_nobody_works_with_it() -> None:
    """So many seconds after the last one has left."""
    process = side(idle_seconds=0.02)
    process.enter()
    process.enter()
    running, _ = await process.started()
    process.leave()
    await asyncio.sleep(0.05)
    assert process.running is running
    process.leave()
    async with asyncio.timeout(10):
        while psutil.pid_exists(running.pid):  # noqa: ASYNC110 - of another process.
            await asyncio.sleep(0.005)
    assert process.pid is None
    await process.close()


def test_it_ends_when_its_replica_is_killed() -> None:
    script = f"""
import asyncio
from actors.side_process import SideProcess
async def main():
    running, _ = await SideProcess("{MODULE}", "compresses", 10.0).started()
    print(running.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as replica:
        assert replica.stdout is not None
        process = psutil.Process(int(replica.stdout.readline()))
        assert process.is_running()
        replica.kill()
    deadline = time.monotonic() + 10
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
