"""Printing that cannot stop the launcher or its guard: what nobody can read any more is not printed.

Implements: the promise that stopping ends everything in order. A closed terminal, a `| tee` that the same Ctrl-C ended
and a full disk fail every print, and the stop is told step by step.
Not here: what is said (screen.py).
"""

import io
import sys
from typing import TextIO


class _Lenient(io.FileIO):
    """Takes what cannot be written for written."""

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        try:
            return super().write(view) or 0
        except OSError:
            return view.nbytes


def make_lenient() -> None:
    """For this process's own standard output and standard error. What reads them meanwhile is not concerned."""
    sys.stdout, sys.stderr = _lenient(sys.stdout), _lenient(sys.stderr)


def _lenient(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # Closed from the start, or somebody's own.
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
