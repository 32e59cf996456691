"""The program that Ray Serve starts in place of HAProxy: it changes the configuration, then becomes HAProxy.

Implements: RAY_SERVE_HAPROXY_BINARY_PATH, Serve's own setting for the program that it starts and reloads; threat
58 (the folder of the admin socket is closed to other users). Imports only the standard library, so that a reload is
quick. The rules are in front/config.py and front/affinity.py. Not here: making the settings (front/installation.py).

Serve writes a new configuration before each start, and recognises HAProxy by its process id and by the configuration's
path in its arguments. Both stay the same: the file is changed in place, and this process becomes HAProxy.
"""

import json
import os
import resource
import stat
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from actors.launch.front.affinity import with_affinity
from actors.launch.front.config import ConfigurationDiffers, FrontSettings, rewrite
from actors.launch.front.last_servers import servers_of, with_servers

SETTINGS_FILE = "front.json"
_SERVERS_SUFFIX = ".servers"  # Stored beside a configuration: the last servers of each of its backends.


class FolderNotOurs(Exception):
    """The folder of HAProxy's files belongs to another user, who could replace them."""


def run(settings_path: str, arguments: Sequence[str]) -> NoReturn:
    """Become HAProxy with these arguments. Where that is not safe, print the reason and exit with code 1."""
    try:
        settings = FrontSettings(**json.loads(Path(settings_path).read_text(encoding="utf-8")))
        for path in _configurations(arguments):
            change(Path(path), settings)
    except (ConfigurationDiffers, FolderNotOurs, OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"front: {error}\n")
        sys.exit(1)
    os.execv(settings.haproxy, [settings.haproxy, *arguments])  # noqa: S606 - a path of our own, no shell.


def change(path: Path, settings: FrontSettings) -> None:
    """Change the configuration in this file, and close its folder, which also holds the admin socket.

    A backend for which Serve names no replica keeps those that it had last.
    """
    close_folder(path.parent)
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # HAProxy raises its own soft limit.
    if files_max == resource.RLIM_INFINITY:
        files_max = 1 << 20
    kept = path.with_name(path.name + _SERVERS_SUFFIX)
    before = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    text = with_servers(rewrite(path.read_text(encoding="utf-8"), settings, files_max), before)
    _write(kept, json.dumps(before | servers_of(text)))
    _write(path, with_affinity(text))


def _write(path: Path, text: str) -> None:
    """Replace the file in one step, readable by this user alone."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    with open(scratch, "x", encoding="utf-8", opener=_private) as file:
        file.write(text)
    scratch.replace(path)


def close_folder(folder: Path) -> None:
    """Close the folder to all other users. Raises FolderNotOurs."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise FolderNotOurs(f"{folder} is not a folder of this user; name another one")
    folder.chmod(0o700)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _configurations(arguments: Sequence[str]) -> list[str]:
    return [value for flag, value in pairwise(arguments) if flag == "-f"]
