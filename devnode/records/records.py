"""Blocks, landed transactions and their results, as plain values.

Implements: the content of getTransaction's `meta` and of getBlock, before any encoding.
Pure. Keys are base58 text and bytes are bytes, so that msgspec writes and reads these types without conversion. The
types are msgspec structs: every transaction makes several, and a frozen dataclass takes eight times as long to create.
Not here: JSON shapes (parsing/transactions.py), storage (journal/journal.py).
"""

from typing import Any

import msgspec
from solders.transaction import VersionedTransaction


class TokenBalance(msgspec.Struct, frozen=True):
    account_index: int
    mint: str
    owner: str
    program: str
    amount: int
    decimals: int


class InnerInstruction(msgspec.Struct, frozen=True):
    program_index: int
    accounts: bytes
    data: bytes
    stack_height: int


class InnerInstructions(msgspec.Struct, frozen=True):
    index: int  # Position of the outer instruction that made these inner calls.
    instructions: tuple[InnerInstruction, ...]


class ReturnData(msgspec.Struct, frozen=True):
    program: str
    data: bytes


class TransactionMeta(msgspec.Struct, frozen=True):
    err: Any  # JSON form of the error as RPC shows it; None when the transaction succeeded.
    fee_lamports: int
    compute_units: int
    pre_lamports: tuple[int, ...]
    post_lamports: tuple[int, ...]
    pre_tokens: tuple[TokenBalance, ...]
    post_tokens: tuple[TokenBalance, ...]
    inner: tuple[InnerInstructions, ...]
    logs: tuple[str, ...]
    loaded_writable: tuple[str, ...]
    loaded_readonly: tuple[str, ...]
    return_data: ReturnData | None = None


class TransactionRecord(msgspec.Struct, frozen=True):
    """One transaction that landed, successful or not."""

    slot: int
    position: int  # In its block, from 0.
    signature: str
    raw: bytes
    keys: tuple[str, ...]  # Static keys, then loaded writable, then loaded readonly.
    meta: TransactionMeta
    # Of a new record; the archive does not have them.
    compute_unit_price: int | None = None  # Micro-lamports, as getRecentPrioritizationFees counts; None: no units.
    write_locked: tuple[str, ...] = ()

    def transaction(self) -> VersionedTransaction:
        """Parse the transaction. Parsing takes a microsecond; keeping all of them parsed would cost memory."""
        return VersionedTransaction.from_bytes(self.raw)


class BlockHeader(msgspec.Struct, frozen=True):
    slot: int
    parent_slot: int
    height: int
    blockhash: str
    previous_blockhash: str
    unix_time: int


class Reward(msgspec.Struct, frozen=True):
    """What the leader of a block got of its fees."""

    pubkey: str
    lamports: int
    post_lamports: int  # The leader's balance with it.


class Block(BlockHeader, frozen=True):
    transactions: tuple[TransactionRecord, ...]
    reward: Reward | None = None  # None: the block had no fees.
