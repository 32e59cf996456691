"""Decodes transactions as clients send them: text in one of two encodings, of one of three versions.

Implements: interface specification, "Limits" (transaction size); the node's own caps on texts.
Pure. signed_transactions.py checks signatures. Nothing here predicts whether a transaction succeeds.

base58 is decoded in runs of ten digits. Decoding single digits takes 2.2 ms for the longest transaction, before the
caller is authenticated; runs take a sixth of that.
"""

import base64
import binascii

from solders.message import MessageV0
from solders.transaction import VersionedTransaction

TRANSACTION_BYTES_MAX = 1_232  # Legacy and v0: one packet.
TRANSACTION_V1_BYTES_MAX = 4_096
BASE58_CHARACTERS_MAX = 1_683  # Of 1,232 bytes. The length is checked before the text is decoded.
BASE64_CHARACTERS_MAX = 5_464  # Of 4,096 bytes.
_V1_FIRST_BYTE = 0x81
_ALPHABET = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_ALPHABET)}
_RUN = 10  # 58 to the tenth fits a machine word, so a run needs no long arithmetic.


class TransactionRefused(Exception):
    """The text of the exception tells the client what is wrong."""


def decode_transaction(text: str, encoding: str) -> bytes:
    """Decode to wire bytes. Raises TransactionRefused unless they are exactly one transaction of its version's size.

    A v1 transaction above 1,232 bytes cannot be sent in base58, because nodes accept no longer base58 text.
    """
    raw = _decoded(text, encoding)
    whole_transaction(raw)
    return raw


def whole_transaction(raw: bytes) -> VersionedTransaction:
    """Parse wire bytes. Raises TransactionRefused unless they are exactly one transaction of its version's size."""
    size_max = TRANSACTION_V1_BYTES_MAX if raw[:1] == bytes((_V1_FIRST_BYTE,)) else TRANSACTION_BYTES_MAX
    if len(raw) > size_max:
        raise TransactionRefused(f"{len(raw)} bytes, at most {size_max} are allowed")
    try:
        transaction = VersionedTransaction.from_bytes(raw)
    except ValueError:
        raise TransactionRefused("the bytes are not one transaction") from None
    if bytes(transaction) != raw:  # from_bytes ignores bytes after the end.
        raise TransactionRefused("the bytes are not one transaction")
    return transaction


def account_count(raw: bytes) -> int:
    """Count the accounts that a transaction uses, including accounts of lookup tables."""
    message = whole_transaction(raw).message
    tables = message.address_table_lookups if isinstance(message, MessageV0) else []
    return len(message.account_keys) + sum(len(t.writable_indexes) + len(t.readonly_indexes) for t in tables)


def writable_keys(raw: bytes) -> tuple[str, ...]:
    """Return the accounts that transaction bytes name and lock for writing; lookup tables are not read."""
    return written_keys(whole_transaction(raw))


def written_keys(transaction: VersionedTransaction) -> tuple[str, ...]:
    """Return the accounts that a transaction names itself and locks for writing; lookup tables are not read."""
    message = transaction.message
    header, keys = message.header, message.account_keys
    signers = header.num_required_signatures
    written = [
        *keys[: signers - header.num_readonly_signed_accounts],
        *keys[signers : len(keys) - header.num_readonly_unsigned_accounts],
    ]
    return tuple(str(key) for key in written)


def decode_base58(text: str) -> bytes:
    """Decode base58. Raises ValueError for any character outside the alphabet, including white space."""
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
    if encoding == "binary":  # The older name, which nodes still accept.
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
