"""Memos of signed statements: their text, their transactions, and the next step of each by its state on the chain.

Implements: decisions, "Signed roots" (memos on the chain). Pure: the blockhash and the nodes' answers are arguments.
"""

import re
from enum import Enum, unique
from typing import NamedTuple

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.addresses import MEMO_PROGRAM
from actors.upstream.signature_status import SignatureStatus

# By the memo program's documentation 566 bytes take 200,000 units at most: 110 take 39,000, and a signer some more.
UNIT_LIMIT = 60_000
_SIGNATURE_LAMPORTS = 5_000
# Charged transactions of one series in an hour: the memo, or a failed one and another one.
CHARGED_MAX = 2
_PROGRAM = Pubkey.from_string(MEMO_PROGRAM)
_TEXT = re.compile(r"ledger-gateway root (\d{1,9}) (\d{1,18}) ([0-9a-f]{64})", re.ASCII)


class Root(NamedTuple):
    """A statement of a series. digest: its hash, which covers all statements before it."""

    series: int
    number: int
    digest: bytes

    def text(self) -> str:
        return f"ledger-gateway root {self.series} {self.number} {self.digest.hex()}"


def read_root(text: str) -> Root | None:
    """Parse a memo. None: it is another kind of memo."""
    found = _TEXT.fullmatch(text)
    return None if found is None else Root(int(found[1]), int(found[2]), bytes.fromhex(found[3]))


class Memo(NamedTuple):
    """The memo of a series in an hour. hour: hours since 1970. charged: transactions that failed on the chain, and paid
    for it. signature, transaction, valid_to: of the newest attempt, which can land up to that block height; None: there
    is none that could."""

    root: Root
    hour: int
    attempt: int = 0
    charged: int = 0
    signature: bytes | None = None
    transaction: bytes | None = None
    valid_to: int | None = None


class Look(NamedTuple):
    """What nodes say of a signature. height: the final block height of a node, which told it before it said that it
    does not know the signature; None: no node said that."""

    status: SignatureStatus | None
    height: int | None


@unique
class MemoStep(Enum):
    WAIT = "wait"
    SEND_AGAIN = "send again"  # Send the same bytes, which can land only once.
    SEND_NEW = "send new"  # Send with a fresh blockhash: no earlier attempt can land any more.
    LANDED = "landed"
    FAILED = "failed"  # It landed on the chain and failed.
    LOST = "lost"  # No attempt can land any more, and the hour is over, or enough fees were paid.


def next_step(memo: Memo, look: Look | None, *, is_over: bool) -> MemoStep:
    """look: None where there is no signature to ask for. is_over: the memo's hour."""
    may_begin = not is_over and memo.charged < CHARGED_MAX
    if memo.signature is None or memo.valid_to is None or look is None:
        return MemoStep.SEND_NEW if may_begin else MemoStep.LOST
    if look.status is not None:
        if not look.status.finalized:
            return MemoStep.WAIT  # Its fork may still be lost: then no node knows it later.
        return MemoStep.LANDED if look.status.error is None else MemoStep.FAILED
    if look.height is None:
        return MemoStep.WAIT
    if look.height > memo.valid_to:
        return MemoStep.SEND_NEW if may_begin else MemoStep.LOST
    return MemoStep.WAIT if is_over else MemoStep.SEND_AGAIN


def fee_lamports(unit_price_micro_lamports: int) -> int:
    """Return the most that one memo costs; one that does not land costs nothing."""
    return _SIGNATURE_LAMPORTS - (-unit_price_micro_lamports * UNIT_LIMIT // 1_000_000)


def make_transaction(payer: Keypair, root: Root, blockhash: str, unit_price_micro_lamports: int) -> tuple[bytes, bytes]:
    """Return the signature and the bytes. The memo program checks that the payer signs."""
    memo = Instruction(_PROGRAM, root.text().encode(), [AccountMeta(payer.pubkey(), is_signer=True, is_writable=False)])
    budget = [set_compute_unit_limit(UNIT_LIMIT), set_compute_unit_price(unit_price_micro_lamports)]
    message = MessageV0.try_compile(payer.pubkey(), [*budget, memo], [], Hash.from_string(blockhash))
    transaction = VersionedTransaction(message, [payer])
    return bytes(transaction.signatures[0]), bytes(transaction)


def roots_of(transaction: VersionedTransaction, payer: str) -> list[Root]:
    """Return the statements that a transaction names, if this key pays for it."""
    keys = transaction.message.account_keys
    if str(keys[0]) != payer:
        return []
    found = []
    for instruction in transaction.message.instructions:
        if instruction.program_id_index < len(keys) and keys[instruction.program_id_index] == _PROGRAM:
            root = read_root(bytes(instruction.data).decode(errors="replace"))
            found += [] if root is None else [root]
    return found
