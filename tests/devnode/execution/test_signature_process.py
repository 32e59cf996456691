"""The process that checks signatures, spoken to as the node speaks to it, in this process."""

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

from actors.devnode.execution.signature_process import BAD, GOOD, LENGTH_BYTES, READY, serve, verdict


def transaction() -> VersionedTransaction:
    payer = Keypair()
    give = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=1))
    return VersionedTransaction(MessageV0.try_compile(payer.pubkey(), [give], [], Hash.default()), [payer])


def forged() -> bytes:
    return bytes(VersionedTransaction.populate(transaction().message, [Signature.default()]))


def test_only_what_is_signed_by_all_is_good() -> None:
    assert verdict(bytes(transaction())) == GOOD
    assert verdict(forged()) == BAD
    first, second = Keypair(), Keypair()
    give = transfer(TransferParams(from_pubkey=second.pubkey(), to_pubkey=first.pubkey(), lamports=1))
    both = VersionedTransaction(MessageV0.try_compile(first.pubkey(), [give], [], Hash.default()), [first, second])
    assert verdict(bytes(both)) == GOOD
    half = VersionedTransaction.populate(both.message, [both.signatures[0], Signature.default()])
    assert verdict(bytes(half)) == BAD


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\xff" * 200])
def test_what_is_no_transaction_is_not_signed(raw: bytes) -> None:
    assert verdict(raw) == BAD


def test_verdicts_come_in_the_order_of_the_questions_until_the_node_is_gone() -> None:
    """One byte each, whatever groups they came in; the end of the socket is the end of the process."""
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
