"""Guards that whatever happens to the launcher, nothing that it started stays behind. With small real processes."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.launch.local_run import supervisor_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the supervisor process needs Linux")

ROOT = Path(supervisor_process.__file__).parents[2]
_WAIT_SECONDS = 60.0  # Only ever reached when something is broken.
_HEEDED_SECONDS = 1.5
_LEAVE_SECONDS = 5.0  # So is this: left alone, what is left would stay for a quarter of an hour.

# A launcher with a daemon, a process that the daemon has left behind, and a server with a session of its own.
_LAUNCHER = """
import os, signal, subprocess, sys, threading
from actors.launch.local_run import supervisor_process
from actors.launch.local_run.deadlines import Stop

def work():
    stop = Stop()
    supervisor_process.accept_signals(stop.set)
    script = "{deaf}(sleep 1000 & echo $!); exec sleep 1000"
    daemon = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE)
    orphan = daemon.stdout.readline().strip().decode()
    server = subprocess.Popen(["/bin/sh", "-c", "echo ready; exec sleep 1000"], stdout=subprocess.PIPE,
                              start_new_session=True)
    server.stdout.readline()
    print(os.getpid(), daemon.pid, orphan, server.pid, flush=True)
    while not stop.wait(1):
        pass
    print("stopping", flush=True)
    {ending}

supervisor_process.supervised(work)
"""


class Run:
    """A launcher of the text above under its supervisor, in a session and group of their own."""

    def __init__(self, ending: str, *before: str, deaf: str = "") -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", _LAUNCHER.format(ending=ending, deaf=deaf)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
            text=True,
        )
        assert self.process.stdout is not None
        self.pids = [int(word) for word in self.process.stdout.readline().split()]
        assert len(self.pids) == 4, self.process.communicate()
        self.launcher = self.pids[0]
        self._descriptors = [os.pidfd_open(pid) for pid in self.pids]

    def end(self) -> tuple[int, str, str]:
        """Exit code and what was printed; fails when a process of it is left."""
        out, err = self.process.communicate(timeout=_WAIT_SECONDS)
        left = [
            pid
            for pid, descriptor in zip(self.pids, self._descriptors, strict=True)
            if not select.select([descriptor], [], [], _LEAVE_SECONDS)[0]
        ]
        for descriptor in self._descriptors:
            os.close(descriptor)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == [], (out, err)
        return self.process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_group_reaches_the_launcher_alone(number: signal.Signals) -> None:
    """Rule: Ctrl-C, `timeout` and a closed terminal tell the whole group; what the launcher started learns nothing of
    it, and what the launcher did not end is ended."""
    run = Run("[os.kill(pid, 0) for pid in (daemon.pid, server.pid)]; return 5")
    os.killpg(run.process.pid, number)
    code, out, err = run.end()
    assert (code, out) == (5, "stopping\n")
    assert "ended what the launcher had left: 3 sleep\n" in err, "each kind once, however many there are"


def test_what_does_not_listen_is_killed() -> None:
    """Rule: Ctrl-C leaves no process behind, whatever it thinks of it."""
    run = Run("return 0", deaf="trap '' TERM INT HUP; ")
    run.process.send_signal(signal.SIGINT)
    assert run.end()[:2] == (0, "stopping\n")


def test_a_second_signal_while_stopping_changes_nothing() -> None:
    """Rule: a second Ctrl-C neither hurries nor breaks the stop."""
    run = Run("os.kill(os.getppid(), signal.SIGINT); os.kill(os.getppid(), signal.SIGTERM); print('still'); return 0")
    run.process.send_signal(signal.SIGTERM)
    code, out, _ = run.end()
    assert (code, out) == (0, "stopping\nstill\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_launcher_that_is_killed_leaves_nothing(number: signal.Signals) -> None:
    """Rule: Ray's own code ends its process when Ray has been away for a minute; nothing may stay behind then."""
    run = Run("return 0")
    os.kill(run.launcher, number)
    code, _, err = run.end()
    assert code == 1
    assert f"the launcher was killed ({number.name})" in err


