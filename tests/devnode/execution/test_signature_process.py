"""The code of the signature process, run in a thread and driven over a socket as the node drives it."""

import socket
import threading

import msgspec
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from devnode.execution.signature_process import BAD, GOOD, LENGTH_BYTES, READY, serve, verdict


def transaction() -> VersionedTransaction:
    payer = Keypair()
    give = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=1))
    return VersionedTransaction(MessageV0.try_compile(payer.pubkey(), [give], [], Hash.default()), [payer])


def forged() -> bytes:
    return bytes(VersionedTransaction.populate(transaction().message, [Signature.default()]))


def test_every_signature_must_be_valid() -> None:
    assert verdict(bytes(transaction())) == GOOD
    assert verdict(forged()) == BAD
    first, second = Keypair(), Keypair()
    give = transfer(TransferParams(from_pubkey=second.pubkey(), to_pubkey=first.pubkey(), lamports=1))
    both = VersionedTransaction(MessageV0.try_compile(first.pubkey(), [give], [], Hash.default()), [first, second])
    assert verdict(bytes(both)) == GOOD
    half = VersionedTransaction.populate(both.message, [both.signatures[0], Signature.default()])
    assert verdict(bytes(half)) == BAD


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\xff" * 200])
def test_bytes_that_are_no_transaction_are_bad(raw: bytes) -> None:
    assert verdict(raw) == BAD


def test_verdicts_come_in_order_until_the_socket_is_closed() -> None:
    """Each transaction gets one byte, however they are grouped; the process ends with the socket."""
    node, far = socket.socketpair()
    requests = far.makefile("rb")
    server = threading.Thread(target=serve, args=(far, requests))
    server.start()
    good, bad = bytes(transaction()), forged()
    groups = [[good, bad, good, good, good, bad], [bad], [good]]
    for group in groups:
        text = msgspec.msgpack.encode(group)
        node.sendall(len(text).to_bytes(LENGTH_BYTES, "big") + text)
    node.shutdown(socket.SHUT_WR)
    server.join(timeout=10)
    assert not server.is_alive()
    requests.close()
    far.close()
    heard = b"".join(iter(lambda: node.recv(100), b""))
    node.close()
    assert heard == READY + bytes([GOOD, BAD, GOOD, GOOD, GOOD, BAD, BAD, GOOD])
