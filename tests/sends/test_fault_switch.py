"""The switch that kills the racer's process at a step: once, and never without a file."""

import os
import signal
from pathlib import Path

import pytest

from actors.sends.fault_switch import STEPS, KillFile, pass_by


def test_the_process_is_killed_at_the_named_step_once(tmp_path: Path) -> None:
    killed: list[tuple[int, int]] = []
    path = tmp_path / "step"
    switch = KillFile(path, lambda *arguments: killed.append(arguments))
    for step in STEPS:
        switch.reached(step)
    path.write_text("ended\n")
    switch.reached("proven")
    assert killed == [] and path.exists()
    switch.reached("ended")
    switch.reached("ended")
    assert killed == [(os.getpid(), signal.SIGKILL)] and not path.exists()


def test_a_step_that_does_not_exist_is_a_bug() -> None:
    """A test that names it would wait for a kill that never comes."""
    with pytest.raises(AssertionError):
        pass_by("nowhere")