def test_a_guard_that_is_killed_has_the_launcher_stop() -> None:
    """Rule: also kill -9 of the process that the user knows is an orderly stop."""
    run = Run("daemon.kill(); server.kill(); os.kill(int(orphan), 9); return 0")
    run.process.kill()
    _, out, _ = run.end()
    assert out == "stopping\n"


def test_an_error_nobody_expected_is_shown_and_is_not_success() -> None:
    """Rule: a bug in the launcher has a traceback, an exit code and no leftovers."""
    run = Run("raise ValueError('a bug')")
    run.process.terminate()
    code, _, err = run.end()
    assert code == 1
    assert "ValueError: a bug" in err


def test_under_nohup_a_closed_terminal_is_no_reason_to_stop() -> None:
    """Rule: who asked for SIGHUP to be ignored is obeyed."""
    run = Run("return 0", "nohup")
    assert run.process.stdout is not None
    os.killpg(run.process.pid, signal.SIGHUP)
    # One that is told to stop says so at once.
    assert not select.select([run.process.stdout], [], [], _HEEDED_SECONDS)[0], run.end()
    assert run.process.poll() is None
    os.kill(run.process.pid, signal.SIGINT)
    assert run.end()[:2] == (0, "stopping\n")


# One that tells what it does, and then whether it came to the end of it.
_TELLING = """
import os, sys
from actors.launch.local_run import supervisor_process
from actors.launch.local_run.screen import Screen
from actors.launch.local_run.deadlines import Stop

def work():
    stop = Stop()
    supervisor_process.accept_signals(stop.set)
    screen = Screen()
    screen.say("up")
    while not stop.wait(1):
        pass
    os.read({gone}, 1)
    for step in ("stopping", "letting calls in flight end"):
        screen.say(step)
    screen.failed("nobody reads this either")
    os.write({done}, b"in order")
    return 5

supervisor_process.supervised(work)
"""


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_a_stop_that_nobody_can_read_about_goes_on(kind: str) -> None:
    """Rule: with the terminal closed, or a `tee` that the same Ctrl-C ended, every print fails; the stop is orderly."""
    (mouth, end), (gone, leave), (heard, done) = (
        (os.openpty() if kind == "terminal" else os.pipe()),
        os.pipe(),
        os.pipe(),
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _TELLING.format(gone=gone, done=done)],
        stdout=end,
        stderr=end,
        cwd=ROOT,
        start_new_session=True,
        pass_fds=(gone, done),
    )
    os.close(end)
    os.close(done)
    assert b"up" in os.read(mouth, 100)
    os.close(mouth)
    process.terminate()
    os.close(leave)
    assert process.wait(_WAIT_SECONDS) == 5
    assert os.read(heard, 100) == b"in order"
    os.close(gone)
    os.close(heard)


def test_the_supervisor_is_in_the_launchers_table_of_processes() -> None:
    """Rule: the ready file names every process of the run, the supervisor among them, with its process id."""
    script = """
import json, os, sys
from actors.launch.local_run import cluster, supervisor_process

def work():
    while b"actors.launch.local_run.supervisor_process" not in open(f"/proc/{os.getppid()}/cmdline", "rb").read():
        os.sched_yield()  # It has not become that program yet.
    while "supervisor" not in (table := cluster.process_table({})):
        os.sched_yield()
    print(json.dumps(table))
    return 0

supervisor_process.supervised(work)
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    table = json.loads(process.communicate(timeout=_WAIT_SECONDS)[0])
    assert table["supervisor"] == process.pid
    assert set(table) == {"launcher", "supervisor"}


def test_a_launcher_that_does_not_stop_is_killed() -> None:
    """Rule: stopping ends, whatever the launcher hangs in."""
    script = """
import signal, subprocess
from actors.launch.local_run import supervisor_process
supervisor_process._STOP_SECONDS = 0.1
signal.pthread_sigmask(signal.SIG_BLOCK, supervisor_process._watched())
signal.raise_signal(signal.SIGTERM)
launcher = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; exec sleep 1000"])
print(supervisor_process.watch(launcher.pid))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=_WAIT_SECONDS
    )
    assert done.stdout == f"-{int(signal.SIGKILL)}\n"
    assert "did not stop within 0.1 s" in done.stderr
