"""The first process of a run: takes the signals, hands them to the launcher, and ends whatever the launcher left.

Implements: design, section 1 (everything is started and stopped by the application itself).
`guarded` splits the process that the user started. The child goes on as the launcher, in a session of its own, so that
a signal to the terminal's group (Ctrl-C, `timeout`) reaches Ray's daemons by our hand or not at all. The parent becomes
this module run as a program, which takes little memory and keeps the process id that the user knows. It is the
"subreaper": a process whose parent is gone becomes its child, so it finds all of them, also when the launcher was
killed. The launcher is one too, for the workers that a killed raylet leaves behind. Linux only.
It may import next to nothing: it stays for as long as the product does.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import psutil

from actors.clock import SystemClock
from actors.launch.output import make_lenient

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})
_ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1  # prctl(2).
_PR_SET_CHILD_SUBREAPER = 36
_STOP_SECONDS = 85.0  # All that the launcher may take to stop, its own limits added up.
_SESSION_SECONDS = 3.0  # For what is Ray's: it has nothing to save.
_SERVER_SECONDS = 20.0  # For a database: it writes a checkpoint.
_GIVE_UP_SECONDS = 25.0  # What SIGKILL did not end is stuck in the kernel.
_POLL_SECONDS = 0.05


def enter() -> None:
    """Returns in the launcher alone, with the stop signals blocked until `accept_signals`. Needs a single thread."""
    if sys.platform != "linux":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    first = os.getpid()
    # Held back until somebody can handle them: here until the script waits, in the launcher until it is set up.
    signal.pthread_sigmask(signal.SIG_BLOCK, _watched())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # Kept by exec, not inherited by the child.
    launcher = os.fork()
    if launcher:
        # -P: not from the current folder, which may hold anything.
        command = [sys.executable, "-P", "-m", __name__, str(launcher)]
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})  # noqa: S606
    os.setsid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # With kill -9 of the guard, the launcher stops all in order.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _watched() - STOP_SIGNALS)
    if os.getppid() != first:
        os._exit(1)  # It died before the setting took hold.


def accept_signals(handler: Callable[[], None]) -> None:
    """Call `handler` at every stop signal from now on, the ones held back since `enter` included."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: handler())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def guarded(work: Callable[[], int]) -> NoReturn:
    """Do the launcher's work under a guard, and end with the exit code that it gives; at once, as Ray's own exit
    handlers would wait a minute for a Ray that is gone."""
    make_lenient()
    enter()
    try:
        code = work()
    except BaseException:  # noqa: BLE001 - shown as Python itself would.
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def watch(launcher: int) -> int:
    """Hand signals on until the launcher has ended; its exit code, negative for a signal. One that does not stop in
    time is killed."""
    clock, watched = SystemClock(), _watched()
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    deadline: float | None = None
    while True:
        for pid, code in _ended():
            if pid == launcher:
                return code
        left = None if deadline is None else deadline - clock.monotonic()
        if left is not None and left <= 0:
            _say(f"the launcher did not stop within {_STOP_SECONDS:g} s and is killed")
            os.kill(launcher, signal.SIGKILL)
            deadline = None
            continue
        found = signal.sigwaitinfo(watched) if left is None else signal.sigtimedwait(watched, left)
        if found is None or found.si_signo == signal.SIGCHLD:
            continue
        number = signal.SIGINT if found.si_signo == signal.SIGINT else signal.SIGTERM  # A closed terminal: a stop.
        os.kill(launcher, number)  # Not reaped yet, so the id is still the launcher's.
        deadline = deadline or clock.monotonic() + _STOP_SECONDS


def end_the_rest(session: int) -> list[str]:
    """End every process that is left below this one; gives what they were.

    Those of the launcher's session are Ray's and have nothing to save; the others are servers. All get SIGTERM once,
    then their time, then SIGKILL.
    """
    told: dict[int, str] = {}
    clock = SystemClock()
    began = clock.monotonic()
    while True:
        for _ in _ended():
            pass
        children = [child for child in psutil.Process().children() if child.pid not in told]
        for child in children:  # What is below them is theirs to end, or comes to us when they have ended.
            told[child.pid] = _name(child)
            _send(child.pid, signal.SIGTERM)
        waited = clock.monotonic() - began
        for process in psutil.Process().children(recursive=True):
            if waited > (_SESSION_SECONDS if _session(process.pid) == session else _SERVER_SECONDS):
                _send(process.pid, signal.SIGKILL)
        if not psutil.Process().children() or waited > _GIVE_UP_SECONDS:
            return list(told.values())
        signal.sigtimedwait({signal.SIGCHLD}, _POLL_SECONDS)


def main(arguments: list[str]) -> int:
    make_lenient()
    launcher = int(arguments[0])
    code = watch(launcher)
    if code < 0:
        _say(f"the launcher was killed ({signal.Signals(-code).name}); what it had started is ended")
    left = end_the_rest(launcher)
    if left:
        _say(f"ended what the launcher had left: {', '.join(sorted(left))}")
    return code if code >= 0 else 1


def _watched() -> frozenset[signal.Signals]:
    """With SIGHUP, unless it is to be ignored, as under nohup."""
    hang_up = frozenset() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else frozenset({signal.SIGHUP})
    return STOP_SIGNALS | hang_up | {signal.SIGCHLD}


def _ended() -> Iterator[tuple[int, int]]:
    """Process id and exit code of each child that has ended and was not seen yet."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} ({process.pid})"
    except psutil.Error:
        return str(process.pid)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
