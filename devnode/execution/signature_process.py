"""Checks signatures in a second process, beside a busy node.

Run as `python -m devnode.execution.signature_process DESCRIPTOR`; signature_checks.py starts it.
Reads groups of transactions from the inherited socket; writes one byte when it is ready and then one byte for each
transaction, in order. Ends when the node closes the socket. Imports few modules, so that it starts quickly.
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
_VERDICTS_AT_ONCE = 8  # The node continues with 8 while the next 8 are checked; each write wakes the node, at a cost.


def verdict(raw: bytes) -> int:
    """GOOD if every signature of the transaction is valid; BAD otherwise, and for bytes that are no transaction."""
    try:
        return GOOD if all(VersionedTransaction.from_bytes(raw).verify_with_results()) else BAD
    except ValueError:
        return BAD


def serve(channel: socket.socket, requests: BinaryIO) -> None:
    """Answer requests until the node closes the channel.

    requests: the channel as a file to read from."""
    channel.sendall(READY)
    while len(head := requests.read(LENGTH_BYTES)) == LENGTH_BYTES:
        group = msgspec.msgpack.decode(requests.read(int.from_bytes(head, "big")), type=list[bytes])
        for start in range(0, len(group), _VERDICTS_AT_ONCE):
            channel.sendall(bytes(map(verdict, group[start : start + _VERDICTS_AT_ONCE])))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches this process too; the node ends it in order.
    # The node may die in the middle of a message.
    with contextlib.suppress(OSError, msgspec.DecodeError), socket.socket(fileno=int(sys.argv[1])) as channel:
        serve(channel, channel.makefile("rb"))


if __name__ == "__main__":
    main()
