"""Transactions as clients send them: text in one of two encodings, of one of three versions.

Implements: interface specification, "Limits" (transaction size); the node's own caps on texts.
Pure. Signatures are checked in signed_transactions.py. Nothing is said about whether the transaction would succeed.

base58 is decoded in runs of ten digits. The usual digit-by-digit way takes 2.2 ms for the longest transaction, on a
path that strangers can reach before their key is looked up; this takes a sixth of it.
"""

import base64
import binascii

from solders.message import MessageV0
from solders.transaction import VersionedTransaction

TRANSACTION_BYTES_MAX = 1_232  # Legacy and v0: what fits one packet.
TRANSACTION_V1_BYTES_MAX = 4_096
BASE58_CHARACTERS_MAX = 1_683  # Of 1,232 bytes. Texts are measured before they are decoded.
BASE64_CHARACTERS_MAX = 5_464  # Of 4,096 bytes.
_V1_FIRST_BYTE = 0x81
_ALPHABET = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_ALPHABET)}
_RUN = 10  # 58 to the tenth still fits a machine word, so a run costs no long arithmetic.


class TransactionRefused(Exception):
    """Its text says what is wrong, in words for the client."""


def decode_transaction(text: str, encoding: str) -> bytes:
    """The wire bytes. Raises TransactionRefused unless they are exactly one transaction of its version's size.

    A v1 transaction above 1,232 bytes cannot be sent in base58, as the node takes no longer text of it.
    """
    raw = _decoded(text, encoding)
    whole_transaction(raw)
    return raw


def whole_transaction(raw: bytes) -> VersionedTransaction:
    """Raises TransactionRefused unless these bytes are exactly one transaction of its version's size."""
    size_max = TRANSACTION_V1_BYTES_MAX if raw[:1] == bytes((_V1_FIRST_BYTE,)) else TRANSACTION_BYTES_MAX
    if len(raw) > size_max:
        raise TransactionRefused(f"{len(raw)} bytes, at most {size_max} are allowed")
    try:
        transaction = VersionedTransaction.from_bytes(raw)
    except ValueError:
        raise TransactionRefused("the bytes are not one transaction") from None
    if bytes(transaction) != raw:  # from_bytes passes over what follows the end.
        raise TransactionRefused("the bytes are not one transaction")
    return transaction


def account_count(raw: bytes) -> int:
    """How many accounts a whole transaction uses, those of lookup tables included."""
    message = whole_transaction(raw).message
    tables = message.address_table_lookups if isinstance(message, MessageV0) else []
    return len(message.account_keys) + sum(len(t.writable_indexes) + len(t.readonly_indexes) for t in tables)


def writable_keys(raw: bytes) -> tuple[str, ...]:
    """The accounts that a whole transaction names itself and locks for writing; lookup tables are not read."""
    return written_keys(whole_transaction(raw))


def written_keys(transaction: VersionedTransaction) -> tuple[str, ...]:
    """As writable_keys, of a transaction that was read before."""
    message = transaction.message
    header, keys = message.header, message.account_keys
    signers = header.num_required_signatures
    written = [
        *keys[: signers - header.num_readonly_signed_accounts],
        *keys[signers : len(keys) - header.num_readonly_unsigned_accounts],
    ]
    return tuple(str(key) for key in written)


def decode_base58(text: str) -> bytes:
    """Raises ValueError for anything outside the alphabet, white space included."""
    digits = text.encode("ascii")
    total = 0
    try:
        for start in range(0, len(digits), _RUN):
            run = digits[start : start + _RUN]
            value = 0
            for digit in run:
                value = value * 58 + _VALUES[digit]
            total = total * 58 ** len(run) + value
    except KeyError:
        raise ValueError("not base58") from None
    zeros = len(digits) - len(digits.lstrip(_ALPHABET[:1]))
    return bytes(zeros) + total.to_bytes((total.bit_length() + 7) // 8, "big")


def _decoded(text: str, encoding: str) -> bytes:
    if encoding == "binary":  # The older name, which nodes still take.
        encoding = "base58"
    characters_max = {"base58": BASE58_CHARACTERS_MAX, "base64": BASE64_CHARACTERS_MAX}.get(encoding)
    if characters_max is None:
        raise TransactionRefused("the encoding must be base58 or base64")
    if len(text) > characters_max:
        raise TransactionRefused(f"{len(text)} characters of {encoding}, at most {characters_max} are allowed")
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else decode_base58(text)
    except (binascii.Error, ValueError):
        hint = '; base64 needs {"encoding":"base64"}' if encoding == "base58" else ""
        raise TransactionRefused(f"not valid {encoding}{hint}") from None
