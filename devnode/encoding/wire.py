"""Parses the bytes of a transaction and checks size, canonical form and structure.

Implements: packet limits (1,232 bytes for legacy and v0, 4,096 for v1), refusal of trailing bytes, Agave's
sanitizing rules. Pure. Not here: signatures, blockhashes, duplicates (chain/chain.py).
"""

from dataclasses import dataclass

import msgspec
from solders.hash import Hash
from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import RESERVED, UPGRADEABLE_LOADER

PACKET_BYTES_MAX = 1_232
PACKET_BYTES_MAX_V1 = 4_096
SIGNATURES_MAX = 12
INSTRUCTIONS_MAX = 64
V1_FIRST_BYTE = 0x81

AnyMessage = Message | MessageV0 | MessageV1


@dataclass(frozen=True, slots=True)
class Malformed:
    """The bytes are no valid transaction; `text` is the message of RPC's error -32602."""

    text: str


class Decoded(msgspec.Struct, frozen=True):
    raw: bytes
    transaction: VersionedTransaction
    message: AnyMessage
    signature: Signature
    keys: tuple[Pubkey, ...]  # Static keys only.
    blockhash: Hash
    version: int | None  # None for legacy.

    def instructions(self) -> list[CompiledInstruction]:
        return list(self.message.instructions)


def bytes_max(raw: bytes) -> int:
    return PACKET_BYTES_MAX_V1 if raw[:1] == bytes((V1_FIRST_BYTE,)) else PACKET_BYTES_MAX


def decode(raw: bytes) -> Decoded | Malformed:
    """Parse and sanitize a transaction. Refuses bytes that differ from the transaction's own serialization."""
    limit = bytes_max(raw)
    if len(raw) > limit:
        return Malformed(
            f"decoded solana_transaction::versioned::VersionedTransaction too large: "
            f"{len(raw)} bytes (max: {limit} bytes)"
        )
    try:
        transaction = VersionedTransaction.from_bytes(raw)
    except ValueError as error:
        return Malformed(f"failed to deserialize solana_transaction::versioned::VersionedTransaction: {error}")
    if bytes(transaction) != raw:
        return Malformed("failed to deserialize solana_transaction::versioned::VersionedTransaction: trailing bytes")
    message = transaction.message
    keys = tuple(message.account_keys)
    fault = _structure_fault(transaction, message, keys)
    if fault is not None:
        return Malformed(f"invalid transaction: {fault}")
    version = transaction.version()
    return Decoded(
        raw=raw,
        transaction=transaction,
        message=message,
        signature=transaction.signatures[0],
        keys=keys,
        blockhash=message.recent_blockhash,
        version=version if isinstance(version, int) else None,
    )


def _structure_fault(transaction: VersionedTransaction, message: AnyMessage, keys: tuple[Pubkey, ...]) -> str | None:
    header = message.header
    if not 1 <= header.num_required_signatures <= SIGNATURES_MAX:
        return "Transaction failed to sanitize accounts offsets correctly"
    if len(transaction.signatures) != header.num_required_signatures or len(message.instructions) > INSTRUCTIONS_MAX:
        return "Transaction failed to sanitize accounts offsets correctly"
    try:
        transaction.sanitize()
        if isinstance(message, MessageV1):
            message.validate()
    except Exception:  # noqa: BLE001 - solders raises its own SanitizeError, which derives from Exception alone.
        return "Transaction failed to sanitize accounts offsets correctly"
    if len(set(keys)) != len(keys):
        return "Transaction loads an account twice"
    return None


def writable_indexes(message: AnyMessage, keys: tuple[Pubkey, ...]) -> list[int]:
    """Indexes of write-locked static keys: writable by the header, not reserved, not called as a program."""
    header = message.header
    signed = header.num_required_signatures
    asked = [
        *range(signed - header.num_readonly_signed_accounts),
        *range(signed, len(keys) - header.num_readonly_unsigned_accounts),
    ]
    return [
        index
        for index in asked
        if keys[index] not in RESERVED and (not message.is_key_called_as_program(index) or UPGRADEABLE_LOADER in keys)
    ]
