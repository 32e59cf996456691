"""What earlier runs on the same data folder left behind, removed when the next one starts.

Implements: the promise that restarts do not fill the disk. Log files of replicas are named by process id, so each start
makes new ones; and a run that was killed leaves its scratch folder.
Only for the holder of the data folder's lock: then none of this is in use. Not here: the limits of one file's size
(telemetry.py, children.py).
"""

import os
import shutil
import stat
import tempfile
from pathlib import Path

_REPLICA_LOGS = "gateway-*.jsonl*"  # As replica.py names them, and their rotated ones.
_LOGS_KEPT = 8
_PREFIX = "ledger-gateway-"
_RECORD = "scratch"


def remove_old_logs(folder: Path) -> None:
    """All but the newest files of replicas that are gone."""
    found = sorted(folder.glob(_REPLICA_LOGS), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found[_LOGS_KEPT:]:
        path.unlink(missing_ok=True)


def make_scratch(run_folder: Path) -> Path:
    """A new folder for sockets and files of this run alone; that of a killed run is removed.

    Short and below /tmp: a socket's path has room for 107 bytes.
    """
    record = run_folder / _RECORD
    if record.exists():
        _remove_scratch(Path(record.read_text(encoding="utf-8")))
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX))
    record.write_text(str(scratch), encoding="utf-8")
    return scratch


def _remove_scratch(folder: Path) -> None:
    """Unless somebody else has a folder of that name by now."""
    try:
        found = folder.lstat()
    except OSError:
        return
    if folder.name.startswith(_PREFIX) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
        shutil.rmtree(folder, ignore_errors=True)
