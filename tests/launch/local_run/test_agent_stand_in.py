"""What stands in the place of Ray's agents ends with the raylet, whose child it is."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from actors.launch.local_run import agent_stand_in

PROGRAM = [sys.executable, "-I", "-S", agent_stand_in.__file__]


def test_it_is_small_and_ends_when_the_raylet_closes_its_pipe() -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE) as program:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.3)
        assert psutil.Process(program.pid).memory_info().rss < 20_000_000
        program.communicate(timeout=5)
    assert program.returncode == 0


def test_without_a_pipe_it_ends_when_it_has_another_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    parents: Iterator[int] = iter((7, 7, 7, 1))
    looks: list[object] = []
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(agent_stand_in.select, "select", lambda *asked: looks.append(asked) or ([], [], []))
    with Path(os.devnull).open() as nothing:
        before = os.dup(0)
        os.dup2(nothing.fileno(), 0)
        try:
            agent_stand_in.main()
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert looks == [([], (), (), 5.0)] * 2
