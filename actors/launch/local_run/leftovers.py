"""Removes, at the start of a run, the files that earlier runs on the same data folder left behind.

Implements: the promise that restarts do not fill the disk. Log files of replicas are named by process id, so each start
makes new ones. A run that was killed leaves its scratch folder.
Only the holder of the data folder's lock may call this: then no run uses these files. Not here: the size limits of one
file (telemetry/logs.py, local_servers/child_processes.py).
"""

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

_REPLICA_LOG = re.compile(r"gateway-[0-9]+\.jsonl(\.[0-9]+)?")  # Names from replica.py, including rotated files.
_LOGS_KEPT = 8
_PREFIX = "ledger-gateway-"
_RECORD = "scratch"
_OWNER = "owner"  # A file in the scratch folder with the path of its run folder.


def remove_old_logs(folder: Path) -> None:
    """Remove all but the newest log files of replicas. Other files stay, such as a log that a person compressed."""
    ours = [path for path in folder.iterdir() if _REPLICA_LOG.fullmatch(path.name) and path.is_file()]
    found = sorted(ours, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found[_LOGS_KEPT:]:
        path.unlink(missing_ok=True)


def make_scratch(run_folder: Path) -> Path:
    """Make a folder for the sockets and files of this run, and remove the folder of a killed run.

    Its path is short and below /tmp, because a socket's path may have at most 107 bytes.
    """
    record = run_folder / _RECORD
    try:
        _remove_scratch(Path(record.read_text(encoding="utf-8")), run_folder)
    except (OSError, ValueError):  # No record, no folder, or a record that a crash of the machine damaged.
        pass
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (scratch / _OWNER).write_text(str(run_folder.resolve()), encoding="utf-8")
    record.write_text(str(scratch), encoding="utf-8")
    return scratch


def _remove_scratch(folder: Path, run_folder: Path) -> None:
    """Remove this scratch folder if it belongs to this run folder.

    Another user may have a folder of that name by now. Or the data folder is a copy, and the scratch folder belongs to
    a run on the original.
    """
    found = folder.lstat()
    if not folder.name.startswith(_PREFIX) or not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    if (folder / _OWNER).read_text(encoding="utf-8") == str(run_folder.resolve()):
        shutil.rmtree(folder, ignore_errors=True)
