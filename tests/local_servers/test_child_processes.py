"""The supervisor with small real processes: nothing here waits but for an event."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from actors.local_servers import child_processes
from actors.local_servers.child_processes import CannotStart, Child, ChildFailed, Supervisor

WAIT_SECONDS = 30.0  # Only ever reached when something is broken.


class Births:
    """A readiness check that counts, so that a test can wait for the n-th start."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self._changed = threading.Condition()

    def __call__(self, pid: int) -> bool:
        with self._changed:
            self.pids.append(pid)
            self._changed.notify_all()
        return True

    def wait_for(self, number: int) -> int:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.pids) >= number, WAIT_SECONDS)
            return self.pids[number - 1]


def child(tmp_path: Path, name: str, script: str, **settings: object) -> Child:
    given: dict[str, object] = {"is_ready": lambda _pid: True, **settings}
    return Child(name=name, command=("/bin/sh", "-c", script), log_path=tmp_path / f"{name}.log", **given)  # type: ignore[arg-type]


def wait_gone(pid: int) -> None:
    """Until the process has ended, reaped or not; at once when there is none."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], WAIT_SECONDS)[0], f"process {pid} is still there"
    finally:
        os.close(descriptor)


def test_children_stop_in_reverse(tmp_path: Path) -> None:
    """What was started last may need what was started first, so it goes first."""
    order = tmp_path / "order"

    def recorder(name: str) -> Child:
        script = f"trap 'echo {name} >> {order}; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
        return child(tmp_path, name, script, is_ready=lambda _pid: (tmp_path / f"{name}.log").read_text() != "")

    supervisor = Supervisor()
    supervisor.start(recorder("first"))
    supervisor.start(recorder("second"))
    pids = [state.pid for state in supervisor.states()]
    assert [state.ready for state in supervisor.states()] == [True, True]
    assert supervisor.pid("second") == pids[1]
    supervisor.stop()
    assert order.read_text().split() == ["second", "first"]
    assert supervisor.states() == ()
    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    assert not list(tmp_path.glob("*.pid"))


def test_a_child_that_dies_is_started_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Design, "What must survive what": all resumes by itself; and the log says what died."""
    births = Births()
    with Supervisor() as supervisor:
        supervisor.start(child(tmp_path, "server", "exec sleep 1000", is_ready=births))
        os.kill(births.wait_for(1), signal.SIGKILL)
        second = births.wait_for(2)
        assert second != births.pids[0]
        assert "server: died (signal SIGKILL)" in caplog.text
        (state,) = supervisor.states()
        assert state.restarts == 1
        assert "SIGKILL" in state.last_failure
    wait_gone(second)


def test_one_that_was_told_to_end_along_with_us_stays_down(tmp_path: Path) -> None:
    """A service manager tells all processes at once: a database that obeys is not started again on our way out."""
    births = Births()
    with Supervisor() as supervisor:
        supervisor.start(child(tmp_path, "server", "exec sleep 1000", is_ready=births))
        supervisor.let_end()
        os.kill(births.wait_for(1), signal.SIGTERM)
        supervisor._keepers[0].thread.join(WAIT_SECONDS)
        assert supervisor.pid("server") is None
    assert len(births.pids) == 1


def test_one_that_ignores_its_signal_is_killed(tmp_path: Path) -> None:
    """Stopping ends, whatever the child thinks of it; and its own children go with it."""
    births = Births()
    supervisor = Supervisor()
    script = "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000"

    def has_spoken(pid: int) -> bool:
        return bool((tmp_path / "deaf.log").read_text().strip()) and births(pid)

    supervisor.start(child(tmp_path, "deaf", script, is_ready=has_spoken, stop_seconds=0.05))
    grandchild = int((tmp_path / "deaf.log").read_text())
    supervisor.stop()
    wait_gone(births.wait_for(1))
    wait_gone(grandchild)


