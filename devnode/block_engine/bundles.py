"""Bundles, and the checks before one is accepted.

Implements: the bundle id, and the checks of the engine with its texts: at most five signed transactions, no
duplicates, and a tip account that one of them write-locks without a lookup table.
Pure. Not here: blockhashes and duplicates on the chain (auction.py), decoding (endpoints.py).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solders.message import MessageV0
from solders.signature import Signature

from devnode.encoding.addresses import SYSTEM_PROGRAM, TIP_ACCOUNTS
from devnode.encoding.wire import Decoded, writable_indexes

TRANSACTIONS_MAX = 5
ACCOUNT_LOCKS_MAX = 128
TIP_LAMPORTS_MIN = 1_000
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NEEDS_TIP = "Bundles must write lock at least one tip account to be eligible for the auction."
_TRANSFER = (2).to_bytes(4, "little")
_TRANSFER_BYTES = 12


@dataclass(frozen=True, slots=True)
class BundleRefusal:
    """Why a bundle is refused, with the engine's text and code."""

    text: str
    code: int = INVALID_PARAMS


@dataclass(frozen=True, slots=True)
class Bundle:
    identifier: str
    transactions: tuple[Decoded, ...]

    @property
    def signatures(self) -> tuple[Signature, ...]:
        return tuple(one.signature for one in self.transactions)


def bundle_of(transactions: Sequence[Decoded]) -> Bundle | BundleRefusal:
    if not transactions:
        return BundleRefusal("bundle contains no transactions")
    if len(transactions) > TRANSACTIONS_MAX:
        return BundleRefusal("bundle exceeds max transaction length")
    if any(_locks(one) > ACCOUNT_LOCKS_MAX for one in transactions):
        return BundleRefusal("transaction has too many account locks", INTERNAL_ERROR)
    distinct = {one.signature for one in transactions}
    if len(distinct) < len(transactions) or not all(_is_signed(one) for one in transactions):
        return BundleRefusal("bundles must not contain any duplicate transactions and every transaction must be signed")
    if not any(locks_tip_account(one) for one in transactions):
        return BundleRefusal(NEEDS_TIP)
    return Bundle(bundle_id(one.signature for one in transactions), tuple(transactions))


def bundle_id(signatures: Iterable[Signature]) -> str:
    """SHA-256 of the transactions' ids in base58, joined by commas."""
    return hashlib.sha256(",".join(map(str, signatures)).encode()).hexdigest()


def _locks(decoded: Decoded) -> int:
    count = len(decoded.keys)
    if isinstance(decoded.message, MessageV0):
        for lookup in decoded.message.address_table_lookups:
            count += len(lookup.writable_indexes) + len(lookup.readonly_indexes)
    return count


def _is_signed(decoded: Decoded) -> bool:
    return all(decoded.transaction.verify_with_results())


def locks_tip_account(decoded: Decoded) -> bool:
    return any(decoded.keys[index] in TIP_ACCOUNTS for index in writable_indexes(decoded.message, decoded.keys))


def offered_tip_lamports(decoded: Decoded) -> int:
    """The tip that a transaction offers by plain transfers, whether they will succeed or not."""
    offered = 0
    for instruction in decoded.message.instructions:
        data, accounts = instruction.data, instruction.accounts
        is_transfer = data[:4] == _TRANSFER and len(data) == _TRANSFER_BYTES and len(accounts) >= 2
        if is_transfer and decoded.keys[instruction.program_id_index] == SYSTEM_PROGRAM:
            to = accounts[1]
            if to < len(decoded.keys) and decoded.keys[to] in TIP_ACCOUNTS:
                offered += int.from_bytes(data[4:], "little")
    return offered
