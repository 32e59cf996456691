"""The files that an embedded server needs: its programs, where its user can run them, and closed folders.

Implements: design, "The system in one picture" (embedded defaults). The servers may run as another user (datadir.py),
who may not be able to enter the Python environment. Not here: the servers themselves (embedded_postgres.py,
embedded_redis.py).
"""

import importlib.util
import os
import shutil
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from actors.local_servers.child_processes import CannotStart, RunAs
from actors.local_servers.datadir import DataDir, may_enter

POSTGRES_SOCKET = ".s.PGSQL.5432"  # The port is part of the name; no TCP port is open.
_SOCKET_PATH_MAX = 100  # The kernel's limit is 107 bytes on Linux and 103 on macOS.
_MAKING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SocketFolder:
    """The folder of the servers' sockets: below the data folder, or below /tmp when that path is too long."""

    path: Path
    run_as: RunAs | None

    @classmethod
    def of(cls, data: DataDir) -> "SocketFolder":
        path = data.servers.folder / "sockets"
        if len(os.fsencode(path / POSTGRES_SOCKET)) > _SOCKET_PATH_MAX:
            path = Path("/tmp") / f"ledger-gateway-{data.id}"  # noqa: S108 - closed_folder checks the owner.
        return cls(path, data.servers.run_as)

    def provide(self) -> None:
        closed_folder(self.path, self.run_as)


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one server, and the place of their copy when the servers' user may not run them.

    A virtual environment below /root is such a case. The copy takes 30 MB and is made once for each version.
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
        # The wheel has libraries beside its package, where the programs look for them.
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


def installed(package: str, advice: str) -> Path:
    """Return the folder of an installed package without importing it. Raises CannotStart with the advice."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(f"the Python package {package} is not installed: install it, or {advice}")
    return Path(spec.submodule_search_locations[0])


def server_environment() -> dict[str, str]:
    """Return a server's environment, without PG* variables and locales of the caller that could change the server."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def closed_folder(path: Path, run_as: RunAs | None) -> None:
    """Make a folder that only the server's user (and root) may enter. Raises CannotStart for another user's folder."""
    owner = os.geteuid() if run_as is None else run_as.uid
    try:
        with _MAKING:  # Two servers start at once and share a folder, which needs its owner first.
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


def _open_tree(root: Path) -> None:
    """Let all users read a copy of programs, whatever the umask is."""
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            file = Path(folder) / name
            if not file.is_symlink():
                file.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
