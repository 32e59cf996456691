"""The program that checks signatures in a second process, beside a busy node.

Run as `python -m actors.devnode.execution.signature_process DESCRIPTOR`; signature_checks.py starts it and asks it.
Reads groups of transactions from the inherited socket, writes one byte when it is ready and then one byte for each
transaction, in order. Ends when the node closes the socket. Imports few modules, since callers wait while it starts.
Not here: the consequences of a verdict.
"""

import contextlib
import signal
import socket
import sys
from typing import BinaryIO

import msgspec
from solders.transaction import VersionedTransaction

READY = b"\x02"
GOOD = 1
BAD = 0
LENGTH_BYTES = 4
_VERDICTS_AT_ONCE = 8  # The node goes on with these while the next are being looked at; each time it is woken costs it.


def verdict(raw: bytes) -> int:
    """Whether every signature of the transaction is good; what is no transaction at all has none."""
    try:
        return GOOD if all(VersionedTransaction.from_bytes(raw).verify_with_results()) else BAD
    except ValueError:
        return BAD


def serve(channel: socket.socket, requests: BinaryIO) -> None:
    """requests: the reading side of the channel. Returns when the node is gone."""
    channel.sendall(READY)
    while len(head := requests.read(LENGTH_BYTES)) == LENGTH_BYTES:
        group = msgspec.msgpack.decode(requests.read(int.from_bytes(head, "big")), type=list[bytes])
        for start in range(0, len(group), _VERDICTS_AT_ONCE):
            channel.sendall(bytes(map(verdict, group[start : start + _VERDICTS_AT_ONCE])))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal reaches all; the node says when it is over.
    # Suppressed: the node died in the middle of a sentence.
    with contextlib.suppress(OSError, msgspec.DecodeError), socket.socket(fileno=int(sys.argv[1])) as channel:
        serve(channel, channel.makefile("rb"))


if __name__ == "__main__":
    main()
