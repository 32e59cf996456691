"""Printing that never raises, for the launcher and its supervisor: text that cannot be written is dropped.

Implements: the promise that a stop ends everything in order. The launcher prints each step of a stop. Every print fails
after the terminal was closed, after the same Ctrl-C ended a `| tee`, and on a full disk.
Not here: the texts (operator/screen.py).
"""

import io
import sys
from typing import TextIO


class _Lenient(io.FileIO):
    """A file that ignores write errors."""

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        try:
            return super().write(view) or 0
        except OSError:
            return view.nbytes


def make_lenient() -> None:
    """Make this process's standard output and standard error ignore write errors."""
    sys.stdout, sys.stderr = _lenient(sys.stdout), _lenient(sys.stderr)


def _lenient(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # Closed from the start, or replaced by a test.
    raw = _Lenient(stream.fileno(), "wb", closefd=False)
    stream.flush()
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # As with PYTHONUNBUFFERED.
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
