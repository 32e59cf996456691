"""The script that becomes a child, run for real."""

import os
import signal
import subprocess
import sys

import pytest

from actors.local_servers import spawn

SHOW = "import ctypes, os; n = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(n)); print(n.value, os.getuid(),"
SHOW += " os.getgid(), os.getgroups(), oct(os.umask(0)))"


def run(*arguments: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    signal_number, uid, gid, *command = arguments
    return subprocess.run(
        [
            *(sys.executable, "-I", "-S", spawn.__file__, signal_number, str(parent or os.getpid()), uid, gid, "--"),
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the setting is Linux's")
def test_the_program_dies_with_its_parent_and_keeps_its_files_closed() -> None:
    """The parent-death signal survives becoming another program, and new files are for their owner alone."""
    done = run(str(int(signal.SIGINT)), "-", "-", sys.executable, "-c", SHOW)
    assert done.stdout.split()[:2] == [str(int(signal.SIGINT)), str(os.getuid())]
    assert done.stdout.split()[-1] == "0o77"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_program_runs_as_the_other_user_with_no_group_of_ours() -> None:
    """Changing the user does not undo the parent-death signal, and leaves no right of root behind."""
    done = run("9", "65534", "65534", "/bin/sh", "-c", "id -u; id -g; id -G; grep CapEff /proc/self/status")
    assert done.stdout.split() == ["65534", "65534", "65534", "CapEff:", "0" * 16]


def test_a_program_that_cannot_be_started_is_named() -> None:
    """The log then says which file is missing."""
    done = run("9", "-", "-", "/no/such/program")
    assert done.returncode == 127
    assert "/no/such/program: cannot be started: No such file" in done.stderr


def test_nothing_starts_when_the_parent_is_gone_already() -> None:
    """Killed between the fork and the setting, the parent could not take the child with it."""
    done = run("9", "-", "-", "/bin/echo", "alive", parent=1 if os.getpid() != 1 else 2)
    assert done.returncode == 1
    assert done.stdout == ""
