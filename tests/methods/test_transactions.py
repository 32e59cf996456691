import base64

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import Transaction, VersionedTransaction

from actors.methods.transactions import (
    TransactionRefused,
    account_count,
    decode_base58,
    decode_transaction,
    writable_keys,
)

PAYER = Keypair.from_seed(bytes(31) + b"\x01")
RAW = bytes(Transaction([PAYER], Message([], PAYER.pubkey()), Hash.default()))


@given(st.binary(max_size=300))
def test_base58_is_the_librarys(raw):
    """Runs of ten digits give what digit by digit gives, leading zeros included."""
    assert decode_base58(base58.b58encode(raw).decode()) == raw


@given(st.text(max_size=40))
def test_what_the_library_refuses_is_refused(text):
    """But for white space at the end, which the library forgives and the node does not."""
    try:
        known = base58.b58decode(text)
    except ValueError:
        known = None
    if known is None or text != text.rstrip():
        with pytest.raises(ValueError):
            decode_base58(text)
    else:
        assert decode_base58(text) == known


def test_both_encodings_give_the_wire_bytes():
    """The bytes that will be on the chain."""
    assert decode_transaction(base58.b58encode(RAW).decode(), "base58") == RAW
    assert decode_transaction(base58.b58encode(RAW).decode(), "binary") == RAW
    assert decode_transaction(base64.b64encode(RAW).decode(), "base64") == RAW


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        ("", "base58", "not one transaction"),
        ("1" * 1_684, "base58", "at most 1683"),
        ("A" * 5_468, "base64", "at most 5464"),
        ("0", "base58", "base64 needs"),
        ("é", "base58", "not valid base58"),
        ("A-_A", "base64", "not valid base64"),
        ("x", "hex", "must be base58 or base64"),
        (base64.b64encode(RAW + b"\0").decode(), "base64", "not one transaction"),
        (base64.b64encode(b"\x81" + bytes(4_095)).decode(), "base64", "not one transaction"),
        (base64.b64encode(b"\x01" + bytes(1_232)).decode(), "base64", "at most 1232"),
    ],
)
def test_what_is_no_transaction_is_told_why(text, encoding, said):
    """Length, alphabet, size and form, in this order; trailing bytes are not passed over."""
    with pytest.raises(TransactionRefused, match=said):
        decode_transaction(text, encoding)


def test_accounts_are_counted_and_the_written_ones_named():
    """Those of lookup tables count, and are not named: only the chain knows them."""
    table = AddressLookupTableAccount(Pubkey.new_unique(), [Pubkey.new_unique() for _ in range(3)])
    program, seen, written = Pubkey.new_unique(), table.addresses[0], Pubkey.new_unique()
    metas = [AccountMeta(seen, False, False), AccountMeta(table.addresses[1], False, True)]
    metas += [AccountMeta(written, False, True), AccountMeta(Pubkey.new_unique(), False, False)]
    message = MessageV0.try_compile(PAYER.pubkey(), [Instruction(program, b"", metas)], [table], Hash.default())
    raw = bytes(VersionedTransaction(message, [PAYER]))
    assert account_count(raw) == 6
    assert writable_keys(raw) == (str(PAYER.pubkey()), str(written))
    assert (account_count(RAW), writable_keys(RAW)) == (1, (str(PAYER.pubkey()),))
