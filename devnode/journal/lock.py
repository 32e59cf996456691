"""Allows one devnode for each data folder.

Implements: an advisory lock on a file in the folder; the kernel releases it when the process ends in any way.
"""

import fcntl
import os
from pathlib import Path

FILE_NAME = "devnode.lock"


class FolderTaken(Exception):
    """Another devnode uses this folder, or the folder cannot be used; the text says which."""


class FolderLock:
    """Creates the folder where it is missing. Raises FolderTaken."""

    def __init__(self, data_dir: Path) -> None:
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            self._file = (data_dir / FILE_NAME).open("a+")
        except OSError as error:
            raise FolderTaken(f"{data_dir}: cannot be written ({error.strerror}); give another --data-dir") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise FolderTaken(
                f"{data_dir}: another devnode (process {holder}) uses this folder; stop it or give another --data-dir"
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()
