"""Starts the real product as a process, calls it, and stops it without leaving a process behind.

Used by the measurements and by the tests that need the whole product. Not here: measurements and assertions.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import psutil

from bench.processes import tree

ROOT = Path(__file__).parents[1]
_READY_SECONDS = 150
_STOP_SECONDS = 60
_TAIL_CHARACTERS = 10_000  # A traceback through Ray is long, and its cause comes first.
_LEAVE_SECONDS = 3  # For processes that end after their parent.
_PORTS = 1_000
# Above the gRPC ports of the embedded chain, 10000 and 10001; below the ports that operating systems assign.
_PORT_FIRST_MIN, _PORT_FIRST_MAX = 11_000, 31_000
_MARK = "PRODUCT_RUN_MARK"  # Set in the environment of every process of a run, also of those that left its tree.


class Told(Enum):
    """The processes that a stop signal is sent to."""

    ONE = auto()  # `kill`: the process that was started.
    GROUP = auto()  # Ctrl-C in a terminal, `timeout`: its process group.
    ALL = auto()  # A service manager: every process of the run at once.


class ProductFailed(Exception):
    """The product did not start or did not do as expected; the text has its output."""


@dataclass(frozen=True, slots=True)
class Ports:
    """A thousand free ports: the first for the cluster, the last for HTTP, gRPC, devnode and TLS.

    claim: a socket that listens on the very last port for as long as this object lives, so that no other caller of
    free_ports gets this range before a product listens in it, or while the product restarts.
    """

    first: int
    claim: socket.socket | None = field(default=None, repr=False, compare=False)

    @property
    def http(self) -> int:
        return self.first + 950

    @property
    def grpc(self) -> int:
        return self.first + 952  # WebSockets are on the port after HTTP.

    @property
    def devnode(self) -> int:
        return self.first + 953

    @property
    def tls(self) -> int:
        return self.first + 957  # After devnode's HTTP come its WebSockets, its gRPC and that over TLS.

    def settings(self) -> dict[str, str]:
        """Return the settings for a run on these ports."""
        return {
            "LEDGER_SERVE__HTTP_PORT": str(self.http),
            "LEDGER_SERVE__GRPC_PORT": str(self.grpc),
            "LEDGER_SERVE__TLS_PORT": str(self.tls),
            "LEDGER_SERVE__INTERNAL_PORT_FIRST": str(self.first),
            "LEDGER_DEVNODE__HTTP_PORT": str(self.devnode),
        }


def free_ports() -> Ports:
    """Find a range of ports in which nothing listens and which no other caller has."""
    listening = [entry.laddr for entry in psutil.net_connections("tcp") if entry.status == psutil.CONN_LISTEN]
    taken = {address.port for address in listening if address}
    while True:
        first = random.randrange(_PORT_FIRST_MIN, _PORT_FIRST_MAX, _PORTS)
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", first + _PORTS - 1))
            claim.listen()
        except OSError:
            claim.close()
            continue
        if taken.intersection(range(first, first + _PORTS)):
            claim.close()
            continue
        return Ports(first, claim)


def command(*arguments: str, optimise: bool = False, root: Path = ROOT) -> list[str]:
    return [sys.executable, *(["-O"] if optimise else []), str(root / "serve_app.py"), *arguments]


def environment(settings: Mapping[str, str], mark: str = "") -> dict[str, str]:
    """Return this process's environment with these settings and without any other settings of the product."""
    foreign = ("LEDGER_", "RAY_", "DATABASE_URL", "REDIS_URL", "PYTHONOPTIMIZE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, **settings, **({_MARK: mark} if mark else {})}


class Product:
    """One run. `start` returns when it is ready; `stop` returns when all its processes have ended.

    root: the source tree that runs.
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, str], ports: Ports, root: Path = ROOT) -> None:
        self.data_dir, self.ports, self._root = data_dir, ports, root
        self._settings = {**ports.settings(), **settings}
        if root != ROOT:
            self._settings["PYTHONPATH"] = str(root)  # Its processes import their own tree, not this one.
        self._mark = f"{os.getpid()}-{random.getrandbits(48):012x}"
        self._ready_path = data_dir.with_name(data_dir.name + ".ready.json")
        self.output_path = data_dir.with_name(data_dir.name + ".output.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._printed_before = 0  # Bytes of the output from earlier starts.
        self.ready: dict[str, Any] = {}

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of its environment, which its commands need as well."""
        return dict(self._settings)

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has not been seen to end."""
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def http_url(self) -> str:
        return str(self.ready["http_url"])

    @property
    def api_key(self) -> str:
        return str(self.ready["api_key"])

    @property
    def pubkey(self) -> str:
        return str(self.ready["pubkey"])

    def start(self) -> None:
        """Start the product and wait until it is ready. Raises ProductFailed with the last lines of its output."""
        self.launch()
        deadline = time.monotonic() + _READY_SECONDS
        while not self._ready_path.exists():
            self._check_running()
            if time.monotonic() > deadline:
                self.kill()
                raise ProductFailed(f"not ready within {_READY_SECONDS} s:\n{self._tail()}")
            time.sleep(0.05)
        self.ready = json.loads(self._ready_path.read_text(encoding="utf-8"))

    def launch(self) -> None:
        """Start the process without waiting for it to be ready."""
        self._ready_path.unlink(missing_ok=True)
        self._printed_before = self.output_path.stat().st_size if self.output_path.exists() else 0
        arguments = ("--data-dir", str(self.data_dir), "--ready-file", str(self._ready_path))
        with self.output_path.open("ab") as output:
            self._process = subprocess.Popen(
                command(*arguments, root=self._root),
                cwd=self._root,
                env=environment(self._settings, self._mark),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # So that Ctrl-C can be sent to this run alone.
            )

    def wait_for_output(self, text: str) -> None:
        """Wait until the product has printed this text. Raises ProductFailed when it ends before."""
        while text not in self.output():
            self._check_running()
            time.sleep(0.05)

    def output(self) -> str:
        """Return its output since the latest start."""
        return self.output_path.read_bytes()[self._printed_before :].decode(errors="replace")

    def _check_running(self) -> None:
        assert self._process is not None, "not started"
        if (code := self._process.poll()) is not None:
            self._process = None
            raise ProductFailed(f"ended with {code} before it was ready:\n{self._tail()}")

    def processes(self) -> list[psutil.Process]:
        """Return all running processes of this run, also those that have left its process tree."""
        found = {process.pid: process for process in (tree(self.pid) if self._process else [])}
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self._mark:
                    found[process.pid] = process
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return [process for process in found.values() if process.pid != os.getpid()]

    def pids(self) -> dict[str, int]:
        """Return process ids by name, as of the start; a process that was restarted has another id by now."""
        return {str(name): int(pid) for name, pid in self.ready["pids"].items()}

    def running(self, mark: str) -> list[int]:
        """Return the ids of this run's processes that have these words in their command lines."""
        found = []
        for process in tree(self.pid):
            try:
                if mark in " ".join(process.cmdline()):
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def tell(self, told: Told, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal without waiting for its effect."""
        targets = self.processes() if told is Told.ALL else []
        if told is Told.GROUP:
            os.killpg(self.pid, number)
        elif self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
        for process in targets:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def stop(self, told: Told = Told.ONE, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it as an operator does, and return its exit code as `ended` does."""
        if self._process is None:
            return 0
        return self.ended(lambda: self.tell(told, number))

    def ended(self, act: Callable[[], None]) -> int:
        """Call `act`, wait until the product has ended, and return its exit code.

        Raises ProductFailed, and kills the rest, when one of its processes still runs afterwards.
        """
        assert self._process is not None, "not started"
        started = self.processes()
        try:
            act()
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProductFailed(f"did not stop within {_STOP_SECONDS} s:\n{self._tail()}") from None
        _, left = psutil.wait_procs(_distinct([*started, *self.processes()]), timeout=_LEAVE_SECONDS)
        left = [process for process in left if _runs(process)]
        self._process = None
        if left:
            names = ", ".join(_described(process) for process in left)
            _kill(left)
            raise ProductFailed(f"still running after the stop: {names}")
        return code

    def kill(self) -> None:
        """Kill all processes of this run."""
        if self._process is None:
            return
        _kill(self.processes())
        self._process.wait(_STOP_SECONDS)
        self._process = None

    def operator(self, *arguments: str) -> str:
        """Run an operator command on accounts, such as ("suspend", PUBKEY, "--reason", "test"); return its output."""
        done = subprocess.run(
            command("accounts", *arguments, "--data-dir", str(self.data_dir), root=self._root),
            cwd=self._root,
            env=environment(self._settings),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise ProductFailed(f"accounts {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def audit(self, with_roots: bool = False) -> subprocess.CompletedProcess[str]:
        """Run the audit. Exit code 0: every balance, hash chain and webhook follows from the ledger. with_roots: and
        agrees with the signed statements, which releases before 0.2.0 do not make."""
        roots = ("--roots", str(self.data_dir / "roots")) if with_roots else ()
        return subprocess.run(
            command("audit", "--data-dir", str(self.data_dir), *roots, root=self._root),
            cwd=self._root,
            env=environment(self._settings),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def account(self, api_key: str | None = None) -> dict[str, Any]:
        """Request GET /account/info."""
        request = urllib.request.Request(
            f"{self.http_url}/account/info", headers={"X-Api-Key": api_key or self.api_key}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def _tail(self) -> str:
        return self.output()[-_TAIL_CHARACTERS:]


def _distinct(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    return list({process.pid: process for process in processes}.values())


def _runs(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _described(process: psutil.Process) -> str:
    try:
        return f"{' '.join(process.cmdline())[:120] or process.name()} ({process.pid})"
    except psutil.Error:
        return str(process.pid)


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(list(processes), timeout=10)
