"""The program's part of a process beside another one (side_process.py): reads requests, and answers each in turn.

The process has one connection, to the process that started it, and ends when the connection does, also when that
process is killed. Each request is answered before the next one is read. A message is a length, a header as MessagePack,
and the bytes that the header counts.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

LENGTH_BYTES = 4
_NICENESS = 10  # Calls of clients have priority.
_CONNECTION = 0  # The file descriptor: standard input.


class Answer(msgspec.Struct, array_like=True):
    """number: whatever the program counts. pieces: their bytes. failure: the name of an error; empty: there is none."""

    number: int = 0
    pieces: Sequence[int] = ()
    failure: str = ""


def serve(
    connection: socket.socket,
    requests: Any,
    sizes_of: Callable[[Any], Sequence[int]],
    do: Callable[..., tuple[int, Sequence[bytes]]],
) -> None:
    """Answer requests until the connection ends. Raises ConnectionError then.

    requests: the type of all requests. sizes_of: the bytes of each piece of data that follows a request. do: returns
    the number and the pieces of the answer to a request and its data.
    """
    decoder, encoder = msgspec.msgpack.Decoder(requests), msgspec.msgpack.Encoder()
    while True:
        request = decoder.decode(_received(connection, int.from_bytes(_received(connection, LENGTH_BYTES), "big")))
        given = [_received(connection, size) for size in sizes_of(request)]
        pieces: Sequence[bytes] = ()
        try:
            number, pieces = do(request, *given)
            answer = Answer(number, [len(piece) for piece in pieces])
        except Exception as error:  # noqa: BLE001 - told to the one whose request it is.
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


def run(
    requests: Any, sizes_of: Callable[[Any], Sequence[int]], do: Callable[..., tuple[int, Sequence[bytes]]]
) -> None:
    """Be the program: with low priority, until the connection ends. To be called after all imports."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # SIGINT from a terminal: the parent process decides when to end.
    os.nice(_NICENESS)  # Imports at this priority would take too long on a busy machine.
    with socket.socket(fileno=_CONNECTION) as connection, contextlib.suppress(ConnectionError):
        serve(connection, requests, sizes_of, do)
