"""Starts child processes together, restarts them when they die, and stops them in reverse order.

Implements: design, "The system in one picture" (embedded servers are started and stopped by the application itself);
design, "What must survive what". Generic: each server has a module of its own (embedded_postgres.py, embedded_redis.py,
launch/local_run/stores.py for devnode).

Each child has a thread that starts it, waits for it and starts it again. That thread must not end before its child:
Linux sends the parent-death signal when the thread that forked ends, not when the process ends.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from actors.clock import SystemClock

logger = logging.getLogger(__name__)

_SPAWN_SCRIPT = Path(__file__).with_name("spawn.py")
_READY_POLL_SECONDS = 0.02
_RESTART_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 5.0)
_FIRST_STARTS_MAX = 6  # About three seconds, in which the backends of an earlier run end.
_STEADY_SECONDS = 60.0  # A child that ran for so long is restarted without a growing pause.
_LOG_BYTES_MAX = 16 << 20  # A larger log is renamed to NAME.log.1 at the next start.
_TAIL_LINES = 12
_KILL_SECONDS = 5.0  # A process that SIGKILL does not end in this time is stuck in the kernel.


class ChildFailed(Exception):
    """A child could not be started; the text names the child, the reason and its log."""


class CannotStart(ChildFailed):
    """A child cannot be started until a person has done what the text says."""


@dataclass(frozen=True, slots=True)
class RunAs:
    """The user of the operating system that a child runs as."""

    name: str
    uid: int
    gid: int


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One process to keep running.

    command: the program's full path and its arguments. is_ready: gets the process id; called many times a second until
    it returns True; must not block for long; an exception counts as False. prepare: called before every start, also
    after a crash; must be repeatable. orphan_signal: sent by the kernel when this process is killed (Linux).
    """

    name: str
    command: tuple[str, ...]
    log_path: Path
    is_ready: Callable[[int], bool]
    prepare: Callable[[], None] = _nothing
    environment: Mapping[str, str] = field(default_factory=dict)
    run_as: RunAs | None = None  # None: this process's own user.
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    start_seconds: float = 30.0
    stop_seconds: float = 10.0

    @property
    def pid_path(self) -> Path:
        return self.log_path.with_suffix(".pid")


@dataclass(frozen=True, slots=True)
class ChildState:
    name: str
    pid: int | None  # None: not running.
    ready: bool
    restarts: int
    last_failure: str  # Empty: it never died.


class Supervisor:
    """Keeps children running until stop(). Safe to call from any thread, without an event loop."""

    def __init__(self) -> None:
        self._keepers: list[_Keeper] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *children: Child) -> None:
        """Start these children at once and wait until all are ready. May be called again with further children.

        Raises ChildFailed when a child cannot be started; then all children of this call are stopped.
        """
        started = [_Keeper(child) for child in children]
        self._keepers += started
        for keeper in started:
            keeper.thread.start()
        failures = [keeper.wait_first_start() for keeper in started]
        found = [failure for failure in failures if failure]
        if found:
            for keeper in reversed(started):
                keeper.stop()
                self._keepers.remove(keeper)
            raise ChildFailed("\n".join(found))

    def let_end(self) -> None:
        """Do not restart a child that ends from now on: a stop signal may have gone to all processes."""
        for keeper in self._keepers:
            keeper.let_end()

    def stop(self) -> None:
        """Stop all children, the last started first: stop signal, then SIGKILL when its time is over. Repeatable."""
        while self._keepers:
            self._keepers[-1].stop()
            self._keepers.pop()

    def states(self) -> tuple[ChildState, ...]:
        return tuple(keeper.state() for keeper in self._keepers)

    def pid(self, name: str) -> int | None:
        """Return the process id of the child of this name, while it runs. Raises KeyError for an unknown name."""
        states = {state.name: state for state in self.states()}
        return states[name].pid


