"""The data folder of a local run: makes it, marks it, locks it against a second run, and removes it.

Implements: design, "The system in one picture" (one command runs the whole product on a bare machine).
Not here: the files of the servers (embedded_postgres.py, embedded_redis.py).

PostgreSQL refuses to run as root, so below root the servers run as an ordinary user, who must be able to enter their
folder. Where the data folder is closed to other users (`/root` usually is), the servers' files go to
`/var/lib/ledger-gateway/<id>`, and `servers` names that folder. The permissions of existing folders are never changed.
"""

import errno
import fcntl
import json
import logging
import os
import pwd
import secrets
import shutil
import stat
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from actors.local_servers.child_processes import RunAs

logger = logging.getLogger(__name__)

PRODUCT = "ledger-gateway"
MARKER_NAME = f"{PRODUCT}.json"
_MARKER_NEW = f"{MARKER_NAME}.new"
LOCK_NAME = f"{PRODUCT}.lock"
SYSTEM_FOLDER = Path("/var/lib") / PRODUCT
# All names that this product makes in a data folder. `remove` deletes these only.
FOLDER_NAMES = frozenset(
    {
        *("postgres", "postgres.new", "redis", "sockets", "settings", "programs"),  # Of the servers.
        *("devnode", "logs", "ray", "roots", "run", "secrets", "tls"),
    }
)
_FORMAT = 1
_ID_BYTES = 8
_SERVER_USERS = ("nobody", "postgres", "daemon")  # Tried in this order when we are root; the first exists everywhere.


class DataDirError(Exception):
    """The data folder cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The folder of the embedded servers' files, and the user that the servers run as. None: this process's user."""

    folder: Path
    run_as: RunAs | None


