"""Decodes transactions that are complete: every signature that the header requires is present and valid.

Implements: interface, sendSmartTransaction (a corrupt or missing signature is -32602, free) and "Limits"
(1,232 bytes, 4,096 for v1); a node with skipPreflight passes such a transaction on, and it never lands.
Pure. This module does not check the blockhash, and does not predict whether a transaction succeeds.

solders verifies only the signatures that are present, so it accepts a transaction with fewer than its header requires.
Therefore this module counts them first.
"""

from collections.abc import Collection
from dataclasses import dataclass

from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.addresses import SYSTEM_PROGRAM
from actors.methods.transactions import TransactionRefused, decode_transaction, whole_transaction, written_keys

_ADVANCE_NONCE = b"\x04\x00\x00\x00"  # Number of the system program's instruction AdvanceNonceAccount.


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A complete transaction. signature: of the fee payer; it identifies the transaction on the chain.

    nonce_account: only for a transaction with a durable nonce, which does not expire with its blockhash.
    writable: accounts that the transaction names itself and locks for writing, without accounts of lookup tables.
    """

    raw: bytes
    signature: bytes
    blockhash: bytes
    nonce_account: str | None
    writable: frozenset[str]

    def writes_one_of(self, accounts: Collection[str]) -> bool:
        """Return whether it can pay one of these accounts; a tip account must be named outside lookup tables."""
        return not self.writable.isdisjoint(accounts)


def decode_signed(text: str, encoding: str | None) -> SignedTransaction:
    """Decode a complete transaction. Raises TransactionRefused. encoding None: try base64, then base58.

    The two alphabets overlap, so a text may be valid in both; only one of the two results can be signed.
    """
    if encoding is not None:
        return signed_transaction(decode_transaction(text, encoding))
    try:
        raw = decode_transaction(text, "base64")
    except TransactionRefused as fault:
        try:
            raw = decode_transaction(text, "base58")
        except TransactionRefused:
            raise fault from None
    return signed_transaction(raw)


def signed_transaction(raw: bytes) -> SignedTransaction:
    """Parse wire bytes. Raises TransactionRefused unless they are exactly one transaction, signed by all signers."""
    transaction = whole_transaction(raw)
    message, signatures = transaction.message, transaction.signatures
    needed = message.header.num_required_signatures
    if not 1 <= needed == len(signatures):
        raise TransactionRefused(f"{len(signatures)} signatures, its header asks for {needed}")
    if needed > len(message.account_keys):
        raise TransactionRefused("its header asks for more signatures than it has accounts")
    for number, good in enumerate(transaction.verify_with_results()):
        if not good:
            missing = signatures[number] == Signature.default()
            raise TransactionRefused(f"signature {number + 1} of {needed} is {'missing' if missing else 'not valid'}")
    return SignedTransaction(
        raw,
        bytes(signatures[0]),
        bytes(message.recent_blockhash),
        _nonce_account(transaction),
        frozenset(written_keys(transaction)),
    )


def _nonce_account(transaction: VersionedTransaction) -> str | None:
    """Return the nonce account that the first instruction advances, as the runtime finds it."""
    message = transaction.message
    if not message.instructions:
        return None
    first, keys = message.instructions[0], message.account_keys
    if first.program_id_index >= len(keys) or str(keys[first.program_id_index]) != SYSTEM_PROGRAM:
        return None
    if bytes(first.data[:4]) != _ADVANCE_NONCE or not first.accounts:
        return None
    index = bytes(first.accounts)[0]
    return str(keys[index]) if index < len(keys) else None
