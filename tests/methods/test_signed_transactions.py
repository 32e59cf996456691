"""Complete transactions pass, in all three versions and both encodings; a missing or wrong signature is told."""

import base64

import base58
import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import AdvanceNonceAccountParams, TransferParams, advance_nonce_account, transfer
from solders.transaction import VersionedTransaction

from actors.methods.signed_transactions import SignedTransaction, decode_signed, signed_transaction
from actors.methods.transactions import TransactionRefused

PAYER, OTHER = Keypair.from_seed(bytes(31) + b"\x01"), Keypair.from_seed(bytes(31) + b"\x02")
TO = Pubkey.from_string("HFqU5x63VTqvQss8hp11i4wVV8bD44PvwucfZ2bU7gRe")
HASH = Hash(bytes(range(32)))


def instructions(data: int = 0) -> list[Instruction]:
    pay = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=TO, lamports=5))
    signed = Instruction(Pubkey(bytes(32)), bytes(data), [AccountMeta(OTHER.pubkey(), True, False)])
    return [pay, signed]


def versions(data: int = 0) -> list[VersionedTransaction]:
    given = instructions(data)
    messages = [
        Message.new_with_blockhash(given, PAYER.pubkey(), HASH),
        MessageV0.try_compile(PAYER.pubkey(), given, [], HASH),
        MessageV1.try_compile(PAYER.pubkey(), given, HASH),
    ]
    return [VersionedTransaction(message, [PAYER, OTHER]) for message in messages]


def base64_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize("transaction", versions())
def test_complete_transactions_of_each_version_pass(transaction: VersionedTransaction) -> None:
    raw = bytes(transaction)
    for found in (
        signed_transaction(raw),
        decode_signed(base64_text(raw), "base64"),
        decode_signed(base58.b58encode(raw).decode(), "base58"),
        decode_signed(base64_text(raw), None),
        decode_signed(base58.b58encode(raw).decode(), None),
    ):
        assert found == SignedTransaction(
            raw, bytes(transaction.signatures[0]), bytes(HASH), None, frozenset({str(PAYER.pubkey()), str(TO)})
        )
    assert found.writes_one_of([str(TO)])
    assert not found.writes_one_of([str(OTHER.pubkey())])


@pytest.mark.parametrize("transaction", versions())
def test_each_corrupt_signature_is_named(transaction: VersionedTransaction) -> None:
    """The second signer's as well as the payer's."""
    for number in (0, 1):
        signatures = list(transaction.signatures)
        signatures[number] = Signature(bytes([1]) + bytes(signatures[number])[1:])
        wrong = VersionedTransaction.populate(transaction.message, signatures)
        with pytest.raises(TransactionRefused, match=f"signature {number + 1} of 2 is not valid"):
            signed_transaction(bytes(wrong))
        signatures[number] = Signature.default()
        absent = VersionedTransaction.populate(transaction.message, signatures)
        with pytest.raises(TransactionRefused, match=f"signature {number + 1} of 2 is missing"):
            signed_transaction(bytes(absent))


@pytest.mark.parametrize("transaction", versions()[:2])
def test_fewer_signatures_than_the_header_asks_for_are_counted(transaction: VersionedTransaction) -> None:
    """solders' own check passes over those that are absent: of none it says that all are good."""
    for kept in (0, 1):
        short = VersionedTransaction.populate(transaction.message, list(transaction.signatures)[:kept])
        assert all(short.verify_with_results())
        with pytest.raises(TransactionRefused, match=f"{kept} signatures, its header asks for 2"):
            signed_transaction(bytes(short))


@pytest.mark.parametrize("transaction", versions())
def test_trailing_bytes_are_refused(transaction: VersionedTransaction) -> None:
    with pytest.raises(TransactionRefused, match="not one transaction"):
        signed_transaction(bytes(transaction) + b"\0")


def test_sizes_go_by_version() -> None:
    """A v1 transaction may have 4,096 bytes, the others 1,232."""
    legacy, v0, v1 = versions(1_500)
    for older in (legacy, v0):
        with pytest.raises(TransactionRefused, match="at most 1232"):
            signed_transaction(bytes(older))
    assert signed_transaction(bytes(v1)).raw == bytes(v1)
    assert decode_signed(base64_text(bytes(v1)), None).raw == bytes(v1)
    with pytest.raises(TransactionRefused, match="at most 4096"):
        signed_transaction(bytes(versions(4_000)[2]))


def test_a_durable_nonce_is_found_only_in_first_place() -> None:
    """Such a transaction does not expire with its blockhash."""
    nonce = Keypair().pubkey()
    advance = advance_nonce_account(AdvanceNonceAccountParams(nonce_pubkey=nonce, authorized_pubkey=PAYER.pubkey()))
    pay = instructions()[0]
    for given, account in (([advance, pay], str(nonce)), ([pay, advance], None)):
        message = MessageV0.try_compile(PAYER.pubkey(), given, [], HASH)
        assert signed_transaction(bytes(VersionedTransaction(message, [PAYER]))).nonce_account == account


def test_a_text_in_neither_encoding_is_refused_in_words_for_base64() -> None:
    with pytest.raises(TransactionRefused, match="not valid base64"):
        decode_signed("not a transaction!", None)
