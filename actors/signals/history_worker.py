"""Encodes the rows of exports, in a process of its own beside a replica.

Implements: decisions, "history of signals". history_process.py starts it with `python -m`. It gets rows as PostgreSQL
sent them, no secret, and no access to stores or nodes.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from actors.side_program import run
from actors.signals.history_formats import Encoder, offered_formats
from actors.signals.history_slices import read_signals


class OpenExport(msgspec.Struct, tag=True, array_like=True):
    """Begin an export. Answered by what comes before all rows."""

    export: int
    format: str


class PrepareSlice(msgspec.Struct, tag=True, array_like=True):
    """Make what `WriteSlice` takes of rows. Answered by how many there are.

    reading: slices of the export with another number of this are forgotten. lines, corrections: their bytes."""

    export: int
    reading: int
    number: int
    lines: int
    corrections: int


class WriteSlice(msgspec.Struct, tag=True, array_like=True):
    """Answered by the pieces that a prepared slice is, which is then forgotten."""

    export: int
    number: int


class EndExport(msgspec.Struct, tag=True, array_like=True):
    """Answered by what comes after all rows. told: how the answer ended, as JSON."""

    export: int
    told: bytes


class CloseExport(msgspec.Struct, tag=True, array_like=True):
    """Forget an export."""

    export: int


Request = OpenExport | PrepareSlice | WriteSlice | EndExport | CloseExport


class Exports:
    """The encoders of all exports, and their slices that are prepared and not written."""

    def __init__(self) -> None:
        self._formats = offered_formats()
        self._encoders: dict[int, Encoder] = {}
        self._prepared: dict[int, tuple[int, dict[int, Any]]] = {}

    def do(self, request: Request, lines: bytes = b"", corrections: bytes = b"") -> tuple[int, Sequence[bytes]]:
        """Return how many signals the rows are, and pieces of the answer."""
        match request:
            case OpenExport():
                encoder = self._formats[request.format]()
                self._encoders[request.export] = encoder
                return 0, [encoder.head()]
            case PrepareSlice():
                return self._prepare(request, lines, corrections), ()
            case WriteSlice():
                prepared = self._prepared[request.export][1].pop(request.number)
                return 0, self._encoders[request.export].write(prepared)
            case EndExport():
                return 0, [self._encoders[request.export].end(orjson.loads(request.told))]
            case CloseExport():
                self._prepared.pop(request.export, None)
                self._encoders.pop(request.export, None)
                return 0, ()

    def _prepare(self, request: PrepareSlice, lines: bytes, corrections: bytes) -> int:
        reading, slices = self._prepared.get(request.export, (request.reading, {}))
        if reading != request.reading:
            slices = {}
        groups = read_signals([lines], [corrections])
        events = sum(map(len, groups))
        if events:
            slices[request.number] = self._encoders[request.export].prepare(groups)
        self._prepared[request.export] = request.reading, slices
        return events


def sizes_of(request: Request) -> Sequence[int]:
    """The bytes of what follows a request."""
    return (request.lines, request.corrections) if isinstance(request, PrepareSlice) else ()


if __name__ == "__main__":
    run(Request, sizes_of, Exports().do)