def test_a_child_that_cannot_live_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text says which, why and where the log is; and the others of the same start are stopped."""
    monkeypatch.setattr(child_processes, "_RESTART_SECONDS", (0.0,))
    births, supervisor = Births(), Supervisor()
    good = child(tmp_path, "good", "exec sleep 1000", is_ready=births)
    bad = child(tmp_path, "bad", "echo the disk is on fire; exit 3", is_ready=lambda _pid: False)
    with pytest.raises(ChildFailed) as caught:
        supervisor.start(good, bad)
    text = str(caught.value)
    assert "bad: died (exit code 3)" in text
    assert "the disk is on fire" in text
    assert str(tmp_path / "bad.log") in text
    assert supervisor.states() == ()
    wait_gone(births.wait_for(1))


def test_one_that_never_becomes_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that hangs is a failure with a reason, too."""
    monkeypatch.setattr(child_processes, "_FIRST_STARTS_MAX", 1)
    silent = child(tmp_path, "silent", "exec sleep 1000", is_ready=lambda _pid: False, start_seconds=0.05)
    with pytest.raises(ChildFailed, match="silent: not ready within"):
        Supervisor().start(silent)


def test_what_trying_again_cannot_mend_is_not_tried_again(tmp_path: Path) -> None:
    """A database of another version is one attempt and one clear text."""
    attempts: list[int] = []

    def prepare() -> None:
        attempts.append(1)
        raise CannotStart("written by another version")

    with pytest.raises(ChildFailed, match="written by another version"):
        Supervisor().start(child(tmp_path, "old", "exec sleep 1000", prepare=prepare))
    assert len(attempts) == 1


def test_a_check_that_raises_means_not_yet(tmp_path: Path) -> None:
    """A server that does not listen yet refuses the connection."""
    answers: list[Callable[[], bool]] = [lambda: 1 / 0 > 1, lambda: True]
    with Supervisor() as supervisor:
        supervisor.start(child(tmp_path, "slow", "exec sleep 1000", is_ready=lambda _pid: answers.pop(0)()))
        assert answers == []


def test_the_process_of_a_killed_run_is_ended_first(tmp_path: Path) -> None:
    """Two servers on one folder would harm it; the record of an id that was used again harms nobody."""
    births = Births()
    server = child(tmp_path, "server", "exec sleep 1000", is_ready=births)
    leftover = subprocess.Popen(["/bin/sleep", "1000"])
    stranger = subprocess.Popen(["/bin/sleep", "1000"])
    try:
        child_processes._write_pid_file(server, leftover.pid)
        threading.Thread(target=leftover.wait, daemon=True).start()
        with Supervisor() as supervisor:
            supervisor.start(server)
            wait_gone(leftover.pid)
            server.pid_path.write_text(f"{stranger.pid} 12345.0\n")
            child_processes.stop_leftover(server)
            assert stranger.poll() is None
        assert not server.pid_path.exists()
    finally:
        for process in (leftover, stranger):
            process.kill()
        stranger.wait()


def test_a_record_that_cannot_be_written_does_not_stop_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Threat 44: on a full disk what still runs goes on running."""
    server = child(tmp_path, "server", "exec sleep 1000")
    server.pid_path.symlink_to(tmp_path / "no such folder" / "file")  # Fails as a full disk does: with an OSError.
    with Supervisor() as supervisor:
        supervisor.start(server)
        assert supervisor.pid("server") is not None
    assert "cannot record its process" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """kill -9 leaves no time to stop anything, and yet no process may stay behind."""
    script = f"""
import pathlib, signal, threading
from actors.local_servers.child_processes import Child, Supervisor
folder = pathlib.Path({str(tmp_path)!r})
supervisor = Supervisor()
def child(name):
    log_path = folder / (name + ".log")
    return Child(name=name, command=("/bin/sleep", "1000"), is_ready=lambda pid: True, log_path=log_path)
starter = threading.Thread(target=lambda: supervisor.start(child("one"), child("two")))
starter.start()
starter.join()  # That the thread that asked ends must not end the children.
print(*(state.pid for state in supervisor.states()), flush=True)
signal.pause()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(child_processes.__file__).parents[2]
    )
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2
    assert all(psutil.pid_exists(pid) for pid in pids)
    process.kill()
    process.wait()
    process.stdout.close()
    for pid in pids:
        wait_gone(pid)


def test_a_large_log_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of a child that runs for months are bounded by its starts."""
    monkeypatch.setattr(child_processes, "_LOG_BYTES_MAX", 10)
    (tmp_path / "server.log").write_text("x" * 11)
    with Supervisor() as supervisor:
        supervisor.start(child(tmp_path, "server", "exec sleep 1000"))
    assert (tmp_path / "server.log.1").read_text() == "x" * 11
    assert (tmp_path / "server.log").read_text() == ""
