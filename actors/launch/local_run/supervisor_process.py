"""The first process of a run: passes signals on to the launcher, and ends the processes that the launcher leaves.

Implements: design, "The system in one picture" (everything is started and stopped by the application itself).
`supervised` splits the process that the user started. The child continues as the launcher, in a session of its own: a
signal to the terminal's process group (Ctrl-C, `timeout`) then reaches Ray's daemons only if the launcher sends it. The
parent becomes this module run as a program. It uses little memory and keeps the process id that the user knows. It is a
"subreaper": a process whose parent has ended becomes its child. So it finds every process of the run, even after the
launcher was killed. The launcher is a subreaper too, for the workers that a killed raylet leaves behind. Linux only.
This module imports very little, because it runs for as long as the product does.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import psutil

from actors.clock import SystemClock
from actors.launch.local_run.lenient_output import make_lenient

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})
_ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1  # prctl(2).
_PR_SET_CHILD_SUBREAPER = 36
_STOP_SECONDS = 85.0  # The sum of the launcher's own limits for stopping.
_SESSION_SECONDS = 3.0  # Processes of Ray have nothing to save.
_SERVER_SECONDS = 20.0  # A database writes a checkpoint.
_GIVE_UP_SECONDS = 25.0  # A process that SIGKILL has not ended by then is stuck in the kernel.
_POLL_SECONDS = 0.05


def enter() -> None:
    """Split this process, and return in the launcher only. Stop signals stay blocked until `accept_signals`.

    The process must have a single thread.
    """
    if sys.platform != "linux":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    first = os.getpid()
    # Hold signals back until a process can handle them: here until `watch` runs, in the launcher until it is set up.
    signal.pthread_sigmask(signal.SIG_BLOCK, _watched())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # Survives exec; the child does not inherit it.
    launcher = os.fork()
    if launcher:
        # -P: do not import from the current folder, which may contain any file.
        command = [sys.executable, "-P", "-m", __name__, str(launcher)]
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})  # noqa: S606
    os.setsid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # After kill -9 of the supervisor.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _watched() - STOP_SIGNALS)
    if os.getppid() != first:
        os._exit(1)  # The parent ended before the setting took effect.


def accept_signals(handler: Callable[[], None]) -> None:
    """Call `handler` at every stop signal, including those held back since `enter`."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: handler())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def supervised(work: Callable[[], int]) -> NoReturn:
    """Do the launcher's work below a supervisor process, and end with its exit code.

    Exit handlers are skipped: those of Ray would wait a minute for a Ray that has ended.
    """
    make_lenient()
    enter()
    try:
        code = work()
    except BaseException:  # noqa: BLE001 - printed as Python would print it.
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def watch(launcher: int) -> int:
    """Pass signals on until the launcher has ended, and return its exit code; negative for a signal.

    A launcher that does not stop in time is killed.
    """
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
        number = (
            signal.SIGINT if found.si_signo == signal.SIGINT else signal.SIGTERM
        )  # SIGHUP: the terminal was closed.
        os.kill(launcher, number)  # Not reaped yet, so this id is still the launcher's.
        deadline = deadline or clock.monotonic() + _STOP_SECONDS


def end_the_rest(session: int) -> list[str]:
    """End every process that is left below this one, and return their names.

    Processes in the launcher's session belong to Ray and have nothing to save; the others are servers. Each gets
    SIGTERM once, and SIGKILL when its time is over.
    """
    told: dict[int, str] = {}
    clock = SystemClock()
    began = clock.monotonic()
    while True:
        for _ in _ended():
            pass
        children = [child for child in psutil.Process().children() if child.pid not in told]
        for child in children:  # They end their own children; any that remain become ours afterwards.
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
        _say(f"the launcher was killed ({signal.Signals(-code).name}); its processes are ended")
    left = end_the_rest(launcher)
    if left:
        _say(f"ended what the launcher had left: {_counted(left)}")
    return code if code >= 0 else 1


def _watched() -> frozenset[signal.Signals]:
    """Return the signals to wait for; SIGHUP among them, unless it is ignored, as under nohup."""
    hang_up = frozenset() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else frozenset({signal.SIGHUP})
    return STOP_SIGNALS | hang_up | {signal.SIGCHLD}


def _ended() -> Iterator[tuple[int, int]]:
    """Yield process id and exit code of each child that has ended since the last call."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _counted(names: Iterable[str]) -> str:
    """Return each name once, with the number of its processes: a run of Ray has dozens of few kinds."""
    counts = sorted(Counter(names).items())
    return ", ".join(name if number == 1 else f"{number} {name}" for name, number in counts)


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
        return process.name()
    except psutil.Error:
        return "a process that ended meanwhile"


def _say(text: str) -> None:
    erase = "\r\x1b[K" if sys.stderr.isatty() else ""  # A progress line that the killed launcher left.
    print(f"{erase}  {text}", file=sys.stderr, flush=True)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
