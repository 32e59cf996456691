"""Writes a file that only its owner may read, as a whole: no reader and no crash ever leaves a part of it.

Implements: the secrets of a local run, and the files that other processes wait for.
"""

import os
from pathlib import Path


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write the text to a temporary file, make it durable, and rename it to `path`, which may exist."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)  # A crash may have left one, with other permissions.
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.chmod(mode)  # The umask may have removed bits.
    scratch.replace(path)
