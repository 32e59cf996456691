"""The loop of a program beside another process, over a socket of this one."""

import socket
import threading
from collections.abc import Sequence

import msgspec
import pytest

from actors.side_program import LENGTH_BYTES, Answer, serve


class Join(msgspec.Struct, tag=True, array_like=True):
    sizes: Sequence[int]


class Fail(msgspec.Struct, tag=True, array_like=True):
    pass


def do(request: Join | Fail, *data: bytes) -> tuple[int, Sequence[bytes]]:
    if isinstance(request, Fail):
        raise KeyError("secret")
    return len(data), [b"+".join(data), b""]


def sizes_of(request: Join | Fail) -> Sequence[int]:
    return request.sizes if isinstance(request, Join) else ()


def asked(ours: socket.socket, request: Join | Fail, data: bytes = b"") -> tuple[Answer, bytes]:
    header = msgspec.msgpack.encode(request)
    ours.sendall(len(header).to_bytes(LENGTH_BYTES, "big") + header + data)
    with ours.makefile("rb") as file:
        answer = msgspec.msgpack.decode(file.read(int.from_bytes(file.read(LENGTH_BYTES), "big")), type=Answer)
        return answer, file.read(sum(answer.pieces))


def test_requests_are_answered_in_turn_until_the_connection_ends() -> None:
    """With the pieces of data that each counts; an error is an answer that names its kind, and nothing of its text."""
    ours, theirs = socket.socketpair()
    ended: list[BaseException] = []

    def program() -> None:
        try:
            serve(theirs, Join | Fail, sizes_of, do)
        except ConnectionError as error:
            ended.append(error)

    thread = threading.Thread(target=program)
    thread.start()
    with ours, theirs:
        assert asked(ours, Join((3, 0, 2)), b"abcde") == (Answer(3, [7, 0]), b"abc++de")
        assert asked(ours, Fail()) == (Answer(0, [], "KeyError"), b"")
        assert asked(ours, Join(())) == (Answer(0, [0, 0]), b"")
        ours.shutdown(socket.SHUT_WR)
        thread.join(10)
    assert not thread.is_alive() and len(ended) == 1


def test_a_program_does_not_go_on_with_half_a_message() -> None:
    """Of a process that was killed while it sent one."""
    ours, theirs = socket.socketpair()
    header = msgspec.msgpack.encode(Join((10,)))
    ours.sendall(len(header).to_bytes(LENGTH_BYTES, "big") + header + b"half")
    ours.close()
    with theirs, pytest.raises(ConnectionResetError):
        serve(theirs, Join | Fail, sizes_of, do)