def default_path(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_DATA_HOME/ledger-gateway`, by default `~/.local/share/ledger-gateway`."""
    base = environ.get("XDG_DATA_HOME", "")
    if base and Path(base).is_absolute():  # The XDG rule: a relative value is ignored.
        return Path(base) / PRODUCT
    return Path.home() / ".local" / "share" / PRODUCT


class DataDir:
    """A data folder in use: made if missing, marked as the product's, locked. Use as `with DataDir(path)`.

    Raises DataDirError when the folder is in use, belongs to another program, or cannot be written.
    """

    def __init__(self, path: Path, system_folder: Path = SYSTEM_FOLDER) -> None:
        self.path = path.expanduser().absolute()
        self._locks: list[int] = []
        try:
            _make_folder(self.path)
            _refuse_foreign(self.path)
            self._locks.append(_lock(self.path))
            self.id = _claim(self.path)
            self.servers = self._place_servers(system_folder)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock. The files stay."""
        while self._locks:
            os.close(self._locks.pop())

    def folder(self, name: str) -> Path:
        """Return the folder of this name below the data folder, made if missing, closed to other users."""
        assert name in FOLDER_NAMES, name
        folder = self.path / name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _unusable(folder, error) from error
        return folder

    @property
    def logs(self) -> Path:
        return self.folder("logs")

    def _place_servers(self, system_folder: Path) -> Servers:
        if os.geteuid() != 0:
            return Servers(self.path, None)
        run_as = _owner(self.path) or _server_user()
        blocked = _first_closed(self.path, run_as)
        if blocked is None:
            return Servers(self.path, run_as)
        folder = system_folder / self.id
        _make_folder(folder)
        if (closed := _first_closed(folder, run_as)) is not None:
            raise DataDirError(
                f"{self.path}: PostgreSQL does not run as root, and its user {run_as.name} may enter neither {blocked} "
                f"nor {closed}; give a data folder that others may enter, or set DATABASE_URL and REDIS_URL"
            )
        self._locks.append(_lock(folder))
        _mark(folder, self.id)
        logger.info("%s is closed to user %s: the servers' files are in %s", blocked, run_as.name, folder)
        return Servers(folder, run_as)


def remove(path: Path, system_folder: Path = SYSTEM_FOLDER, kept: Collection[str] = ()) -> bool:
    """Delete the product's files in the folder (`--fresh`). False: there were none.

    kept: files of the product that stay, such as "secrets/local.json"; the folder then stays marked as the product's.
    Other files stay, and then the folder stays too. Raises DataDirError when the folder has no marker of this product
    or is in use.
    """
    path = path.expanduser().absolute()
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    data_id = _read_marker(path)
    if data_id is None:
        raise DataDirError(
            f"{path}: not removed, because it has no {MARKER_NAME}: this product did not make it; "
            "delete it yourself, or give another data folder"
        )
    for folder in (system_folder / data_id, path):
        if folder.exists() and _read_marker(folder) == data_id:
            _remove_ours(folder, {folder / name for name in kept})
    return True


def _remove_ours(folder: Path, kept: Set[Path]) -> None:
    lock = _lock(folder)
    try:
        for name in sorted(FOLDER_NAMES):
            _remove_but(folder / name, kept)
        if not any(path.exists() for path in kept):
            (folder / MARKER_NAME).unlink(missing_ok=True)
        (folder / LOCK_NAME).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise _unusable(folder, error) from error
    finally:
        os.close(lock)


def _remove_but(target: Path, kept: Set[Path]) -> None:
    """Delete a file or a folder, but no file that is kept. Links are deleted, and what they lead to stays."""
    if target.is_symlink():
        target.unlink()
    elif any(path.is_relative_to(target) and path.exists() for path in kept):
        if target.is_dir():
            for path in target.iterdir():
                _remove_but(path, kept)
    elif target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()


def _make_folder(path: Path) -> None:
    """Make the folder and its missing parents. Below root they get mode 711, so that the servers' user can enter."""
    mode = 0o711 if os.geteuid() == 0 else 0o700
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)  # Made just now; the umask limits the mode of mkdir.
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> DataDirError:
    where = error.filename or path
    return DataDirError(
        f"{path}: cannot be used as the data folder: {error.strerror} ({where}, as user {_user_name()}); "
        "give another folder with --data-dir or LEDGER_STORAGE__DATA_DIR, or make this one writable"
    )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _lock(folder: Path) -> int:
    """Lock the folder for this process. The lock ends with the process, however it ends."""
    path = folder / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataDirError(
            f"{folder}: already in use by process {holder}; stop that process, or give another data folder"
        ) from None
    except OSError as error:
        os.close(descriptor)
        raise _unusable(folder, error) from error
    return descriptor


def _refuse_foreign(path: Path) -> None:
    """Raise DataDirError for a folder that has files and no marker of this product."""
    ours = {LOCK_NAME, MARKER_NAME, _MARKER_NEW}
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in ours)
    if foreign and _read_marker(path) is None:
        raise DataDirError(
            f"{path}: not empty ({foreign[0]}{', ...' if len(foreign) > 1 else ''}) and without {MARKER_NAME}, "
            "so another program made it; give an empty or a new folder"
        )


def _claim(path: Path) -> str:
    """Return the folder's id. A new folder gets one."""
    data_id = _read_marker(path)
    if data_id is None:
        data_id = secrets.token_hex(_ID_BYTES)
        _mark(path, data_id)
    return data_id


def _mark(folder: Path, data_id: str) -> None:
    text = json.dumps({"product": PRODUCT, "format": _FORMAT, "id": data_id}) + "\n"
    temporary = folder / _MARKER_NEW
    try:
        temporary.write_text(text, encoding="ascii")
        temporary.replace(folder / MARKER_NAME)
    except OSError as error:
        raise _unusable(folder, error) from error


def _read_marker(folder: Path) -> str | None:
    """Return the id in the folder's marker. None: it has no marker of this product."""
    try:
        marker = json.loads((folder / MARKER_NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise _unusable(folder, error) from error
    if not isinstance(marker, dict) or marker.get("product") != PRODUCT:
        return None
    if marker.get("format") != _FORMAT:
        raise DataDirError(
            f"{folder}: was written by another version of this product (format {marker.get('format')}, this one "
            f"knows {_FORMAT}); run that version, or start afresh with --fresh"
        )
    data_id = str(marker.get("id", ""))
    if len(data_id) != 2 * _ID_BYTES or not set(data_id) <= set("0123456789abcdef"):
        return None  # The id becomes part of a path that is deleted, so only hex digits pass.
    return data_id


def _owner(path: Path) -> RunAs | None:
    """Return the ordinary user who owns the folder, so that files made by that user stay usable. None: root."""
    status = path.stat()
    try:
        return RunAs(pwd.getpwuid(status.st_uid).pw_name, status.st_uid, status.st_gid) if status.st_uid else None
    except KeyError:
        return None  # PostgreSQL needs a user with a name.


def _server_user() -> RunAs:
    for name in _SERVER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise DataDirError(
        f"PostgreSQL does not run as root, and this system has none of the users {', '.join(_SERVER_USERS)}; "
        "run as an ordinary user, or set DATABASE_URL and REDIS_URL"
    )


def _first_closed(path: Path, user: RunAs) -> Path | None:
    """Return the outermost folder on the way to path, path included, that this user may not enter."""
    resolved = path.resolve()
    for folder in (*reversed(resolved.parents), resolved):
        if not may_enter(folder.stat(), user):
            return folder
    return None


def may_enter(status: os.stat_result, user: RunAs) -> bool:
    """Return whether the permission bits let this user, a member of no other group, enter a folder or run a file."""
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)