class _Keeper:
    """Starts and restarts one child, in a thread of its own."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._may_end = threading.Event()
        self._first_start = threading.Event()
        self._first_failure = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._restarts = 0
        self._last_failure = ""
        self.thread = threading.Thread(target=self._run, name=f"keeper-{child.name}", daemon=True)

    def state(self) -> ChildState:
        process = self._process
        return ChildState(
            self._child.name, process.pid if process else None, self._ready, self._restarts, self._last_failure
        )

    def wait_first_start(self) -> str:
        """Wait until the child is ready, and return an empty text, or until it has failed, and return the reason."""
        self._first_start.wait()
        return self._first_failure

    def let_end(self) -> None:
        self._may_end.set()

    def stop(self) -> None:
        self._stopping.set()
        with contextlib.suppress(ProcessLookupError):
            if (process := self._process) is not None:
                process.send_signal(self._child.stop_signal)
        self.thread.join(self._child.stop_seconds)
        if self.thread.is_alive():
            logger.warning("%s: did not stop within %g s, killed", self._child.name, self._child.stop_seconds)
            _kill_group(self._process)
            self.thread.join(_KILL_SECONDS)

    def _run(self) -> None:
        quick_deaths = 0
        while not self._stopping.is_set():
            started_at = self._clock.monotonic()
            hopeless = False
            try:
                failure = self._live_once()
            except Exception as error:  # noqa: BLE001 - prepare() may raise anything, and is reported.
                failure = f"{self._child.name}: {error}"
                hopeless = isinstance(error, CannotStart)
            if self._stopping.is_set() or self._may_end.is_set():
                break
            quick_deaths = 1 if self._clock.monotonic() - started_at > _STEADY_SECONDS else quick_deaths + 1
            self._last_failure = failure
            if not self._first_start.is_set() and (hopeless or quick_deaths >= _FIRST_STARTS_MAX):
                self._first_failure = failure
                self._first_start.set()
                return
            pause_seconds = _RESTART_SECONDS[min(quick_deaths, len(_RESTART_SECONDS)) - 1]
            logger.error("%s; starting it again in %g s", failure.partition("\n")[0], pause_seconds)
            self._stopping.wait(pause_seconds)
            if self._may_end.is_set():
                break
            self._restarts += 1
        self._first_failure = self._first_failure or f"{self._child.name}: stopped while it was starting"
        self._first_start.set()

    def _live_once(self) -> str:
        """Start the child, wait until it is ready, wait until it ends, and return how it ended."""
        child = self._child
        stop_leftover(child)
        child.prepare()
        process = self._process = _spawn(child)
        try:
            _write_pid_file(child, process.pid)
            ready_in_time = self._await_ready(process)
            if ready_in_time:
                logger.info("%s: ready, process %d", child.name, process.pid)
                self._ready = True
                self._first_start.set()
            if self._stopping.is_set():
                # stop() may have run before there was a process to signal.
                process.send_signal(child.stop_signal)
            elif not ready_in_time:
                _kill_group(process)
            code = process.wait()
        finally:
            self._ready = False
            self._process = None
            if process.poll() is None:  # Only after an exception.
                _kill_group(process)
                process.wait()
            _kill_group(process)  # Grandchildren that still run.
            child.pid_path.unlink(missing_ok=True)
        if not ready_in_time and code == -signal.SIGKILL:
            return f"{child.name}: not ready within {child.start_seconds:g} s{_log_tail(child)}"
        return f"{child.name}: died ({_ending(code)}){_log_tail(child)}"

    def _await_ready(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = self._clock.monotonic() + self._child.start_seconds
        while process.poll() is None and not self._stopping.is_set():
            try:
                if self._child.is_ready(process.pid):
                    return True
            except Exception as error:  # noqa: BLE001 - a server that starts may fail in any way.
                logger.debug("%s: not ready: %s", self._child.name, error)
            if self._clock.monotonic() >= deadline:
                return False
            self._stopping.wait(_READY_POLL_SECONDS)
        return False


def stop_leftover(child: Child) -> None:
    """End the process of this child that an earlier, killed run left behind, if there is one."""
    found = _recorded_process(child.pid_path)
    if found is None:
        return
    logger.warning("%s: process %d of an earlier run still runs, stopping it", child.name, found.pid)
    end_process(found, child.stop_signal, child.stop_seconds)
    child.pid_path.unlink(missing_ok=True)


def end_process(process: psutil.Process, stop_signal: signal.Signals, stop_seconds: float) -> None:
    """Stop a process that is not a child of this one; kill it when its time is over."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(stop_signal)
        try:
            process.wait(stop_seconds)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(_KILL_SECONDS)


def _recorded_process(pid_path: Path) -> psutil.Process | None:
    """Return the process that a pid file names, if it has the recorded start time: process ids are reused."""
    try:
        pid_text, created_text = pid_path.read_text(encoding="ascii").split()
        process = psutil.Process(int(pid_text))
        if abs(process.create_time() - float(created_text)) < 1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except (OSError, ValueError, psutil.Error):
        return None
    return None


def _write_pid_file(child: Child, pid: int) -> None:
    try:
        child.pid_path.write_text(f"{pid} {psutil.Process(pid).create_time()}\n", encoding="ascii")
    except psutil.NoSuchProcess:
        pass  # The child has ended already; _live_once notices that.
    except OSError as error:
        # On a full disk the server continues to run; only the start after a killed run needs this record.
        logger.warning("%s: cannot record its process: %s", child.name, error)


def spawn_command(command: Sequence[str], run_as: RunAs | None, orphan_signal: signal.Signals) -> list[str]:
    """Return the command that runs `command` as this user, and ends it with the thread that starts it (Linux)."""
    user = ("-", "-") if run_as is None else (str(run_as.uid), str(run_as.gid))
    return [
        sys.executable,
        "-I",  # No user environment, and
        "-S",  # no site-packages: this process becomes the child after milliseconds.
        str(_SPAWN_SCRIPT),
        str(int(orphan_signal)),
        str(os.getpid()),
        *user,
        "--",
        *command,
    ]


def _spawn(child: Child) -> subprocess.Popen[bytes]:
    with _log_file(child.log_path) as log:
        return subprocess.Popen(  # noqa: S603 - the commands are this project's own.
            spawn_command(child.command, child.run_as, child.orphan_signal),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=dict(child.environment),
            start_new_session=True,  # Ctrl-C must reach this process only, which stops the children in order.
        )


@contextlib.contextmanager
def _log_file(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_BYTES_MAX:
            path.replace(path.with_name(path.name + ".1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def _log_tail(child: Child) -> str:
    try:
        with child.log_path.open("rb") as log:
            log.seek(max(0, child.log_path.stat().st_size - 4_096))
            lines = log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        return ""
    return f"; log: {child.log_path}" + "".join(f"\n    {line}" for line in lines)
