"""What earlier runs on the same data folder left behind, removed when the next one starts.

Implements: the promise that restarts do not fill the disk. Log files of replicas are named by process id, so each start
makes new ones; and a run that was killed leaves its scratch folder.
Only for the holder of the data folder's lock: then none of this is in use. Not here: the limits of one file's size
(telemetry/logs.py, local_servers/child_processes.py).
"""

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

_REPLICA_LOG = re.compile(r"gateway-[0-9]+\.jsonl(\.[0-9]+)?")  # As replica.py names them, and their rotated ones.
_LOGS_KEPT = 8
_PREFIX = "ledger-gateway-"
_RECORD = "scratch"
_OWNER = "owner"  # In the scratch folder: whose it is.


def remove_old_logs(folder: Path) -> None:
    """All but the newest files of replicas that are gone. What somebody made of one, compressed say, is his."""
    ours = [path for path in folder.iterdir() if _REPLICA_LOG.fullmatch(path.name) and path.is_file()]
    found = sorted(ours, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found[_LOGS_KEPT:]:
        path.unlink(missing_ok=True)


def make_scratch(run_folder: Path) -> Path:
    """A new folder for sockets and files of this run alone; that of a killed run is removed.

    Short and below /tmp: a socket's path has room for 107 bytes.
    """
    record = run_folder / _RECORD
    try:
        _remove_scratch(Path(record.read_text(encoding="utf-8")), run_folder)
    except (OSError, ValueError):  # None, gone, or a record that a crash of the machine has spoilt.
        pass
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (scratch / _OWNER).write_text(str(run_folder.resolve()), encoding="utf-8")
    record.write_text(str(scratch), encoding="utf-8")
    return scratch


def _remove_scratch(folder: Path, run_folder: Path) -> None:
    """Unless somebody else has a folder of that name by now, or it is of the data folder that ours is a copy of, which
    may be running."""
    found = folder.lstat()
    if not folder.name.startswith(_PREFIX) or not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    if (folder / _OWNER).read_text(encoding="utf-8") == str(run_folder.resolve()):
        shutil.rmtree(folder, ignore_errors=True)
