"""Checks by the second process, and every case in which the node checks signatures itself."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from devnode.execution import signature_checks
from devnode.execution.signature_checks import SignatureChecks

from .test_signature_process import forged, transaction

ANSWER_SECONDS_MAX = 90


class Asked:
    """Requests several checks at once and collects their verdicts."""

    def __init__(self, checks: SignatureChecks, raws: list[bytes]) -> None:
        self.said: list[tuple[int, bool]] = []
        self._all, self._done = len(raws), asyncio.Event()
        for number, raw in enumerate(raws):
            checks.check(raw, lambda good, number=number: self._hear(number, good))  # type: ignore[misc]

    def _hear(self, number: int, good: bool) -> None:
        self.said.append((number, good))
        if len(self.said) == self._all:
            self._done.set()

    async def verdicts(self) -> list[bool]:
        """Verdicts in the order of the checks; each must have come exactly once."""
        await asyncio.wait_for(self._done.wait(), ANSWER_SECONDS_MAX)
        assert sorted(number for number, _ in self.said) == list(range(self._all))
        return [good for _, good in sorted(self.said)]


@pytest.fixture
async def checks() -> AsyncIterator[SignatureChecks]:
    made = SignatureChecks(cores=2)
    yield made
    made.close()


async def ready(checks: SignatureChecks) -> None:
    """Start the process by requesting several checks at once; these do not wait for it."""
    assert await Asked(checks, [bytes(transaction())] * 4).verdicts() == [False] * 4
    await asyncio.wait_for(checks.ready.wait(), ANSWER_SECONDS_MAX)


async def test_with_one_core_no_process_is_started() -> None:
    checks = SignatureChecks(cores=1)
    assert await Asked(checks, [bytes(transaction())] * 20).verdicts() == [False] * 20
    assert checks.process_id is None
    checks.close()


async def test_single_checks_start_no_process(checks: SignatureChecks) -> None:
    for _ in range(20):
        assert await Asked(checks, [bytes(transaction())]).verdicts() == [False]
    assert checks.process_id is None


async def test_checks_of_one_turn_are_done_by_the_process(checks: SignatureChecks) -> None:
    """Each check gets the verdict on its own transaction; checks above the limit are "not known" at once."""
    await ready(checks)
    good, bad = bytes(transaction()), forged()
    assert await Asked(checks, [good, bad, bad, good, good, bad, good]).verdicts() == [
        *(True, False, False, True, True, False, True)
    ]
    many = await Asked(checks, [good] * 200).verdicts()
    assert many == [True] * signature_checks._PENDING_MAX + [False] * (200 - signature_checks._PENDING_MAX)


async def test_a_failing_callback_does_not_shift_the_verdicts(
    checks: SignatureChecks, caplog: pytest.LogCaptureFixture
) -> None:
    """Verdicts are matched by order: if one were skipped, a forged transaction would get the verdict of a good one."""
    await ready(checks)
    good, bad = bytes(transaction()), forged()

    def fail(_: bool) -> None:
        raise ValueError("a mistake")

    checks.check(good, fail)
    for raw in (bad, good, good, bad, good, good):
        checks.check(raw, lambda _: None)
    assert await Asked(checks, [bad, good, bad]).verdicts() == [False, True, False]
    assert caplog.text.count("ValueError: a mistake") == 1


async def test_no_more_bytes_are_pending_than_the_socket_holds(checks: SignatureChecks) -> None:
    await ready(checks)
    assert not any(await Asked(checks, [b"\xff" * 4_096] * 24).verdicts())
    assert await Asked(checks, [bytes(transaction())] * 5).verdicts() == [True] * 5


async def test_pending_checks_are_answered_when_the_process_dies(
    checks: SignatureChecks, caplog: pytest.LogCaptureFixture
) -> None:
    """Later checks are "not known", and the process is not started again."""
    await ready(checks)
    process_id = checks.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
    assert len(await Asked(checks, [bytes(transaction())] * 20).verdicts()) == 20
    assert await Asked(checks, [bytes(transaction())] * 20).verdicts() == [False] * 20
    assert checks.process_id is None
    assert "is gone" in caplog.text


async def test_pending_checks_are_answered_when_the_process_is_silent(
    checks: SignatureChecks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(signature_checks, "_SILENCE_SECONDS_MAX", 0.2)
    await ready(checks)
    process_id = checks.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGSTOP)
    assert await Asked(checks, [bytes(transaction())] * 20).verdicts() == [False] * 20
    assert checks.process_id is None
    assert "is gone" in caplog.text


async def test_a_process_that_answers_is_kept_however_long_it_is_asked(
    checks: SignatureChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silence limit does not count time without checks, nor time in which verdicts arrive."""
    await ready(checks)
    loop = asyncio.get_running_loop()
    assert await Asked(checks, [bytes(transaction())] * 5).verdicts() == [True] * 5
    watch = checks._watch
    assert watch is not None
    monkeypatch.setattr(signature_checks, "_SILENCE_SECONDS_MAX", loop.time() * 2 + 1)  # More than the loop's age.
    for _ in range(3):
        asked = Asked(checks, [bytes(transaction())] * 5)
        loop.call_soon(checks._check_silence)
        assert await asked.verdicts() == [True] * 5
    checks._check_silence()
    assert checks._watch is None
    assert await Asked(checks, [bytes(transaction())] * 5).verdicts() == [True] * 5


async def test_a_process_that_cannot_start_is_not_needed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    checks = SignatureChecks(cores=2)
    assert await Asked(checks, [bytes(transaction())] * 8).verdicts() == [False] * 8
    assert "without a process" in caplog.text
    checks.close()
    checks.close()


_A_NODE = """
import asyncio
from devnode.execution.signature_checks import SignatureChecks

async def live():
    checks = SignatureChecks(cores=2)
    for _ in range(4):
        checks.check(b"", print)
    await checks.ready.wait()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(live())
"""


def test_the_process_ends_with_a_node_that_is_killed() -> None:
    """The end of the socket ends the process. It shares the node's output, so `communicate` returns once both ended."""
    with subprocess.Popen([sys.executable, "-c", _A_NODE], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert any(line == "ready\n" for line in node.stdout)
        node.kill()
        assert node.communicate(timeout=ANSWER_SECONDS_MAX)[0] == ""
