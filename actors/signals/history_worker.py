"""Encodes the rows of exports, in a process of its own beside a replica.

Implements: decisions, "history of signals". history_process.py starts it with `python -m`. It has one connection, to
the replica that started it, and ends when the connection does, also when the replica is killed. It gets rows as
PostgreSQL sent them, no secret, and no access to stores or nodes.

Each request is answered before the next one is read. A message is a length, a header as MessagePack, and the bytes
that the header counts.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson

from actors.signals.history_formats import Encoder, offered_formats
from actors.signals.history_slices import read_signals

LENGTH_BYTES = 4
_NICENESS = 10  # Calls of clients go first: exports can wait.
_CONNECTION = 0  # The file descriptor: standard input.


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


class Answer(msgspec.Struct, array_like=True):
    """pieces: their bytes. failure: the name of an error; empty where there was none."""

    events: int = 0
    pieces: Sequence[int] = ()
    failure: str = ""


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


def serve(connection: socket.socket, do: Callable[..., tuple[int, Sequence[bytes]]]) -> None:
    """Answer requests until the connection ends. Raises ConnectionError then."""
    decoder, encoder = msgspec.msgpack.Decoder(Request), msgspec.msgpack.Encoder()
    while True:
        request = decoder.decode(_received(connection, int.from_bytes(_received(connection, LENGTH_BYTES), "big")))
        sizes = (request.lines, request.corrections) if isinstance(request, PrepareSlice) else ()
        given = [_received(connection, size) for size in sizes]
        pieces: Sequence[bytes] = ()
        try:
            events, pieces = do(request, *given)
            answer = Answer(events, [len(piece) for piece in pieces])
        except Exception as error:  # noqa: BLE001 - the replica tells it to the one answer that it is of.
            answer = Answer(failure=type(error).__name__)
        header = encoder.encode(answer)
        connection.sendall(b"".join((len(header).to_bytes(LENGTH_BYTES, "big"), header, *pieces)))


def _received(connection: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            raise ConnectionResetError
        at += count
    return bytes(found)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Of a terminal: the replica says when it is over.
    exports = Exports()
    os.nice(_NICENESS)  # After its imports: on a busy machine they would take too long.
    with socket.socket(fileno=_CONNECTION) as connection, contextlib.suppress(ConnectionError):
        serve(connection, exports.do)


if __name__ == "__main__":
    main()
