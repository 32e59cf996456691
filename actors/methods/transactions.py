"""Decodes transactions as clients send them: text in one of two encodings, of one of three versions.

Implements: interface, "Limits" (transaction size); the node's own caps on texts.
Pure. signed_transactions.py checks signatures. Nothing here predicts whether a transaction succeeds.

base58 is decoded in runs of 87 digits, each by the compiled decoder that solders has for 64 bytes, and the numbers of
the runs are joined in pairs. The time of base58 grows with the square of the length: digit by digit in Python the
longest transaction takes 2.2 ms, in runs of ten digits 150 us, and in these runs 50 us. The decoder that solders has
for texts of any length (in the JSON of an account) takes 525 us.
"""

import base64
import binascii

from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

TRANSACTION_BYTES_MAX = 1_232  # Legacy and v0: one packet.
TRANSACTION_V1_BYTES_MAX = 4_096
BASE58_CHARACTERS_MAX = 1_683  # Of 1,232 bytes. The length is checked before the text is decoded.
BASE64_CHARACTERS_MAX = 5_464  # Of 4,096 bytes.
_V1_FIRST_BYTE = 0x81
_ZERO, _ONE = "1", "2"  # Digits of base58.
# With a digit of one in front, every run of so many digits is a number of exactly 64 bytes, as a signature is.
_RUN = 87
_RUN_VALUES: int = 58**_RUN
_JOINED_VALUES = tuple(_RUN_VALUES ** (2**level) for level in range(5))  # 32 runs: 2,784 digits.
_BASE58_DIGITS_MAX = _RUN * 2 ** len(_JOINED_VALUES)


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
    return tuple(str(key) for key in written(transaction))


def written(transaction: VersionedTransaction) -> list[Pubkey]:
    """Return the keys of written_keys as they are."""
    message = transaction.message
    header, keys = message.header, message.account_keys
    signers = header.num_required_signatures
    return [
        *keys[: signers - header.num_readonly_signed_accounts],
        *keys[signers : len(keys) - header.num_readonly_unsigned_accounts],
    ]


def written_by_tables(raw: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return the lookup tables from which transaction bytes load accounts to write, and the places in each."""
    message = whole_transaction(raw).message
    tables = message.address_table_lookups if isinstance(message, MessageV0) else []
    return tuple((str(table.account_key), bytes(table.writable_indexes)) for table in tables if table.writable_indexes)


def decode_base58(text: str) -> bytes:
    """Decode base58 of at most 2,784 digits. Raises ValueError for any character outside the alphabet, including white
    space."""
    assert len(text) <= _BASE58_DIGITS_MAX, len(text)
    padded = _ZERO * (-len(text) % _RUN) + text
    numbers = [_run(padded[start : start + _RUN]) for start in range(len(padded) - _RUN, -1, -_RUN)]
    for values in _JOINED_VALUES:
        if len(numbers) <= 1:
            break
        if len(numbers) % 2:
            numbers.append(0)
        numbers = [high * values + low for low, high in zip(numbers[::2], numbers[1::2], strict=True)]
    total = numbers[0] if numbers else 0
    zeros = len(text) - len(text.lstrip(_ZERO))
    return bytes(zeros) + total.to_bytes((total.bit_length() + 7) // 8, "big")


def _run(digits: str) -> int:
    """Return the number that _RUN digits stand for. Raises ValueError."""
    number = int.from_bytes(bytes(Signature.from_string(_ONE + digits)), "big")
    return number - _RUN_VALUES


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
